"""Time of MMC on fox compared with k-means on the concatenated views."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans

from benchmarks.measure import Measurement, data_dir, side_by_side
from manyview import MMC
from manyview.datasets import read_views

BOUND = 3.0


def run() -> Iterator[Measurement]:
    folder = data_dir()
    if folder is None:
        print("MANYVIEW_DATA is not set; MMC is not compared with k-means on fox")
        return
    views, _ = read_views(folder / "fox.npz")
    dense = np.hstack([X.toarray() if sp.issparse(X) else X for X in views])
    seconds = side_by_side(
        {
            "mmc": lambda: MMC(4, random_state=0).fit(views),
            "kmeans": lambda: KMeans(4, n_init=10, random_state=0).fit(dense),
        },
        repeats=5,
    )
    yield Measurement(
        "MMC fit with defaults / KMeans(4, n_init=10) on the concatenation, fox",
        seconds["mmc"] / seconds["kmeans"],
        BOUND,
        detail=f"{seconds['mmc']:.2f} s against {seconds['kmeans']:.2f} s",
    )
