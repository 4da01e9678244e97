"""From ``init`` to a fit before its first sweep."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyview.engine import Engine
from manyview.mmc.fit import Fitted, begin
from manyview.mmc.given import Given
from manyview.mmc.init import graph_start, is_compared_whole, kmeans_start, random_start
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
    init : str or Given
        One of ``STARTS``, or what the caller gave.
    n_clusters, rank : int
    order : int or None
        Most views whose features are multiplied.
    """

    init: str | Given
    n_clusters: int
    rank: int
    order: int | None

    @property
    def lower_by(self) -> float:
        """Part of the objective by which one of several starts has to be lower than another."""
        return _LOWER_BY if self.init == "graph" else 0.0

    def trust(self, n_samples: int) -> float:
        """Return how far labels of the start are held in the sweeps, 0 to 1.

        Those of a graph that compares all samples with each other in full, those by landmarks,
        which are rougher, half as far, and those of k-means or from elsewhere not at all.
        """
        if self.init != "graph":
            return 0.0
        return 1.0 if is_compared_whole(n_samples) else 0.5

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
        if isinstance(self.init, Given):
            given = self.init.indicator
            engine.scatter("labels", self.init.labels)
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
