"""From ``init`` to a fit before its first sweep."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyview._typing import Matrix
from manyview.engine import Engine
from manyview.mmc.fit import Fitted, begin
from manyview.mmc.given import Given
from manyview.mmc.init import graph_start, kmeans_start, random_start
from manyview.mmc.initial_factors import start_factors
from manyview.mmc.kmeans import cluster_sizes
from manyview.mmc.problem import Problem
from manyview.mmc.sweep import factor_steps, sweep

__all__ = ["STARTS", "Start"]

_BY_LABELS = {"kmeans": kmeans_start, "random": random_start}
STARTS = frozenset({"graph", *_BY_LABELS})
"""Names of starts."""

_AS_UNCLEAR_AS_NOISE = 0.3  # part of the variance within clusters; noise alone has .3 to .7
_REACH_FACTOR = 1 / 4  # neighbours of a further start from a graph, as part of those before
_LOWER_BY = 0.1  # part of the objective, which ranks starts but roughly
_KMEANS_PASSES = 20  # over all samples, before k-means is compared with the graph
_SMALLEST_PART = 0.25  # of the graph's smallest cluster, that each of k-means has to have


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
    complete : bool
        Whether all samples have all views.
    """

    init: str | Given
    n_clusters: int
    rank: int
    order: int | None
    complete: bool = True

    @property
    def lower_by(self) -> float:
        """Part of the objective by which one of several starts has to be lower than another."""
        return _LOWER_BY if self.init == "graph" else 0.0

    def begin(
        self, engine: Engine, problem: Problem, rng: np.random.Generator, number: int
    ) -> Fitted:
        """Return a fit before its first sweep, with its state in the blocks.

        Labels of a graph are held in the sweeps, the further the more clearly it shows them. Where
        it shows none more clearly than noise would, they are not held, and those of k-means take
        their place if the model explains them better.

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
        if isinstance(self.init, Given):
            engine.scatter("labels", self.init.labels)
            return self._from_labels(engine, problem, rng, given=self.init.indicator)
        if self.init != "graph":
            _BY_LABELS[self.init](engine, self.n_clusters, rng)
            return self._from_labels(engine, problem, rng)
        reach = float(_REACH_FACTOR**number)
        within = graph_start(engine, self.n_clusters, rng, order=self.order, reach=reach)
        trust = max(0.0, 1.0 - (within / _AS_UNCLEAR_AS_NOISE) ** 2)
        # k-means would cluster who lacks what; further starts look at the graph in another way
        if trust == 0.0 and self.complete and number == 0:
            self._take_kmeans_if_better(engine, problem, rng)
        return self._from_labels(engine, problem, rng, trust=trust)

    def _from_labels(
        self,
        engine: Engine,
        problem: Problem,
        rng: np.random.Generator,
        *,
        given: Matrix | None = None,
        trust: float = 0.0,
    ) -> Fitted:
        problem.indicator.start(engine, self.n_clusters, given)
        seed = int(rng.integers(2**31 - 1))
        factors, moments = start_factors(engine, self.n_clusters, self.rank, seed, order=self.order)
        return begin(engine, problem, factors, moments, trust=trust)

    def _take_kmeans_if_better(
        self, engine: Engine, problem: Problem, rng: np.random.Generator
    ) -> None:
        """Put labels of k-means in the place of those in the blocks, if J is lower by a tenth.

        J is that of a sweep from each and the factor steps of another: after those of the first
        alone what single features say is explained, and what their products say is not yet. K-means
        that puts outliers into clusters of their own is left out: they are explained for nothing.
        """

        def reached() -> float:
            fitted = self._from_labels(engine, problem, rng)
            factors, moments, _ = sweep(engine, problem, fitted.factors, fitted.moments, trust=0.0)
            value = problem.value(*factor_steps(engine, problem, factors, moments))
            engine.unrestrict()
            return value

        of_graph, sizes = engine.snapshot("labels"), cluster_sizes(engine, self.n_clusters)
        by_graph = reached()
        kmeans_start(engine, self.n_clusters, rng, most_passes=_KMEANS_PASSES)
        of_kmeans = engine.snapshot("labels")
        smallest = cluster_sizes(engine, self.n_clusters).min()
        apart = smallest < _SMALLEST_PART * sizes.min()
        better = not apart and reached() < (1.0 - _LOWER_BY) * by_graph
        engine.restore(of_kmeans if better else of_graph)
