"""Multi-view datasets of the source files of installed packages.

    python -m benchmarks.packages FOLDER
    manyview compare FOLDER/*.npz --methods MMC,MMC-F,k-means,mini-batch,spectral --repeats 5

A sample is a Python file, and its class is the package or subpackage it belongs to. The views are
counts of the names in its code, counts of the words of its comments and docstrings, and the shares
of keywords, operators and kinds of tokens. Names of the classes are removed from all files.
Packages that are not installed are left out. Other versions of a package give other datasets, so
methods should be compared in one run.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import keyword
import random
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer

from manyview import as_views
from manyview.datasets import write_views

FEWEST = 40  # files of a class
SHORTEST = 1500  # characters of a file
MOST_WORDS = 3000
MOST_KINDS = 80

SETS = {
    "packages8": ("networkx pandas sympy torch scipy sklearn plotly pygments", 230),
    "packages6": ("dask fontTools matplotlib numpy pip mypy", 130),
    "packages7": ("hypothesis mypyc PIL pydantic rich setuptools distributed", 85),
    "packages2": ("torch sympy", 700),
    "mixed6": ("numpy pyarrow narwhals playwright pip fontTools", 300),
    "torch6": (
        "torch.nn torch.distributed torch._inductor torch.ao torch.testing torch._dynamo",
        110,
    ),
    "sympy6": (
        "sympy.physics sympy.functions sympy.polys sympy.stats sympy.solvers sympy.printing",
        70,
    ),
    "science8": (
        "scipy.stats scipy.optimize scipy.special sklearn.linear_model sklearn.utils pandas.io "
        "pandas.core matplotlib",
        70,
    ),
    "packages10": (
        "networkx pandas sympy torch scipy sklearn plotly numpy pip matplotlib",
        900,
    ),
}


class Source(NamedTuple):
    """The names, words and kinds of tokens of a file."""

    names: str
    words: str
    kinds: Counter[str]


@cache
def read(path: Path, shortest: int = SHORTEST) -> Source | None:
    """Return a file's names, words and kinds of tokens; None if it is short or no valid Python."""
    try:
        text = path.read_text(encoding="utf8")
        if len(text) < shortest:
            return None
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, UnicodeDecodeError, tokenize.TokenError):
        return None
    names, words = [], []
    kinds: Counter[str] = Counter()
    for kind, string, *_ in tokens:
        if kind == tokenize.NAME and not keyword.iskeyword(string):
            names.append(string)
        elif kind == tokenize.COMMENT or string.endswith(('"""', "'''")):
            words.append(string)
        is_sign = kind == tokenize.OP or keyword.iskeyword(string)
        kinds[string if is_sign else tokenize.tok_name[kind]] += 1
    return Source(" ".join(names), " ".join(words), kinds)


def sources(module: str, most: int, seed: int) -> list[Source]:
    """Return at most `most` files of a package, in random order."""
    spec = importlib.util.find_spec(module.split(".")[0])
    if spec is None or not spec.submodule_search_locations:
        return []
    folder = Path(spec.submodule_search_locations[0], *module.split(".")[1:])
    paths = sorted(folder.rglob("*.py"))
    random.Random(seed).shuffle(paths)
    found = (source for source in map(read, paths) if source is not None)
    return list(islice(found, most))


def without(modules: Iterable[str], source: Source) -> Source:
    """Return a file without the names of packages; longer words that contain one stay."""
    parts = sorted({re.escape(part) for module in modules for part in module.split(".")})
    own = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(parts)})(?![A-Za-z])", re.IGNORECASE)
    return source._replace(names=own.sub(" ", source.names), words=own.sub(" ", source.words))


def make(modules: list[str], most: int, path: Path, fewest: int = FEWEST) -> str:
    """Write the dataset of some packages and return a summary."""
    found = {module: sources(module, most, seed=0) for module in modules}
    kept = {module: files for module, files in found.items() if len(files) >= fewest}
    if len(kept) < 2:
        return f"{path.stem}: fewer than two of {', '.join(modules)} are installed; left out"
    files = [without(kept, source) for part in kept.values() for source in part]
    y = np.repeat(list(kept), [len(part) for part in kept.values()])
    names = CountVectorizer(
        min_df=8, max_features=MOST_WORDS, token_pattern=r"[A-Za-z_]\w{2,}", lowercase=False
    )
    words = CountVectorizer(
        min_df=8, max_features=MOST_WORDS, token_pattern=r"[A-Za-z]{3,}", stop_words="english"
    )
    kinds = [
        kind for kind, _ in sum((s.kinds for s in files), Counter[str]()).most_common(MOST_KINDS)
    ]
    style = np.array([[source.kinds[kind] for kind in kinds] for source in files], dtype=float)
    views = as_views(
        {
            "names": _counted(names, [source.names for source in files]),
            "words": _counted(words, [source.words for source in files]),
            "style": pd.DataFrame(style / style.sum(axis=1, keepdims=True), columns=kinds),
        }
    )
    write_views(path, views, y)
    sizes = ", ".join(f"{module} {len(part)}" for module, part in kept.items())
    return f"{path.stem}: {len(files)} files; {sizes}"


def _counted(vectorizer: CountVectorizer, texts: list[str]) -> pd.DataFrame:
    counts = vectorizer.fit_transform(texts)
    columns = vectorizer.get_feature_names_out()
    sparse: Any = pd.DataFrame.sparse  # not typed in the stubs of pandas
    frame: pd.DataFrame = sparse.from_spmatrix(counts, columns=columns)
    return frame


def written(folder: Path) -> Iterator[str]:
    """Write all datasets and yield their summaries."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (modules, most) in SETS.items():
        yield make(modules.split(), most, folder / f"{name}.npz")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="output folder")
    for line in written(parser.parse_args().folder):
        print(line, flush=True)
