"""Initial labels and factors.

Starts: a first indicator from the views alone.

The full-order model with a ridge on the whole weight tensor, without its factorisation, has a
best indicator in closed form: the top eigenvectors of the product kernel
``G = prod_v (1 + X_v X_v')``. So G is where to look for a start, and it is looked at as a graph,
which serves clustering better than G itself (:mod:`manyview.graph.neighbours`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.extmath import randomized_svd

from manyview._typing import Matrix
from manyview.engine import Block, Engine, RowView, Scaling, Sums, Update
from manyview.engine.arrays import Array, namespace, placed_like, times, to_numpy, uniform_of_rows
from manyview.graph.estimator import EXACT_LIMIT, graph_start
from manyview.graph.kmeans import MOST_ITERATIONS, assigned, cluster_sizes, lloyd
from manyview.linalg.partition import Labels, cluster_rows, without_empty
from manyview.linalg.solvers import inverse_square_root
from manyview.mmc.objective import Factors, Moments, project_all
from manyview.mmc.solver import Fitted, Problem, begin, factor_steps, sweep
from manyview.views.checks import position

__all__ = ["STARTS", "Given", "Start", "kmeans_start", "random_start", "start_factors"]


def start_factors(
    engine: Engine, n_clusters: int, rank: int, seed: int, *, order: int | None = None
) -> tuple[Factors, Moments]:
    """Return factors that fit the indicator in the blocks roughly, and set the projections.

    Column r of every view factor is the mean of one part of one cluster in that view, with bias
    1, so that its product over the views is large for samples like those. The parts are random
    and the same in all views: means of the same samples carry what the views have in common,
    also where the mean of a whole cluster says nothing. The cluster factor follows by ridge
    regression. With `order`, features of no more views than this take part in a column; the
    views take turns.
    """
    sums = engine.sum(_part_sums_kernel, n_clusters, rank, seed)
    columns = np.arange(rank) % n_clusters
    factors = []
    taking_part = _views_of_columns(len(sums), n_clusters, rank, order)
    for v, (scaling, pulled) in enumerate(zip(engine.scalings, sums, strict=True)):
        parts = to_numpy(scaling.unfold(pulled))[:-1]
        whole = np.stack([parts[:, columns == k].sum(axis=1) for k in range(n_clusters)], axis=1)
        norms = np.linalg.norm(parts, axis=0)
        parts = np.where(norms > 0, parts, whole[:, columns])
        norms = np.linalg.norm(parts, axis=0)
        parts = parts / np.where(norms > 0, norms, 1.0) * taking_part[v]
        factors.append(engine.asarray(np.vstack([parts, np.ones(rank)]).astype(engine.dtype)))
    moments = project_all(engine, tuple(factors))
    ridge = 0.01 * np.trace(moments.gram) / rank
    clusters = np.linalg.solve(moments.gram + ridge * np.eye(rank), moments.cross).T
    return Factors(tuple(factors), clusters.astype(engine.dtype)), moments


def _views_of_columns(
    n_views: int, n_clusters: int, rank: int, order: int | None
) -> npt.NDArray[np.bool_]:
    """Return which views' features take part in which columns, n_views x rank.

    Every choice of `order` views has its turn among the columns of each cluster.
    """
    choices = list(combinations(range(n_views), min(order or n_views, n_views)))
    turn = (np.arange(rank) // n_clusters) % len(choices)
    return np.array([[v in choices[t] for t in turn] for v in range(n_views)])


def _part_sums_kernel(block: Block, n_clusters: int, rank: int, seed: int) -> Sums:
    indicator = block.state["indicator"]
    xp = namespace(indicator)
    columns = np.arange(rank)
    drawn = uniform_of_rows(block.numbers(indicator), seed)[:, None]
    parts = -(-(rank - columns % n_clusters) // n_clusters)  # of the cluster of each column
    parts, turns = (
        placed_like(part.astype(np.float64), indicator) for part in (parts, columns // n_clusters)
    )
    chosen = xp.floor(drawn * parts) == turns
    of_cluster = xp.take(indicator, placed_like(columns % n_clusters, indicator), axis=1)
    weights = of_cluster * xp.astype(chosen, indicator.dtype)
    return tuple(view.pull(weights) for view in block.views)


def kmeans_start(
    engine: Engine,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    most_passes: int = MOST_ITERATIONS,
) -> None:
    """Put the clusters of k-means on the scaled views side by side, not copied, into the blocks.

    Centres come from scikit-learn's k-means: on all rows when they are few, else on the leading
    singular vectors of a sample. Lloyd's iterations over all rows follow, up to `most_passes` of
    them.
    """
    n, most = engine.n_samples, max(EXACT_LIMIT, 50 * n_clusters)
    sample = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
    centres_of = _centres if n <= most / 2 else _centres_in_leading_directions
    pairs = zip(engine.take(sample), engine.scalings, strict=True)
    rows = [_uncentred(view, scaling) for view, scaling in pairs]
    centres = centres_of(_beside(rows), n_clusters, rng)
    widths = np.cumsum([scaling.n_features for scaling in engine.scalings])
    parts = np.split(centres, widths[:-1], axis=1)
    for part, scaling in zip(parts, engine.scalings, strict=True):
        if scaling.columns is not None:
            part -= np.multiply(*scaling.columns)

    def step(centres: list[Matrix]) -> Sums:
        norms = sum((part**2).sum(axis=1) for part in centres)
        folded = [
            scaling.fold(
                engine.asarray(np.vstack([part.T, np.zeros(n_clusters)]).astype(engine.dtype))
            )
            for scaling, part in zip(engine.scalings, centres, strict=True)
        ]
        return engine.update(_assign_kernel, folded, norms)

    def means(v: int, sums: Any) -> Matrix:
        return to_numpy(engine.scalings[v].unfold(sums))[:-1].T

    lloyd(engine, step, parts, means, most=most_passes)


def _beside(rows: list[Any]) -> Any:
    """Return the views side by side; dense where a quarter of them is there, or more."""
    stored = sum(part.nnz if sp.issparse(part) else part.size for part in rows)
    if 4 * stored < sum(part.shape[0] * part.shape[1] for part in rows):
        return sp.hstack(rows, format="csr")
    return np.hstack([part.toarray() if sp.issparse(part) else part for part in rows])


def _centres(rows: Any, n_clusters: int, rng: np.random.Generator) -> Matrix:
    return cluster_rows(rows, n_clusters, rng)[1]


def _centres_in_leading_directions(rows: Any, n_clusters: int, rng: np.random.Generator) -> Matrix:
    """Return centres of clusters that k-means finds among the leading singular vectors of rows.

    Of wide rows with much noise they are better, and found in a tenth of the time.
    """
    seed = int(rng.integers(2**31 - 1))
    count = min(2 * n_clusters, *rows.shape)
    left, values, _ = randomized_svd(rows, count, n_iter=4, random_state=seed)
    labels, _ = cluster_rows(left * values, n_clusters, rng)
    members = np.eye(n_clusters, dtype=rows.dtype)[labels]
    return np.asarray((rows.T @ members / members.sum(axis=0)).T)


def random_start(engine: Engine, n_clusters: int, rng: np.random.Generator) -> None:
    """Put labels of equal frequency, in random order, into the blocks."""
    engine.scatter("labels", rng.permutation(engine.n_samples) % n_clusters)


def _uncentred(view: RowView, scaling: Scaling) -> Any:
    """Return a few rows as the model sees them, but not centred, which k-means does not see.

    It does where samples lack a view, as the model puts these at the mean. Then the first centres
    are somewhat off, and Lloyd's iterations over all rows mend it.
    """
    x = view.x.astype(np.result_type(np.float32, view.x.dtype), copy=False)
    if sp.issparse(x):
        return times(x, view.scale, scaling.width)
    x = x if view.scale is None else x * view.scale[:, None]
    return x if scaling.width is None else x * scaling.width


def _assign_kernel(block: Block, centres: list[Any], norms: Array) -> Update:
    products = sum(view.project(part) for view, part in zip(block.views, centres, strict=True))
    labels, members, cost = assigned(norms - 2.0 * products)
    members = namespace(members).astype(members, products.dtype, copy=False)
    sums = [view.pull(members) for view in block.views]
    return {"labels": labels}, (cost, namespace(members).sum(members, axis=0), *sums)


@dataclass(frozen=True, eq=False)
class Given:
    """A start that the caller gave.

    Attributes
    ----------
    labels : ndarray of shape (n_samples,)
        The cluster of each sample; every cluster has a member.
    indicator : ndarray of shape (n_samples, n_clusters) or None
        Of memberships, the nearest to them with orthonormal columns; None of labels, from which
        it follows.
    """

    labels: Labels
    indicator: Matrix | None

    @classmethod
    def of(cls, array: Any, n_samples: int, n_clusters: int) -> Self:
        """Read labels, or what each sample has to do with each cluster.

        Of the latter, the label of a sample is its largest entry, whatever the sign.

        Raises
        ------
        ValueError
            If the shape, the number of clusters or the rank does not fit, or entries are masked.

        Examples
        --------
        >>> Given.of([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], 3, 2).labels
        array([0, 1, 1])
        """
        if np.ma.is_masked(array):
            raise ValueError(
                "init is a masked array with masked entries; expected an entry for every sample"
            )
        array = np.asarray(to_numpy(array))
        if array.shape == (n_samples,):
            return cls(_as_numbers(array, n_clusters), None)
        if array.shape != (n_samples, n_clusters):
            raise ValueError(
                f"init has shape {array.shape}; expected labels of shape ({n_samples},) or an "
                f"indicator of shape ({n_samples}, {n_clusters})"
            )
        if array.dtype.kind not in "fiub":
            raise ValueError(f"init is of type {array.dtype}; expected real numbers")
        if not np.isfinite(array).all():
            n, k = np.argwhere(~np.isfinite(array))[0]
            raise ValueError(
                f"init holds {array[n, k]} at {position((n, k))}; expected finite numbers"
            )
        largest = np.abs(array.astype(np.float64)).max()
        array = array.astype(np.float64) / max(float(largest), np.finfo(np.float64).tiny)
        root, null = inverse_square_root(array.T @ array)
        if null.shape[1]:
            raise ValueError(
                f"init has {n_clusters} columns but rank {n_clusters - null.shape[1]}: "
                "each cluster needs a column of its own"
            )
        # of the entries as they are: orthonormal columns are larger the smaller a cluster is
        labels = np.abs(array).argmax(axis=1).astype(np.intp)
        return cls(without_empty(labels, n_clusters), np.asarray(array @ root))


def _as_numbers(array: Any, n_clusters: int) -> Labels:
    """Return labels of any type as numbers from 0 on."""
    try:
        names, labels = np.unique(array, return_inverse=True)
    except TypeError:
        raise ValueError("init holds labels of types that cannot be compared") from None
    if names.dtype.kind == "f" and np.isnan(names).any():
        raise ValueError("init holds labels that are NaN")
    if len(names) != n_clusters:
        raise ValueError(
            f"init holds {len(names)} different labels; expected n_clusters={n_clusters}"
        )
    return labels.astype(np.intp)


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
