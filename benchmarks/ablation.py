"""Gains of MMC over its initialisation: ``python -m benchmarks.ablation SETS...``."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from benchmarks.ablation_tables import (
    FEWER,
    FITTED,
    PREDICTED,
    RIDGE,
    WITH_ALL,
    Dropped,
    gain_table,
    held_out_table,
    product_table,
    set_table,
)
from benchmarks.variants import (
    PARTS,
    FirstFitted,
    FirstFittedToAll,
    FittedToAll,
    Predicted,
    PredictedByRidge,
    Without,
)
from manyview import MMC, MultiViewSpectral, as_views
from manyview.baselines.references import StandardisedKMeans, SummedGraphs, UmapKMeans
from manyview.cli.compare import shown_progress
from manyview.datasets import Dataset, make_views
from manyview.datasets.files import find_dataset
from manyview.experiment import METHODS, REFERENCES, Limits, Method, ResultsFile, Run, compare
from manyview.storage import whole_file

HELD_OUT = 0.3
SIGN_NOISE = 0.3
SIGN_DIMENSIONS = (5, 10)
PRODUCT_CLUSTERS = (2, 3, 4)
ALWAYS = (
    REFERENCES["MultiViewSpectral"],
    METHODS["MMC"],
    Method("in-sample indicator", MMC, {"indicator": "discrete"}),
    Method("orthogonal indicator", MMC, {"indicator": "orthogonal"}),
    *(Method(f"without {part}", Without, {"part": part}) for part in PARTS),
    Method("unit rows", MMC, {"normalize": "rows"}),
    Method("MMC, init=kmeans", MMC, {"init": "kmeans"}),
    REFERENCES["k-means"],
    Method("k-means, standardised", StandardisedKMeans),
    REFERENCES["spectral"],
    Method("spectral, summed graphs", SummedGraphs),
)
UMAP = Method("UMAP and k-means", UmapKMeans)
ON_PRODUCTS = (
    REFERENCES["MultiViewSpectral"],
    Method("MultiViewSpectral, product", MultiViewSpectral, {"graph": "product"}),
    METHODS["MMC"],
    Method("MMC, order 1", MMC, {"order": 1}),
    REFERENCES["k-means"],
    REFERENCES["spectral"],
)


@dataclass(frozen=True)
class Harness:
    """Settings of the comparisons."""

    n_jobs: int | None = None  # parallel processes; None for this process, without limits
    limits: Limits | None = None
    results: ResultsFile | None = None  # open file that keeps the runs
    shown: bool = False  # whether to show the progress

    def runs(
        self, title: str, methods: Sequence[Method], datasets: Sequence[Dataset], repeats: int
    ) -> list[Run]:
        with shown_progress(shown=self.shown, title=title) as listener:
            return compare(
                methods,
                datasets,
                repeats=repeats,
                n_jobs=self.n_jobs,
                limits=self.limits,
                results=self.results,
                listener=listener,
            )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablation", description=__doc__)
    parser.add_argument("sets", nargs="+", metavar="SETS", help="files or names of datasets")
    parser.add_argument(
        "--repeats", type=int, default=5, help="number of seeds and of random splits"
    )
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel processes")
    parser.add_argument("--time-limit", type=float, default=600.0, help="seconds per fit")
    parser.add_argument(
        "--results", type=Path, metavar="FILE.jsonl", help="save runs, and resume from them"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.md", help="write the tables to this file")
    options = parser.parse_args(arguments)
    try:
        datasets = [find_dataset(name) for name in dict.fromkeys(options.sets)]
    except (ValueError, OSError) as error:
        parser.error(str(error))
    for dataset in datasets:
        if dataset.y is None:
            parser.error(f"{dataset.name!r} has no class labels, which scores need")
    kept = options.results
    try:
        with nullcontext() if kept is None else ResultsFile(kept) as results:
            limits = Limits(seconds=options.time_limit)
            harness = Harness(options.jobs, limits, results, shown=True)
            text = ablation(harness, datasets, options.repeats)
    except KeyboardInterrupt:
        where = f"kept in {kept}" if kept else "lost; --results FILE keeps them"
        print(f"interrupted: finished runs are {where}", file=sys.stderr)
        return 130
    print(text, end="")
    if options.out is not None:
        with whole_file(options.out) as file:
            file.write(text.encode())
    return 0


def ablation(
    harness: Harness, datasets: Sequence[Dataset], repeats: int, n_samples: int = 1000
) -> str:
    """Return the four tables as Markdown; `n_samples` is the size of the synthetic datasets."""
    methods = [*ALWAYS, UMAP] if find_spec("umap") else list(ALWAYS)
    names = [method.name for method in methods]
    runs = harness.runs("variants", methods, datasets, repeats)
    splits: list[Run] = []
    dropped: dict[str, Dropped] = {}
    for dataset in datasets:
        splits += split_runs(harness, dataset, repeats)
        dropped[dataset.name] = dropped_features(dataset)
    products = harness.runs("products", ON_PRODUCTS, product_sets(repeats, n_samples), 1)
    return "\n".join(
        [
            f"NMI (geometric), percent, mean over {repeats} seeds:\n",
            gain_table(runs, names),
            "The same by data set:\n",
            set_table(runs, names, [dataset.name for dataset in datasets]),
            f"Features dropped, and prediction of held-out samples, NMI as above; "
            f"{100 * HELD_OUT:g} % of the samples are held out in {repeats} random splits:\n",
            held_out_table(runs, splits, dropped),
            f"Clusters that appear only in products across views; {n_samples} samples, ACC, "
            f"percent, mean over {repeats} synthetic data sets:\n",
            product_table(products),
        ]
    )


def split_runs(harness: Harness, dataset: Dataset, repeats: int) -> list[Run]:
    """Return scores of held-out samples, which are predicted, and of the others, which are fitted.

    Both are also scored in a fit of all samples. The seed of a run is the number of its split.
    """
    y = np.asarray(dataset.y)
    n_first = y.size - round(HELD_OUT * y.size)
    given = {"n_all": np.unique(y).size, "n_first": n_first}
    held_out = [
        Method(FITTED, FittedToAll, given),
        Method(PREDICTED, Predicted, given),
        Method(RIDGE, PredictedByRidge, given),
    ]
    training = [Method(WITH_ALL, FirstFittedToAll, given), Method(FEWER, FirstFitted, given)]
    runs = []
    for part, rows_of_part, methods in (
        ("held out", slice(n_first, None), held_out),
        ("training", slice(n_first), training),
    ):
        datasets = []
        for split in range(repeats):
            rows = np.random.default_rng(split).permutation(y.size)
            name = f"{dataset.name}, split {split}, {part}"
            # all samples, the fitted ones first, with the classes of the scored part
            datasets.append(Dataset(dataset.views.take(rows), y[rows[rows_of_part]], name=name))
        numbers = {split.name: number for number, split in enumerate(datasets)}
        found = harness.runs(f"{part}, {dataset.name}", methods, datasets, 1)
        runs += [replace(run, data=dataset.name, seed=numbers[run.data]) for run in found]
    return runs


def dropped_features(dataset: Dataset) -> Dropped:
    """Return the share of the features of each view that MMC of seed 0 sets to zero."""
    model = MMC(np.unique(np.asarray(dataset.y)).size, random_state=0)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model.fit(dataset.views)
        except Exception as error:  # a dataset that fails does not stop the others
            return Dropped({}, str(error))
    kept = [float(np.any(factor[:-1], axis=1).mean()) for factor in model.view_factors_]
    return Dropped({name: 1.0 - k for name, k in zip(model.view_names_, kept, strict=True)})


def product_sets(repeats: int, n_samples: int) -> list[Dataset]:
    """Return datasets whose clusters appear only in products across views."""
    made: list[Dataset] = []
    for seed in range(repeats):
        for k in PRODUCT_CLUSTERS:
            views, y = make_views(
                n_samples, k, (10, 10), structure="interaction", random_state=seed
            )
            made.append(Dataset(views, y, name=f"make_views, K = {k}; {seed}"))
        made += [_signed(n_samples, d, seed) for d in SIGN_DIMENSIONS]
    return made


def _signed(n_samples: int, dimensions: int, seed: int) -> Dataset:
    """Return x and s Q x + noise: x normal, Q a rotation, the sign s the cluster."""
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((dimensions, dimensions)))
    x = rng.standard_normal((n_samples, dimensions))
    y = rng.integers(2, size=n_samples)
    noise = SIGN_NOISE * rng.standard_normal(x.shape)
    other = np.where(y == 1, 1.0, -1.0)[:, None] * (x @ Q.T) + noise
    return Dataset(as_views([x, other]), y, name=f"signs, {dimensions} dimensions; {seed}")


if __name__ == "__main__":
    sys.exit(main())
