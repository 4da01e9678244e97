"""Growth of the time of MMC with samples and features, and its memory."""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Iterator
from statistics import median

from sklearn.exceptions import ConvergenceWarning

from benchmarks.measure import Measurement, exponent, seconds_of
from manyview import MMC, Views
from manyview.datasets import make_views

ITERATIONS = 10
K = 5
EXPONENT_BOUND = 1.1


def run() -> Iterator[Measurement]:
    samples = [5_000, 10_000, 20_000, 40_000, 80_000]
    times = [_seconds(make_views(n, K, (100, 60), random_state=0).views) for n in samples]
    yield _exponent("samples, 5,000 to 80,000 x (100 + 60)", samples, times)
    features = [100, 200, 400, 800, 1_600]
    times = [_seconds(make_views(8_000, K, (d, d), random_state=0).views) for d in features]
    yield _exponent("features, 8,000 x 2 (100 to 1,600)", features, times)
    yield _memory()


def _exponent(name: str, sizes: list[int], times: list[float]) -> Measurement:
    detail = ", ".join(f"{t:.2f}" for t in times) + " s"
    return Measurement(
        f"exponent of time in {name}", exponent(sizes, times), EXPONENT_BOUND, detail=detail
    )


def _fit(views: Views) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        MMC(K, max_iter=ITERATIONS, tol=0.0, random_state=0).fit(views)


def _seconds(views: Views) -> float:
    _fit(views)
    return median(seconds_of(lambda: _fit(views)) for _ in range(3))


def _memory() -> Measurement:
    n, widths, rank = 100_000, (100, 60), 20
    views, _ = make_views(n, K, widths, random_state=0)
    tracemalloc.start()
    _fit(views)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    factors = sum(d + 1 for d in widths) * rank + K * rank
    allowed = 8 * (4 * n * (len(widths) * rank + K) + factors)
    return Measurement(
        "peak memory beyond the data / allowed, 100,000 x (100 + 60)",
        peak / allowed,
        1.0,
        detail=f"{peak / 1e6:.0f} MB of 4 N (V R + K) numbers and the factors, "
        f"{allowed / 1e6:.0f} MB",
    )
