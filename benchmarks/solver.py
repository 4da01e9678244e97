"""Variants of the preconditioner and of the number of conjugate gradient steps.

All variants run the same number of iterations from the same initialisation. The measurement is the
number of products with the normal matrix until 1.1 times the final objective of the default.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.measure import Measurement, data_dir
from manyview import Views
from manyview.datasets import load_digits_views, read_views
from manyview.engine import LocalEngine
from manyview.graph.spectral import spectral_labels
from manyview.linalg.solvers import conjugate_gradients
from manyview.mmc import updates
from manyview.mmc.indicator import DiscreteIndicator
from manyview.mmc.initial import initial_factors
from manyview.mmc.objective import RowSparse
from manyview.mmc.solver import Problem, begin, carry_on

ITERATIONS = 150
DEFAULT = "mean, variance and penalty; by gain"
_ours = updates._preconditioner


def run() -> Iterator[Measurement]:
    sets: dict[str, tuple[Views, int]] = {"digits": (load_digits_views().views, 10)}
    folder = data_dir()
    if folder is None:
        print("MANYVIEW_DATA is not set; the solver is not measured on fox and cnn")
    else:
        sets |= {n: (read_views(folder / f"{n}.npz").views, k) for n, k in (("fox", 4), ("cnn", 7))}
    for name, (views, k) in sets.items():
        engine = LocalEngine(views, normalize="rows")
        spectral_labels(engine, k, np.random.default_rng(0))
        labels = engine.gather("labels")
        paths = {variant: _path(views, labels, k, *VARIANTS[variant]) for variant in VARIANTS}
        target = 1.1 * paths[DEFAULT][-1][0]
        ends = {v: next((p for p in path if p[0] <= target), path[-1]) for v, path in paths.items()}
        for variant, (value, products, seconds) in ends.items():
            missed = "" if value <= target else "not "
            yield Measurement(
                f"solver, {name}: {variant}",
                products / ends[DEFAULT][1],
                None,
                detail=f"times the products of the default: {products} in {seconds:.2f} s, "
                f"J = {target:.3f} {missed}reached; ends at {paths[variant][-1][0]:.3f}",
            )


def _path(
    views: Views, labels: Any, k: int, pre: Any, steps: Any, iterations: int = ITERATIONS
) -> list[tuple[float, int, float]]:
    engine = LocalEngine(views, normalize="rows")
    problem = Problem(RowSparse(), 0.01, DiscreteIndicator(), iterations, 0.0)
    engine.scatter("labels", labels)
    problem.indicator.start(engine, k)
    factors, moments = initial_factors(engine, k, max(20, 2 * k), seed=0)
    products, path, started = [0], [], time.perf_counter()

    def counted(operator: Callable[[Any], Any], *args: Any, **options: Any) -> Any:
        def product(direction: Any) -> Any:
            products[0] += 1
            return operator(direction)

        if steps is not None:
            options = {"steps": steps}
        return conjugate_gradients(product, *args, **options)

    def on_iteration(done: int, value: float) -> None:
        path.append((value, products[0], time.perf_counter() - started))

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(updates, "_preconditioner", pre))
        stack.enter_context(mock.patch.object(updates, "conjugate_gradients", counted))
        carry_on(engine, problem, begin(engine, problem, factors, moments), on_iteration)
    return path


def _none(average: Any, columns: Any, weights: Any, factor: Any) -> Callable[[Any], Any]:
    alive = factor.any(axis=1)[:, None]
    return lambda residual: residual * alive


def _penalty_only(average: Any, columns: Any, weights: Any, factor: Any) -> Callable[[Any], Any]:
    alive = factor.any(axis=1)[:, None]
    return lambda residual: residual / weights * alive


def _without_mean(average: Any, columns: Any, weights: Any, factor: Any) -> Callable[[Any], Any]:
    mean, squares = columns
    return _ours(average, (0.0 * mean, squares), weights, factor)


VARIANTS: dict[str, tuple[Any, int | None]] = {
    DEFAULT: (_ours, None),
    "mean, variance and penalty; 1 step": (_ours, 1),
    "mean, variance and penalty; 3 steps": (_ours, 3),
    "mean, variance and penalty; 10 steps": (_ours, 10),
    "mean square and penalty; by gain": (_without_mean, None),
    "penalty only (W = P^-1/2 Y); by gain": (_penalty_only, None),
    "none; by gain": (_none, None),
}
