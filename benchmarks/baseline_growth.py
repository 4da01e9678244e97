"""Growth of the time of RMKMC and MultiNMF with the number of samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from benchmarks.measure import Measurement, exponent, seconds_of
from manyview import RMKMC, MultiNMF
from manyview.datasets import make_views

K = 5
ITERATIONS = 10
EXPONENT_BOUND = 1.1
SHAPES: dict[str, tuple[list[int], tuple[int, int], float | None]] = {
    "dense": ([20_000, 40_000, 80_000, 160_000, 320_000], (100, 60), None),
    "sparse, 2%": ([2_500, 5_000, 10_000, 20_000, 40_000], (1_000, 600), 0.02),
}
# the same work for all data: no tolerance, and no k-means
METHODS: dict[str, Callable[[], Any]] = {
    "RMKMC": lambda: RMKMC(K, max_iter=ITERATIONS, tol=0.0, random_state=0),
    "MultiNMF": lambda: MultiNMF(
        K,
        n_rounds=2,
        n_inner=ITERATIONS,
        n_restarts=1,
        negative="shift",
        labels="argmax",
        random_state=0,
    ),
}


def run() -> Iterator[Measurement]:
    for kind, (samples, widths, density) in SHAPES.items():
        times: dict[str, list[float]] = {name: [] for name in METHODS}
        for n in samples:
            # clusters overlap, because RMKMC converges early on well separated ones
            views, _ = make_views(n, K, widths, separation=1.0, density=density, random_state=0)
            for name, make in METHODS.items():
                times[name].append(_seconds(make, views))
        for name, seconds in times.items():
            yield Measurement(
                f"exponent of time of {name} in samples, {kind}, "
                f"{samples[0]:,} to {samples[-1]:,} x ({widths[0]:,} + {widths[1]:,})",
                exponent(samples, seconds),
                EXPONENT_BOUND,
                detail=", ".join(f"{t:.2f}" for t in seconds) + " s",
            )


def _seconds(make: Callable[[], Any], views: Any) -> float:
    done = _fitted(make(), views).n_iter_
    expected = make().get_params().get("max_iter", done)
    if done != expected:
        raise RuntimeError(f"{make()} stopped after {done} iterations, so times are not comparable")
    return median(seconds_of(lambda: _fitted(make(), views)) for _ in range(3))


def _fitted(model: Any, views: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(views)
