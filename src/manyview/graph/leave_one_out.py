"""Labels judged by predictions that leave their sample out.

With more features than samples, a regression repeats the labels it was taught, so its in-sample
predictions say nothing about them. Here every sample is predicted from the others, in two ways.

*Regressions.* The full-order model with a ridge on the whole weight tensor is kernel ridge
regression in the product kernel ``prod_v (1 + c_v)``, where c_v is the cosine of two rows of view
v. Beside it stand the regressions in each view's own kernel ``1 + c_v``. With H the hat matrix of
one of them and F the indicator, the prediction of sample i by a fit without it has the closed
form::

    L_i = ((H F)_i - h_ii F_i) / (1 - h_ii)

*Votes* are the mean rows of F of a sample's neighbours in an affinity graph, ``S F`` with S
row-stochastic: one graph for the product of all views and one for each view.

Regressions are averaged with weights 1 - e, where e is the error of one of them relative to the
variance of F; so are votes. With L and V these means, and e and d their errors, a round gives each
sample the label of the largest entry of::

    L / (1 - e) + w (e / d) V

so that the better of both counts more.

Rounds end when hardly a label changes. Initial labels are the clusters of the graph of all orders,
unless another candidate ends clearer: by the product of e and the part of the embedding's variance
within clusters.

Regressions use landmarks (Nyström's approximation). If there are many samples, a random part of
them is treated so, and the regressions predict the others: time is linear in their number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import NamedTuple, Self

import numpy as np

from manyview._typing import Matrix
from manyview.engine import Block, Engine, State, Update
from manyview.engine.arrays import Array, namespace, to_numpy
from manyview.graph.neighbours import Comparison
from manyview.graph.regression import Prediction, coefficients_of, mean_prediction, predicted_rows
from manyview.graph.settings import ALL_ORDERS, DEFAULTS, GraphSettings
from manyview.graph.spectral import AffinityGraphs, Clusters
from manyview.linalg.partition import Labels, cluster_rows, has_collapsed, without_empty

__all__ = ["LabelJudge", "indicator_of", "judge_labels"]


class Judged(NamedTuple):
    """Labels of the sample after the rounds, and their leave-one-out error.

    ``unclear`` says how unclear the clusters are: candidates and scalings are compared by it.
    """

    labels: Labels
    error: float
    unclear: float = 0.0


def judge_labels(
    engine: Engine,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    initial: bool = True,
    order: int | None = None,
    neighbourhood: float = 1.0,
    settings: GraphSettings = DEFAULTS,
    on_stage: Callable[[str], None] = lambda name: None,
) -> float:
    """Put labels into the blocks that regressions and neighbours predict best.

    With `initial`, the spectral clusters of several affinity graphs are candidates for initial
    labels. Without it, the initial labels are those in the blocks. `on_stage` is called before the
    candidates are compared.

    Returns
    -------
    float
        The leave-one-out error e of the final labels, relative to the variance of the indicator.
    """
    judge = LabelJudge(
        engine, n_clusters, rng, order=order, neighbourhood=neighbourhood, settings=settings
    )
    if initial:
        on_stage("candidates")
        best = judge.best_candidate(rng)
    else:
        best = judge.settled(engine.take_state(State.LABELS, judge.graphs.sample).astype(np.intp))
    judge.label_all(best.labels)
    return best.error


class LabelJudge:
    """Regressions and votes by which the labels of some samples are revised.

    ``graphs`` are the affinity graphs of these samples.
    """

    def __init__(
        self,
        engine: Engine,
        n_clusters: int,
        rng: np.random.Generator,
        *,
        order: int | None = None,
        neighbourhood: float = 1.0,
        settings: GraphSettings = DEFAULTS,
    ) -> None:
        self._engine, self._n_clusters, self._settings = engine, n_clusters, settings
        self.graphs = AffinityGraphs(
            engine, n_clusters, rng, order=order, neighbourhood=neighbourhood, settings=settings
        )
        self._regressions = self.graphs.regressions(engine)
        self._votes = self.graphs.votes()

    def for_clusters(self, n_clusters: int) -> Self:
        """Return a judge of the same samples for at least as many clusters.

        Neighbours and regressions, which take most of the time, are shared.
        """
        other = copy(self)
        other._n_clusters = n_clusters
        other.graphs = self.graphs.for_clusters(n_clusters)
        other._votes = other.graphs.votes()
        return other

    def first_candidate(self, rng: np.random.Generator) -> tuple[Clusters, float]:
        """Return the clusters of the graph of all orders, and their error after the rounds."""
        clusters = self.graphs.clusters(ALL_ORDERS, self._n_clusters, rng)
        return clusters, self.settled(clusters.labels).error

    def best_candidate(self, rng: np.random.Generator) -> Judged:
        """Return the labels from the first graph, or from a candidate that ends clearly clearer.

        The other candidates are the clusters of further graphs, unless nearly all samples are in
        one of them, and those of k-means in the leading directions of the product kernel.
        Neighbourhoods are those of average clusters, so that graphs may divide one large cluster
        and join several small ones.
        """
        graphs, n_clusters = self.graphs.candidates(), self._n_clusters
        seeds = rng.integers(2**31 - 1, size=len(graphs) + 1)

        def clustered(number: int) -> Clusters:
            own = np.random.default_rng(seeds[number])
            if number < len(graphs):
                return self.graphs.clusters(graphs[number], n_clusters, own)
            rows = self._regressions[0].leading(2 * n_clusters)
            restarts = self._settings.embedding_restarts[0]
            return Clusters(cluster_rows(rows, n_clusters, own, n_init=restarts)[0], rows, 0.0)

        # to be comparable, the clusters of k-means are measured in the embedding of a graph
        found = self._engine.side_by_side(clustered, range(len(graphs) + 1))
        found[-1] = Clusters.of(found[-1].labels, found[0].embedding)
        first, *others, by_kernel = self._engine.side_by_side(self._judged, found)
        sizes = np.bincount(first.labels)
        others = [other for other in others if not has_collapsed(np.bincount(other.labels), sizes)]
        clearest = min([*others, by_kernel], key=lambda judged: judged.unclear)
        clearly = clearest.unclear < self._settings.clearly * first.unclear
        return clearest if clearly else first

    def _judged(self, clusters: Clusters) -> Judged:
        settled = self.settled(clusters.labels)
        unexplained = clusters.unexplained + self._settings.hardly_unexplained
        return settled._replace(unclear=settled.error * unexplained)

    def settled(self, labels: Labels) -> Judged:
        """Return labels of the sample after the rounds, and their leave-one-out error."""
        settings = self._settings
        F = indicator_of(labels, self._n_clusters)
        found = [ridge.leave_one_out(F) for ridge in self._regressions]
        for _ in range(settings.rounds):
            mean = mean_prediction(found, F)
            each = [_voted(votes @ F, F) for votes in self._votes]
            voted = _voted(mean_prediction(each, F).rows, F)
            explained = max(1.0 - mean.error, settings.least_explained)
            trust = settings.votes * mean.error / max(voted.error, settings.least_error)
            scores = mean.rows / explained + trust * voted.rows
            new = _without_losing(labels, scores.argmax(axis=1))
            changed, labels = np.mean(new != labels), new
            F = indicator_of(labels, self._n_clusters)
            found = [
                ridge.leave_one_out(F, near=before.ridge)
                for ridge, before in zip(self._regressions, found, strict=True)
            ]
            if changed <= settings.unchanged:
                break
        return Judged(labels, mean_prediction(found, F).error)

    def error_of(self, labels: Labels) -> float:
        """Return the leave-one-out error of labels without changing them."""
        F = indicator_of(labels, int(labels.max()) + 1)
        return mean_prediction([ridge.leave_one_out(F) for ridge in self._regressions], F).error

    def label_all(self, labels: Labels) -> None:
        """Put the labels of the sample into the blocks, and those predicted for the others."""
        engine = self._engine
        if not self.graphs.complete:
            (predicted,) = self.extended(engine, [labels])
            predicted[self.graphs.sample] = labels
            labels = without_empty(predicted, self._n_clusters)  # if the sample misses a cluster
        engine.scatter(State.LABELS, labels)

    def scores(self, labels: Labels) -> Matrix:
        """Return the one-hot indicator of all samples, as others predict it.

        The predictions for the sample leave their sample out; the regressions predict the rest.

        Parameters
        ----------
        labels : ndarray of shape (n_samples,)
            Labels of all samples.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
        """
        own = labels[self.graphs.sample]
        F, engine = indicator_of(own, self._n_clusters), self._engine
        roots = np.sqrt(np.bincount(own, minlength=self._n_clusters))
        mean = mean_prediction([ridge.leave_one_out(F) for ridge in self._regressions], F)
        if self.graphs.complete:
            return np.asarray(mean.rows * roots)
        coefficients = coefficients_of(self._regressions, F, engine.dtype)
        engine.update(_score_kernel, self.graphs.comparison, coefficients)
        scores = to_numpy(engine.gather(State.PREDICTION)).astype(np.float64)
        engine.forget(State.PREDICTION)
        scores[self.graphs.sample] = mean.rows
        return np.asarray(scores * roots)

    def extended(self, engine: Engine, labels: Sequence[Labels]) -> list[Labels]:
        """Return what the regressions predict for any samples, for each labelling of the sample.

        `engine` has these samples, scaled like the sample. They are compared with the landmarks
        once for all labellings.
        """
        indicators = [indicator_of(each, int(each.max()) + 1) for each in labels]
        found = [coefficients_of(self._regressions, F, engine.dtype) for F in indicators]
        stacked = [np.hstack(parts) for parts in zip(*found, strict=True)]
        ends = np.cumsum([F.shape[1] for F in indicators]).tolist()
        engine.update(_labels_kernel, self.graphs.comparison, stacked, ends)
        predicted = to_numpy(engine.gather(State.LABELS)).astype(np.intp)
        engine.forget(State.LABELS)
        return list(predicted.T)


def _labels_kernel(
    block: Block, comparison: Comparison, coefficients: list[Array], ends: list[int]
) -> Update:
    predicted = predicted_rows(block, comparison, coefficients)
    xp, spans = namespace(predicted), zip([0, *ends[:-1]], ends, strict=True)
    labels = [xp.argmax(predicted[:, begin:end], axis=1) for begin, end in spans]
    return {State.LABELS: xp.stack(labels, axis=1)}, ()


def _score_kernel(block: Block, comparison: Comparison, coefficients: list[Array]) -> Update:
    return {State.PREDICTION: predicted_rows(block, comparison, coefficients)}, ()


def _voted(rows: Matrix, F: Matrix) -> Prediction:
    """Return votes with their relative error if they are scaled to predict F best."""
    centred, wanted = rows - rows.mean(axis=0), F - F.mean(axis=0)
    squares = float(np.sum(centred**2)) * float(np.sum(wanted**2))
    along = max(float(np.sum(centred * wanted)), 0.0)
    return Prediction(rows, 1.0 - along**2 / max(squares, np.finfo(np.float64).tiny))


def indicator_of(labels: Labels, n_clusters: int) -> Matrix:
    """Return ``Y (Y'Y)^(-1/2)`` with Y one-hot."""
    sizes = np.bincount(labels, minlength=n_clusters)
    F = np.zeros((labels.size, n_clusters))
    F[np.arange(labels.size), labels] = 1.0 / np.sqrt(sizes[labels])
    return F


def _without_losing(before: Labels, after: Labels) -> Labels:
    """Return `after`, except that clusters that lost all members keep those they had before."""
    kept = np.unique(before)
    for lost in np.setdiff1d(kept, after):
        after[before == lost] = lost
    return after if np.isin(kept, after).all() else before
