"""``manyview fit`` and ``manyview predict``: cluster the samples of a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter

import numpy as np
import numpy.typing as npt

from manyview import MMC, read_model, write_model
from manyview.cli.as_fitted import as_fitted
from manyview.cli.named_data import find_dataset
from manyview.cli.outputs import STDOUT, check_targets, write_combinations, write_labels
from manyview.cli.tables import (
    SCORES,
    cluster_sizes,
    described,
    facts,
    kept_features,
    new_console,
    objective_span,
    print_parts,
    scores,
)
from manyview.datasets import Dataset

__all__ = ["fit_file", "predict_file"]

EXPLAINED = 10  # combinations of each order for each cluster


def fit_file(
    data: str,
    out: Path,
    model: MMC,
    *,
    explain: Path | None,
    saved: Path | None,
    force: bool,
    quiet: bool,
    **columns: str | None,
) -> None:
    """Cluster the samples of a file or set and write their labels.

    Parameters
    ----------
    data : str
        A file of views or the name of a set; see :func:`manyview.cli.named_data.find_dataset`.
    out : Path
        Where the labels go.
    model : MMC
        The estimator, not yet fitted.
    explain : Path or None
        Where what speaks for each cluster goes, single features and pairs.
    saved : Path or None
        Where the model goes.
    force : bool
        Whether older files may be replaced.
    quiet : bool
        Whether to say nothing but warnings and errors.
    columns
        As in :func:`manyview.cli.named_data.find_dataset`.
    """
    kept = None if model.checkpoint is None else Path(model.checkpoint)
    targets = {"--out": out, "--explain": explain, "--model": saved, "--checkpoint": kept}
    check_targets(Path(data), targets, written=("--out", "--explain", "--model"), force=force)
    if saved == STDOUT:
        raise ValueError("--model - would write a model to standard output; expected a file")
    dataset = find_dataset(data, **columns)
    notes = new_console(stderr=True)
    if not quiet:
        # a first word before the fit, whose start takes a while on large data
        notes.print(described(dataset.name, dataset.views))
    start = perf_counter()
    model.fit(dataset.views)
    seconds = perf_counter() - start
    if saved is not None:
        write_model(saved, model)
    # standard output last: who reads it may leave early
    for path in sorted(filter(None, (out, explain)), key=lambda path: path == STDOUT):
        if path == out:
            write_labels(path, model.labels_, _ids(dataset))
        else:
            _write_explained(path, model)
    if not quiet:
        notes.print()
        taken = STDOUT in (out, explain)
        written = {"labels": out, "features": explain, "model": saved}
        rows = [
            *_of_clusters(model.labels_, model, dataset),
            ("sweeps", str(model.n_iter_)),
            ("objective", objective_span(model)),
            ("seconds", f"{seconds:.2f}"),
            *_of_files(written),
        ]
        print_parts(new_console(stderr=taken), kept_features(model), facts(rows))


def predict_file(
    saved: Path, data: str, out: Path, *, force: bool, quiet: bool, **columns: str | None
) -> None:
    """Write the clusters that a model finds the samples of a file or set in.

    Parameters
    ----------
    saved : Path
        The file of the model.
    data, out, force, quiet, columns
        As in :func:`fit_file`.
    """
    if saved.exists() and out.exists() and saved.samefile(out):
        raise ValueError(f"--out would replace the model {saved}; give another --out")
    check_targets(Path(data), {"--out": out}, written=("--out",), force=force)
    model = read_model(saved)
    dataset = find_dataset(data, **columns)
    if not quiet:
        new_console(stderr=True).print(described(dataset.name, dataset.views))
    labels = model.predict(as_fitted(dataset.views, model))
    write_labels(out, labels, _ids(dataset))
    if not quiet:
        rows = [*_of_clusters(labels, model, dataset), *_of_files({"labels": out})]
        print_parts(new_console(stderr=out == STDOUT), facts(rows))


def _ids(dataset: Dataset) -> list[str] | None:
    return None if dataset.sample_ids is None else dataset.sample_ids.tolist()


def _write_explained(path: Path, model: MMC) -> None:
    most = min(2, model.n_views_)
    found = [entry for order in range(1, most + 1) for entry in model.explain(order, top=EXPLAINED)]
    write_combinations(path, sorted(found, key=lambda entry: entry.cluster), most)


def _of_clusters(
    labels: npt.NDArray[np.intp], model: MMC, dataset: Dataset
) -> Iterator[tuple[str, str]]:
    """Yield what there is to say of labels."""
    yield "samples", str(len(labels))
    yield "clusters", cluster_sizes(labels, model.n_clusters)
    if dataset.y is not None:
        figures = zip(SCORES, scores(dataset.y, labels), strict=True)
        told = ", ".join(f"{name} {figure}" for name, figure in figures)
        yield "classes", f"{told} (scored only: they take no part in the clusters)"


def _of_files(written: Mapping[str, Path | None]) -> Iterator[tuple[str, str]]:
    for name, path in written.items():
        if path is not None:
            yield name, "standard output" if path == STDOUT else str(path)
