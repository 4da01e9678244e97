"""Scores with unknown cells, and with imputed ones.

    python -m benchmarks.cells SETS --rates .05 .2 .4 --repeats 2 --results cells.jsonl

Cells are removed at random from every view. MMC with its defaults then takes the views as they are,
or after ``SimpleImputer`` (means) or ``KNNImputer`` of scikit-learn has filled them. Every repeat
draws other cells and has another seed; all ways have the same cells. What the file of results has
is not computed again. Data sets are found as by the command ``manyview fit``. Classes are used for
scoring only.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.impute import KNNImputer, SimpleImputer

from manyview import MMC
from manyview.datasets.files import find_dataset
from manyview.metrics import normalized_mutual_info
from manyview.views import Views

WAYS: dict[str, Callable[[Any], Any]] = {
    "as unknown": lambda X: X,
    "means": SimpleImputer(keep_empty_features=True).fit_transform,
    "KNNImputer": KNNImputer(keep_empty_features=True).fit_transform,
}

Key = tuple[str, float, int, str]


def without_cells(views: Views, rate: float, repeat: int) -> dict[str, Any]:
    """Return dense views without a part of their cells, drawn at random."""
    rng = np.random.default_rng([round(100 * rate), repeat])
    holed = {}
    for name, array in views.items():
        dense = np.asarray(array.toarray() if sp.issparse(array) else array, dtype=np.float64)
        holed[name] = np.where(rng.random(dense.shape) < rate, np.nan, dense)
    return holed


def score(views: dict[str, Any], y: Any, way: str, seed: int) -> float:
    """Return the NMI of MMC with the classes, in percent."""
    filled = {name: WAYS[way](X) for name, X in views.items()}
    model = MMC(len(np.unique(y)), random_state=seed).fit(filled)
    return 100.0 * normalized_mutual_info(y, model.labels_)


def table(found: dict[Key, float]) -> list[str]:
    """Return the rows of a table: the mean of each way over repeats, by rate and data set.

    Examples
    --------
    >>> found = {("orl", 0.2, 0, "as unknown"): 96.0, ("orl", 0.2, 1, "as unknown"): 97.0}
    >>> print("\\n".join(table(found)))
    | cells removed | data set | as unknown | means | KNNImputer |
    |---:|---|---:|---:|---:|
    | 20 % | orl | 96.5 | - | - |
    | 20 % | mean of 1 | 96.5 | - | - |
    """
    scores = defaultdict(list)
    for (name, rate, _, way), value in found.items():
        scores[name, rate, way].append(value)
    means = {key: float(np.mean(values)) for key, values in scores.items()}
    names = list(dict.fromkeys(name for name, *_ in found))
    rows = [
        f"| cells removed | data set | {' | '.join(WAYS)} |",
        "|---:|---|" + "---:|" * len(WAYS),
    ]
    for rate in sorted({rate for _, rate, *_ in found}):
        columns = [[means.get((name, rate, way), np.nan) for name in names] for way in WAYS]
        entries = [*zip(names, *columns, strict=True)]
        entries.append((f"mean of {len(names)}", *(float(np.mean(column)) for column in columns)))
        for name, *values in entries:
            shown = ("-" if np.isnan(value) else f"{value:.1f}" for value in values)
            rows.append(f"| {rate:.0%} | {name} | {' | '.join(shown)} |".replace("%", " %"))
    return rows


def main() -> None:
    """Compute what the file of results does not have, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sets", nargs="+", help="data sets with classes")
    parser.add_argument("--rates", nargs="+", type=float, default=[0.05, 0.2, 0.4])
    parser.add_argument("--repeats", type=int, default=2, help="draws of cells for each rate")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/cells.jsonl"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[Key, float] = {}
    if options.results.exists():
        for line in options.results.read_text().splitlines():
            *key, value = json.loads(line)
            found[tuple(key)] = value
    options.results.parent.mkdir(parents=True, exist_ok=True)
    shown: dict[Key, float] = {}
    for name in options.sets:
        dataset = find_dataset(name)
        for rate in options.rates:
            for repeat in range(options.repeats):
                for way in options.ways:
                    key = (name, rate, repeat, way)
                    if key not in found:
                        holed = without_cells(dataset.views, rate, repeat)
                        found[key] = score(holed, dataset.y, way, repeat)
                        with options.results.open("a") as file:
                            file.write(json.dumps([*key, found[key]]) + "\n")
                    shown[key] = found[key]
        print(f"{name} done", flush=True)
    print("\n".join(table(shown)))


if __name__ == "__main__":
    main()
