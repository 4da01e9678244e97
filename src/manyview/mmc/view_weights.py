"""How much each view contributes to the clusters.

The labels are predicted by the regressions of :mod:`manyview.graph.leave_one_out`, each sample from
the others: with all views, without each view, and with each view alone. A regression on several
views is the mean of that in their product kernel and of those in their own kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from manyview._typing import Matrix
from manyview.base import new_frame
from manyview.engine import Block, Engine
from manyview.graph.affinity import product_kernel
from manyview.graph.leave_one_out import indicator_of
from manyview.graph.neighbours import chunks_of, comparison_with, filled_products
from manyview.graph.regression import Prediction, Ridge, mean_prediction
from manyview.graph.settings import GraphSettings
from manyview.linalg.partition import Labels

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["ViewWeights", "WeightSettings", "view_weights_of"]

Vector = npt.NDArray[np.float64]
Subset = tuple[int, ...]


@dataclass(frozen=True)
class WeightSettings:
    """Tuning constants of view weights."""

    samples: int = 2000
    """Samples that are predicted; by convention."""
    per_cluster: int = 20
    """Such samples for each cluster, if that is more, up to `most`."""
    most: int = 10_000
    """Limit of their number however many the clusters."""
    fewest: int = 5
    """Samples of each cluster among these, if it has as many; by convention."""
    n_landmarks: int = 700
    """Landmarks of the regressions. A thousand take twice the time and give weights within .02 on
    real data sets; 400 take a third, but give views of thousands of words too little."""
    ridges: tuple[float, ...] = tuple(10.0 ** (0.25 * power - 3.0) for power in range(25))
    """Ridges that are compared, relative to the mean of the kernel's diagonal. The best of fewer
    may fit one regression better than another by chance: with a third of them the weights of equal
    views differ by up to .04."""


DEFAULTS = WeightSettings()


@dataclass(frozen=True, eq=False, repr=False)
class ViewWeights:
    """How much each view contributes to the clusters, as parts from 0 to 1.

    All numbers are parts of the variance of membership in a cluster that can be predicted: 1 if
    every sample's membership follows from the other samples, 0 if it cannot be predicted at all.
    Rows are the clusters and, last, all clusters together; columns are the views.
    ``np.asarray(weights)`` is `added`, and so is indexing: ``weights[-1]`` has the weights of the
    views for all clusters together.

    Attributes
    ----------
    view_names : tuple of str
    added : ndarray of shape (n_clusters + 1, n_views)
        What is predicted with all views, less what is predicted without this one; 0 if no less is.
    alone : ndarray of shape (n_clusters + 1, n_views)
        What is predicted with this view only.
    explained : ndarray of shape (n_clusters + 1,)
        What is predicted with all views.

    Examples
    --------
    >>> both = np.array([[0.1, 0.2], [0.1, 0.0], [0.1, 0.1]])
    >>> ViewWeights(("text", "image"), both, both + 0.5, np.array([0.9, 0.8, 0.85]))
    added (alone)       text      image  all views
    cluster 0      10% (60%)  20% (70%)        90%
    cluster 1      10% (60%)   0% (50%)        80%
    overall        10% (60%)  10% (60%)        85%
    """

    view_names: tuple[str, ...]
    added: Matrix
    alone: Matrix
    explained: Vector

    def to_frame(self, part: Literal["added", "alone"] = "added") -> DataFrame:
        """Return a pandas DataFrame with a row for each cluster, and ``"overall"`` last.

        Its columns are the views, and its values `added` or `alone`.
        """
        if part not in ("added", "alone"):
            raise ValueError(f"part={part!r}; expected 'added' or 'alone'")
        frame = new_frame(list(getattr(self, part)), list(self.view_names))
        frame.index = [*range(len(self.added) - 1), "overall"]
        return frame.rename_axis("cluster")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.added, dtype=dtype)

    def __getitem__(self, key: Any) -> Any:
        return self.added[key]

    def __repr__(self) -> str:
        rows = self._cells()
        first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
        lines = []
        for title, *cells in rows:
            shown = (f"{cell:>{width}}" for cell, width in zip(cells, others, strict=True))
            lines.append("  ".join((f"{title:<{first}}", *shown)))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head, *rows = ([escape(cell) for cell in row] for row in self._cells())
        lines = [f"<tr><th>{'</th><th>'.join(head)}</th></tr>"]
        lines += [f"<tr><th>{row[0]}</th><td>{'</td><td>'.join(row[1:])}</td></tr>" for row in rows]
        return f"<table>{''.join(lines)}</table>"

    def _cells(self) -> list[list[str]]:
        titles = [*(f"cluster {cluster}" for cluster in range(len(self.added) - 1)), "overall"]
        rows = [["added (alone)", *self.view_names, "all views"]]
        for title, *parts in zip(titles, self.added, self.alone, self.explained, strict=True):
            added, alone, explained = parts
            pairs = zip(added, alone, strict=True)
            rows.append([title, *(f"{one:.0%} ({other:.0%})" for one, other in pairs)])
            rows[-1].append(f"{explained:.0%}")
        return rows


def view_weights_of(
    engine: Engine,
    names: tuple[str, ...],
    labels: Labels,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    order: int | None,
    graph_settings: GraphSettings,
    settings: WeightSettings = DEFAULTS,
) -> ViewWeights:
    """Return the weights of the views, given the labels of all samples.

    If there are many samples, the weights are those of a random part.
    """
    most = min(max(settings.samples, settings.per_cluster * n_clusters), settings.most)
    sample = _sample(labels, most, settings.fewest, rng)
    F, size, n_views = indicator_of(labels[sample], n_clusters), sample.size, len(names)
    n_landmarks = max(min(settings.n_landmarks, graph_settings.n_landmarks), 5 * n_clusters)
    landmarks = rng.permutation(size)[:n_landmarks]
    # kernels are those by which the labels were judged
    complete = engine.n_samples <= graph_settings.most_in_graph(n_clusters)
    power = 1 if complete else graph_settings.extending_power
    rows = engine.take(sample)
    comparison = comparison_with(
        engine, [view.take(landmarks) for view in rows], order=order, settings=graph_settings
    )
    comparison = comparison._replace(chunk=min(comparison.chunk, Engine.chunk))
    block = Block(slice(0, size), rows)
    parts = [filled_products(block, chunk, comparison) for chunk in chunks_of(block, comparison)]
    products = [np.concatenate(part) for part in zip(*parts, strict=True)]

    every = tuple(range(n_views))
    single, without = [(v,) for v in every], list(combinations(every, n_views - 1))[::-1]
    subsets = sorted({every, *single, *without} - {()})

    def predicted(subset: Subset) -> Prediction:
        kernel = product_kernel([products[v] for v in subset], order) ** power
        return Ridge.of(kernel, landmarks, settings.ridges).leave_one_out(F)

    found = dict(zip(subsets, engine.side_by_side(predicted, subsets), strict=True))

    def explained(subset: Subset) -> Vector:
        if not subset:
            return np.zeros(n_clusters + 1)
        each = [found[v,] for v in subset] if len(subset) > 1 else []
        return _explained(mean_prediction([found[subset], *each], F).rows, F)

    together = explained(every)
    others, alone = (np.stack(list(map(explained, part)), axis=1) for part in (without, single))
    return ViewWeights(names, np.maximum(together[:, None] - others, 0.0), alone, together)


def _explained(predicted: Matrix, F: Matrix) -> Vector:
    """Return the explained part of the variance of each column of F, and of all; at least 0.

    It is 0 for constant columns.
    """
    errors = np.sum((predicted - F) ** 2, axis=0)
    variances = np.sum((F - F.mean(axis=0)) ** 2, axis=0)
    errors, variances = np.append(errors, errors.sum()), np.append(variances, variances.sum())
    varying = variances > 1e-9  # the columns have unit length
    parts = np.ones_like(errors)
    np.divide(errors, variances, out=parts, where=varying)
    return np.asarray(np.clip(1.0 - parts, 0.0, 1.0))


def _sample(
    labels: Labels, most: int, fewest: int, rng: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Return the numbers of random samples, with some of each cluster, in ascending order."""
    if labels.size <= most:
        return np.arange(labels.size)
    shuffled = rng.permutation(labels.size)
    sample = [shuffled[:most]]
    sizes = np.bincount(labels[sample[0]], minlength=int(labels.max()) + 1)
    for cluster in np.flatnonzero(sizes < fewest):
        sample.append(shuffled[labels[shuffled] == cluster][:fewest])
    return np.unique(np.concatenate(sample))
