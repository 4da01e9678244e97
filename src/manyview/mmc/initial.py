"""Initial labels and factors of a fit.

Labels are the clusters of affinity graphs (:mod:`manyview.graph`), of k-means, random, or given.
Factors are fitted to them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import randomized_svd

from manyview._typing import Matrix
from manyview.engine import Block, Engine, RowView, Scaling, State, Sums, Update
from manyview.engine.arrays import Array, namespace, placed_like, times, to_numpy, uniform_of_rows
from manyview.graph.kmeans import assigned, lloyd
from manyview.graph.leave_one_out import judge_labels
from manyview.graph.settings import DEFAULTS, GraphSettings
from manyview.graph.spectral import spectral_labels
from manyview.linalg.partition import Labels, cluster_rows, without_empty
from manyview.linalg.solvers import inverse_square_root
from manyview.mmc.objective import Factors, Moments, project_all
from manyview.mmc.solver import Fitted, Problem, begin
from manyview.views.checks import position

__all__ = [
    "INITS",
    "Given",
    "InitialSettings",
    "LabelInitialisation",
    "initial_factors",
    "kmeans_labels",
    "random_labels",
]


@dataclass(frozen=True)
class InitialSettings:
    """Tuning constants of the initialisation, except those of the affinity graph."""

    neighbourhood_factor: float = 1 / 4
    """Neighbourhood size of each further initialisation, relative to the one before."""
    lower_by: float = 0.1
    """Relative decrease of the objective for one initialisation to replace another; the objective
    ranks them only roughly."""
    kmeans_rows: int = 4000
    """Rows on which k-means starts, or 50 per cluster if that is more."""
    ridge: float = 0.01
    """Ridge of the regression for the cluster factor, relative to the mean eigenvalue."""


@dataclass(frozen=True)
class LabelInitialisation:
    """Initialisation of fits: how labels are found, and the shape of the factors.

    `init` is one of ``INITS``, or what the caller gave. `on_stage` is called with the name of each
    stage.
    """

    init: str | Given
    n_clusters: int
    rank: int
    order: int | None
    graph_settings: GraphSettings = DEFAULTS
    on_stage: Callable[[str], None] = lambda name: None
    settings: ClassVar[InitialSettings] = InitialSettings()

    @property
    def lower_by(self) -> float:
        """Relative decrease of the objective for a further initialisation to be kept."""
        return self.settings.lower_by if self.init == "graph" else 0.0

    def begin(
        self, engine: Engine, problem: Problem, rng: np.random.Generator, number: int
    ) -> Fitted:
        """Return a fit before its first iteration, with its state in the blocks.

        `number` counts the initialisations of a fit from 0; further ones from graphs use smaller
        neighbourhoods.
        """
        options: dict[str, Any] = {
            "order": self.order,
            "neighbourhood": float(self.settings.neighbourhood_factor**number),
        }
        given = None
        self.on_stage("neighbours")
        if isinstance(self.init, Given):
            engine.scatter(State.LABELS, self.init.labels)
            given = self.init.indicator
        elif self.init != "graph":
            _BY_LABELS[self.init](engine, self.n_clusters, rng)
        elif problem.indicator.follows_model:
            spectral_labels(engine, self.n_clusters, rng, settings=self.graph_settings, **options)
            engine.forget(State.EMBEDDING)
        if not problem.indicator.follows_model:
            judge_labels(
                engine,
                self.n_clusters,
                rng,
                initial=self.init == "graph",
                settings=self.graph_settings,
                on_stage=self.on_stage,
                **options,
            )
        self.on_stage("iterations")
        return self._from_labels(engine, problem, rng, given=given)

    def _from_labels(
        self,
        engine: Engine,
        problem: Problem,
        rng: np.random.Generator,
        *,
        given: Matrix | None = None,
    ) -> Fitted:
        problem.indicator.start(engine, self.n_clusters, given)
        seed = int(rng.integers(2**31 - 1))
        factors, moments = initial_factors(
            engine, self.n_clusters, self.rank, seed, order=self.order, settings=self.settings
        )
        return begin(engine, problem, factors, moments)


def random_labels(engine: Engine, n_clusters: int, rng: np.random.Generator) -> None:
    """Put labels of equal frequency, in random order, into the blocks."""
    engine.scatter(State.LABELS, rng.permutation(engine.n_samples) % n_clusters)


def kmeans_labels(
    engine: Engine,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    max_iter: int = DEFAULTS.kmeans_max_iter,
    settings: InitialSettings = LabelInitialisation.settings,
) -> None:
    """Put the clusters of k-means on the concatenated scaled views into the blocks.

    The views are not copied. First centres come from scikit-learn's k-means, on all rows if they
    are few, else on the leading singular vectors of a sample. Lloyd's iterations over all rows
    follow.
    """
    n, most = engine.n_samples, max(settings.kmeans_rows, 50 * n_clusters)
    sample = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
    pairs = zip(engine.take(sample), engine.scalings, strict=True)
    rows = _concatenated([_uncentred(view, scaling) for view, scaling in pairs])
    if n <= most / 2:
        centres = cluster_rows(rows, n_clusters, rng)[1]
    else:
        centres = _centres_in_leading_directions(rows, n_clusters, rng)
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

    lloyd(engine, step, parts, means, settings=replace(DEFAULTS, kmeans_max_iter=max_iter))


def _assign_kernel(block: Block, centres: list[Any], norms: Array) -> Update:
    products = sum(view.project(part) for view, part in zip(block.views, centres, strict=True))
    labels, members, cost = assigned(norms - 2.0 * products)
    members = namespace(members).astype(members, products.dtype, copy=False)
    sums = [view.pull(members) for view in block.views]
    return {State.LABELS: labels}, (cost, namespace(members).sum(members, axis=0), *sums)


def _uncentred(view: RowView, scaling: Scaling) -> Any:
    """Return a few scaled rows without centring them, which does not affect k-means.

    It does where views are missing, as the model puts their samples at the mean. Then the first
    centres are somewhat off, and Lloyd's iterations over all rows correct them.
    """
    x = view.x.astype(np.result_type(np.float32, view.x.dtype), copy=False)
    if sp.issparse(x):
        return times(x, view.scale, scaling.width)
    x = x if view.scale is None else x * view.scale[:, None]
    return x if scaling.width is None else x * scaling.width


def _concatenated(rows: list[Any]) -> Any:
    """Return the views concatenated; dense if a quarter of the entries is stored, or more."""
    stored = sum(part.nnz if sp.issparse(part) else part.size for part in rows)
    if 4 * stored < sum(part.shape[0] * part.shape[1] for part in rows):
        return sp.hstack(rows, format="csr")
    return np.hstack([part.toarray() if sp.issparse(part) else part for part in rows])


def _centres_in_leading_directions(rows: Any, n_clusters: int, rng: np.random.Generator) -> Matrix:
    """Return centres of the clusters that k-means finds in the leading singular vectors.

    For wide, noisy rows they are better, and take a tenth of the time.
    """
    seed = int(rng.integers(2**31 - 1))
    count = min(2 * n_clusters, *rows.shape)
    left, values, _ = randomized_svd(rows, count, n_iter=4, random_state=seed)
    labels, _ = cluster_rows(left * values, n_clusters, rng)
    members = np.eye(n_clusters, dtype=rows.dtype)[labels]
    return np.asarray((rows.T @ members / members.sum(axis=0)).T)


_BY_LABELS = {"kmeans": kmeans_labels, "random": random_labels}
INITS = frozenset({"graph", *_BY_LABELS})
"""Names of initialisations."""


@dataclass(frozen=True, eq=False)
class Given:
    """Initial labels that the caller gave, each cluster with a member.

    `indicator` has orthonormal columns, the nearest to given memberships; it is None for given
    labels.
    """

    labels: Labels
    indicator: Matrix | None

    @classmethod
    def of(cls, array: Any, n_samples: int, n_clusters: int) -> Self:
        """Read labels, or memberships; the label is then the largest entry, whatever its sign.

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
                f"init has {n_clusters} columns but rank {n_clusters - null.shape[1]}; "
                "expected linearly independent columns"
            )
        # from the given entries: orthonormal columns are larger for smaller clusters
        labels = np.abs(array).argmax(axis=1).astype(np.intp)
        return cls(without_empty(labels, n_clusters), np.asarray(array @ root))


