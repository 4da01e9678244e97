"""Time until MMC reaches the objective of a literal transcription of the paper."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.literal import Literal
from benchmarks.measure import Measurement, data_dir
from manyview import as_views
from manyview.datasets import make_views, read_views
from manyview.engine import LocalEngine
from manyview.mmc.indicator import OrthogonalIndicator
from manyview.mmc.objective import Factors, RowSparse, project_all
from manyview.mmc.solver import Problem, begin, carry_on

GAMMA = 0.01
RANK = 20
ITERATIONS = 5
BOUND = 10.0


class _ReachedError(Exception):
    pass


def run() -> Iterator[Measurement]:
    dense, _ = make_views(20_000, 10, (500, 300), random_state=0)
    yield _measured("dense 20,000 x (500 + 300)", list(dense), 10)
    folder = data_dir()
    if folder is None:
        print("MANYVIEW_DATA is not set; the transcription is not compared on fox")
        return
    fox, _ = read_views(folder / "fox.npz")
    yield _measured("fox", list(fox), 4)


def _measured(name: str, raw: list[Any], k: int) -> Measurement:
    views = [_unit_rows(X) for X in raw]
    rng = np.random.default_rng(0)
    W = [rng.standard_normal((X.shape[1] + 1, RANK)) for X in views]
    A = rng.standard_normal((k, RANK))
    F, _ = np.linalg.qr(rng.standard_normal((views[0].shape[0], k)))

    literal = Literal(views, W, A, F, GAMMA)
    start = literal.objective()
    literal_seconds = literal.run(ITERATIONS)
    target = literal.objective()

    started = time.perf_counter()
    engine = LocalEngine(as_views(raw), normalize="rows")
    problem = Problem(RowSparse(), GAMMA, OrthogonalIndicator(), max_iter=1000, tol=0.0)
    engine.scatter("indicator", F)
    engine.scatter("labels", np.zeros(F.shape[0], dtype=np.intp))  # set by k-means at the end
    iterations = 0

    def on_iteration(done: int, value: float) -> None:
        nonlocal iterations
        iterations = done
        if value <= target:
            raise _ReachedError

    try:
        factors = Factors(tuple(W), A)
        first = begin(engine, problem, factors, project_all(engine, factors.views))
        carry_on(engine, problem, first, on_iteration)
    except _ReachedError:
        seconds = time.perf_counter() - started
    else:
        seconds = np.inf
    return Measurement(
        f"transcription / manyview, time to its objective, {name}",
        literal_seconds / seconds,
        BOUND,
        at_least=True,
        detail=f"{literal_seconds:.2f} s ({ITERATIONS} iterations) against {seconds:.2f} s "
        f"({iterations}), objective {start:.4g} to {target:.4g}",
    )


def _unit_rows(X: Any) -> Any:
    if sp.issparse(X):
        norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        return sp.csr_array(sp.diags_array(1.0 / np.where(norms > 0, norms, 1.0)) @ X)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(norms > 0, norms, 1.0)
