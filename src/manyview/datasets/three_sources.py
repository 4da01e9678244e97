"""The archive of 3Sources as University College Dublin publishes it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp

from manyview.datasets.assemble import assemble
from manyview.datasets.dataset import Dataset
from manyview.datasets.join import Table, first_few, join

__all__ = ["MARK", "read_three_sources"]

MARK = "3sources_bbc.mtx"
_SOURCES = ("bbc", "guardian", "reuters")
_CLASSES = "3sources.disjoint.clist"


def read_three_sources(folder: Path, *, samples: str = "common") -> Dataset:
    """Read the archive's files: for each source counts of terms in documents, and the classes.

    Parameters
    ----------
    folder : Path
        The folder of ``3sources_bbc.mtx`` and its like.
    samples : {"common", "all"}, default="common"
        The 169 stories that all three sources report, or all 416.

    Returns
    -------
    Dataset
        Stories in the order of their numbers; term counts as sparse float32, as whole numbers
        exact; the dominant topic of each story as its class.
    """
    tables = [_table(folder, source) for source in _SOURCES]
    everything = np.unique(np.concatenate([table.ids for table in tables]))
    joined = join(tables, samples=samples, order=everything)
    classes = _classes(folder / _CLASSES)
    lacking = [story for story in joined.ids.tolist() if story not in classes]
    if lacking:
        raise ValueError(f"{_CLASSES} has no class for stories {first_few(lacking)}")
    return assemble(
        joined.arrays,
        view_names=list(_SOURCES),
        feature_names=[table.feature_names for table in tables],
        present=joined.present,
        labels=[classes[story] for story in joined.ids.tolist()],
        name="3sources",
        sample_ids=joined.ids,
    )


def _table(folder: Path, source: str) -> Table:
    matrix, terms, documents = (
        folder / f"3sources_{source}.{suffix}" for suffix in ("mtx", "terms", "docs")
    )
    names, ids = (np.asarray(_lines(file), dtype=np.str_) for file in (terms, documents))
    with _existing(matrix).open("rb") as file:
        try:
            counts = scipy.io.mmread(file)
        # a damaged file fails in as many ways as there are bytes in it
        except Exception as error:
            raise ValueError(
                f"{matrix.name}: not a readable Matrix Market file ({error})"
            ) from error
    if counts.shape != (len(names), len(ids)):
        raise ValueError(
            f"{matrix.name} has shape {counts.shape}; expected the {len(names)} lines of "
            f"{terms.name} by the {len(ids)} lines of {documents.name}"
        )
    # the archive has terms in rows
    array = sp.csr_array(counts.T, dtype=np.float32)
    return Table(source, documents.name, ids, array, names)


def _classes(path: Path) -> dict[str, str]:
    """Class of each story, from lines such as ``business, 001,013``."""
    classes: dict[str, str] = {}
    for line in _lines(path):
        name, *stories = re.split(r"\s*[,:]\s*", line.strip(" ,"))
        for story in stories:
            if classes.setdefault(story, name) != name:
                raise ValueError(
                    f"{path.name}: story {story!r} is in {classes[story]!r} and in {name!r}; "
                    "expected one class a story"
                )
    return classes


def _lines(path: Path) -> list[str]:
    try:
        content = _existing(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name}: not a text in UTF-8 ({error})") from error
    return [line.strip() for line in content.split("\n") if line.strip()]


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(f"{path.name} is missing beside {MARK}")
    return path
