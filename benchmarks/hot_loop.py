"""The normal operator of MMC compared with the two products that it needs at least."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.measure import Measurement, data_dir, side_by_side
from manyview import as_views
from manyview.datasets import read_views
from manyview.engine import LocalEngine
from manyview.mmc.objective import normal_kernel

RANK = 20
BOUND = 1.25


def run() -> Iterator[Measurement]:
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32):
        X = rng.standard_normal((20_000, 500)).astype(dtype)
        yield _measured(f"dense {dtype.__name__} 20,000 x 500", X)
    thin = sp.random_array((20_000, 5_000), density=0.02, random_state=rng, format="csr")
    yield _measured("sparse float64 20,000 x 5,000, 2%", thin)
    folder = data_dir()
    if folder is None:
        print("MANYVIEW_DATA is not set; the hot loop is not measured on fox")
        return
    views, _ = read_views(folder / "fox.npz")
    yield _measured("fox image, dense 1,523 x 996", views["image"])
    yield _measured("fox text, sparse 1,523 x 2,711", views["text"])


def _measured(name: str, X: Any) -> Measurement:
    rng = np.random.default_rng(1)
    engine = LocalEngine(as_views([X]), normalize="rows")
    dtype = engine.dtype
    W = rng.standard_normal((X.shape[1] + 1, RANK)).astype(dtype)
    M = rng.standard_normal((X.shape[0], RANK)).astype(dtype)
    engine.scatter("others", M)
    gram, scaling = np.eye(RANK, dtype=dtype), engine.scalings[0]

    def hot() -> object:
        (pulled,) = engine.sum(normal_kernel, 0, scaling.fold(W), gram)
        return scaling.unfold(pulled)

    def bare() -> object:
        return X @ W[:-1], X.T @ M

    seconds = side_by_side({"hot": hot, "bare": bare}, repeats=25)
    detail = f"{1e3 * seconds['hot']:.1f} ms against {1e3 * seconds['bare']:.1f} ms"
    return Measurement(
        f"hot loop / bare products, {name}", seconds["hot"] / seconds["bare"], BOUND, detail=detail
    )
