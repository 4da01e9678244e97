"""From ``init`` to a fit before its first sweep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyview.engine import Engine
from manyview.mmc.fit import Fitted, begin
from manyview.mmc.init import as_labels, given_start, graph_start, kmeans_start, random_start
from manyview.mmc.initial_factors import start_factors
from manyview.mmc.problem import Problem

__all__ = ["STARTS", "Start"]

_BY_LABELS = {"kmeans": kmeans_start, "random": random_start}
STARTS = frozenset({"graph", *_BY_LABELS})
"""Names of starts."""

# of further starts from a graph
_REACH_FACTOR = 1 / 4  # neighbours, as part of those of the start before
_LOWER_BY = 0.1  # part of the objective, which ranks starts but roughly


@dataclass(frozen=True)
class Start:
    """Where fits begin.

    Attributes
    ----------
    init : str or array-like
        One of ``STARTS``, or labels or an indicator.
    n_clusters, rank : int
    order : int or None
        Most views whose features are multiplied.
    """

    init: Any
    n_clusters: int
    rank: int
    order: int | None

    @property
    def is_given(self) -> bool:
        """Whether the caller gave labels or an indicator."""
        return not isinstance(self.init, str)

    @property
    def lower_by(self) -> float:
        """Part of the objective by which one of several starts has to be lower than another."""
        return _LOWER_BY if not self.is_given and self.init == "graph" else 0.0

    def begin(
        self, engine: Engine, problem: Problem, rng: np.random.Generator, number: int
    ) -> Fitted:
        """Return a fit before its first sweep, with its state in the blocks.

        Parameters
        ----------
        engine : Engine
            The samples.
        problem : Problem
            What will be minimised.
        rng : numpy.random.Generator
            Source of all that is random.
        number : int
            Which of several starts it is, from 0.
        """
        given = None
        if self.is_given:
            given = given_start(self.init, engine.n_samples, self.n_clusters)
            engine.scatter("labels", as_labels(given))
        elif self.init == "graph":
            graph_start(
                engine, self.n_clusters, rng, order=self.order, reach=float(_REACH_FACTOR**number)
            )
        else:
            _BY_LABELS[self.init](engine, self.n_clusters, rng)
        problem.indicator.start(engine, self.n_clusters, given)
        seed = int(rng.integers(2**31 - 1))
        factors, moments = start_factors(engine, self.n_clusters, self.rank, seed, order=self.order)
        return begin(engine, problem, factors, moments)
