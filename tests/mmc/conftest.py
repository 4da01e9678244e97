import numpy as np
import pytest
import scipy.sparse as sp

from manyview.engine import LocalEngine
from manyview.mmc.objective import Factors, Moments, interaction
from manyview.views import as_views


def raw_views(seed, n=24, widths=(4, 3), *, sparse=False, dtype=np.float64):
    """Random views whose samples fall into three loose groups."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    views = []
    for width in widths:
        X = rng.standard_normal((3, width))[group] + 0.7 * rng.standard_normal((n, width))
        X = X.astype(dtype)
        views.append(sp.csr_array(X * (rng.random(X.shape) < 0.6)) if sparse else X)
    return views


class Case:
    """An engine with random factors and indicator, and its scaled views written out."""

    def __init__(self, seed=0, n=24, widths=(4, 3), k=3, rank=5, *, dtype=np.float64, **options):
        rng = np.random.default_rng(seed + 1)
        raw = raw_views(seed, n, widths, dtype=dtype, **options)
        self.rng = rng
        self.views = as_views(raw)
        self.engine = LocalEngine(self.views, normalize="rows")
        self.Z = []
        for X in raw:
            X = X.toarray() if sp.issparse(X) else X
            norms = np.linalg.norm(X, axis=1, keepdims=True)
            unit = X / np.where(norms > 0, norms, 1)
            self.Z.append(np.hstack([unit, np.ones((n, 1))]).astype(dtype))
        self.factors = Factors(
            tuple(rng.standard_normal((w + 1, rank)).astype(dtype) for w in widths),
            rng.standard_normal((k, rank)).astype(dtype),
        )
        self.set_indicator(np.linalg.qr(rng.standard_normal((n, k)))[0])

    def set_indicator(self, indicator):
        self.F = indicator
        self.engine.scatter("indicator", indicator.astype(self.engine.dtype))
        self.set_projections()

    def set_projections(self):
        projections = [Z @ W for Z, W in zip(self.Z, self.factors.views, strict=True)]
        for block in self.engine.blocks:
            block.state["projections"] = [p[block.rows] for p in projections]
        self.P = interaction(projections)
        self.moments = Moments(self.P.T @ self.P, self.P.T @ self.F)

    def others(self, v):
        rest = [
            Z @ W for u, (Z, W) in enumerate(zip(self.Z, self.factors.views, strict=True)) if u != v
        ]
        return interaction(rest) if rest else np.ones_like(self.P)


@pytest.fixture(autouse=True)
def _short_blocks(monkeypatch):
    monkeypatch.setattr(LocalEngine, "block_rows", (10, 10))


@pytest.fixture(scope="session")
def case():
    return Case