def _as_numbers(array: Any, n_clusters: int) -> Labels:
    """Return labels of any type as numbers from 0."""
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


def initial_factors(
    engine: Engine,
    n_clusters: int,
    rank: int,
    seed: int,
    *,
    order: int | None = None,
    settings: InitialSettings = LabelInitialisation.settings,
) -> tuple[Factors, Moments]:
    """Return factors that fit the indicator in the blocks roughly, and set the projections.

    Column r of every view factor is the mean of a random part of one cluster in that view, with
    bias 1. The parts are the same in all views, so that means carry what the views have in common,
    even where the mean of a whole cluster is uninformative. The cluster factor follows by ridge
    regression. With `order`, features of at most so many views take part in a column, and every
    choice of `order` views has its turn among the columns of a cluster.
    """
    sums = engine.sum(_part_sums_kernel, n_clusters, rank, seed)
    columns = np.arange(rank) % n_clusters
    choices = list(combinations(range(len(sums)), min(order or len(sums), len(sums))))
    turn = (np.arange(rank) // n_clusters) % len(choices)
    factors = []
    for v, (scaling, pulled) in enumerate(zip(engine.scalings, sums, strict=True)):
        parts = to_numpy(scaling.unfold(pulled))[:-1]
        whole = np.stack([parts[:, columns == k].sum(axis=1) for k in range(n_clusters)], axis=1)
        norms = np.linalg.norm(parts, axis=0)
        parts = np.where(norms > 0, parts, whole[:, columns])
        norms = np.linalg.norm(parts, axis=0)
        takes_part = np.array([v in choices[t] for t in turn])
        parts = parts / np.where(norms > 0, norms, 1.0) * takes_part
        factors.append(engine.asarray(np.vstack([parts, np.ones(rank)]).astype(engine.dtype)))
    moments = project_all(engine, tuple(factors))
    ridge = settings.ridge * np.trace(moments.gram) / rank
    clusters = np.linalg.solve(moments.gram + ridge * np.eye(rank), moments.cross).T
    return Factors(tuple(factors), clusters.astype(engine.dtype)), moments


def _part_sums_kernel(block: Block, n_clusters: int, rank: int, seed: int) -> Sums:
    indicator = block.state[State.INDICATOR]
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
