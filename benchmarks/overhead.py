"""Overhead of a comparison, with its processes and results file, over its fits and scores."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from benchmarks.measure import Measurement, seconds_of
from manyview.datasets import load_digits_views
from manyview.experiment import METHODS, ResultsFile, compare
from manyview.metrics import score_all

BOUND = 1.02
COMPARED = ("MMC", "MultiNMF", "KCTD")
REPEATS = 20


def run() -> Iterator[Measurement]:
    dataset = load_digits_views()
    y = dataset.y
    assert y is not None
    methods = [METHODS[name] for name in COMPARED]

    def bare() -> None:
        for method in methods:
            for seed in range(REPEATS):
                model = method.make(10, random_state=seed, **method.defaults).fit(dataset.views)
                score_all(y, model.labels_)

    def compared() -> None:
        with (
            tempfile.TemporaryDirectory() as folder,
            ResultsFile(Path(folder) / "runs.jsonl") as results,
        ):
            compare(methods, [dataset], repeats=REPEATS, n_jobs=1, results=results)

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        bare_seconds, compared_seconds = seconds_of(bare), seconds_of(compared)
    yield Measurement(
        f"a comparison / its fits alone, {', '.join(COMPARED)} on the digits, {REPEATS} seeds",
        compared_seconds / bare_seconds,
        BOUND,
        detail=f"{compared_seconds:.1f} s against {bare_seconds:.1f} s",
    )
