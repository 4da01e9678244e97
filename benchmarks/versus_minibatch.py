"""MMC on 70,000 samples compared with mini-batch k-means on the concatenated views."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import normalized_mutual_info_score

from benchmarks.alone import GIB, fit_alone
from benchmarks.measure import Measurement, data_dir, seconds_of
from manyview import MMC
from manyview.datasets import read_views

TIMES, NMI, MEMORY = 6.0, 0.74, 3.0
REPEATS = 3


def run() -> Iterator[Measurement]:
    folder = data_dir()
    if folder is None:
        print("MANYVIEW_DATA is not set; mnist70k is not measured")
        return
    views, y = read_views(folder / "mnist70k.npz")
    concatenated = np.hstack([_unit_rows(X) for X in views])
    seconds: dict[str, list[float]] = {"mmc": [], "mini-batch": []}
    scores: dict[str, list[float]] = {"mmc": [], "mini-batch": []}
    for seed in range(REPEATS):
        for name, model, given in (
            ("mini-batch", MiniBatchKMeans(10, n_init=5, random_state=seed), concatenated),
            ("mmc", MMC(10, random_state=seed), views),
        ):
            seconds[name].append(seconds_of(partial(model.fit, given)))
            scores[name].append(normalized_mutual_info_score(y, model.labels_))
    mmc, batch = (float(np.median(seconds[name])) for name in ("mmc", "mini-batch"))
    yield Measurement(
        "MMC / MiniBatchKMeans(n_init=5) on the concatenation, time, mnist70k",
        mmc / batch,
        TIMES,
        detail=f"{mmc:.1f} s against {batch:.1f} s, medians of {REPEATS} seeds",
    )
    found, other = (np.mean(scores[name]) for name in ("mmc", "mini-batch"))
    yield Measurement(
        "NMI of MMC, mnist70k",
        float(found),
        NMI,
        at_least=True,
        detail=f"least {min(scores['mmc']):.3f}; mini-batch {other:.3f}",
    )
    data = sum(X.nbytes for X in views) / GIB
    outcome = fit_alone("MMC", "mnist70k", limit=600.0)
    yield Measurement(
        "peak memory of a fit with the data / the data, mnist70k",
        (data + outcome.peak) / data if outcome.peak else float("inf"),
        MEMORY,
        detail=f"{data + outcome.peak:.2f} GiB, data {data:.2f} GiB {outcome.message}",
    )


def _unit_rows(X: np.ndarray) -> np.ndarray:
    rows = X.astype(np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)
