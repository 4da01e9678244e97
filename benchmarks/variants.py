"""Variants of MMC, as estimators for a comparison.

They have their own module because the processes of a comparison import them by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.linear_model import RidgeClassifier

from manyview import MMC, Views, as_views
from manyview.baselines.common import concatenated, scaled_arrays
from manyview.engine import engine_for
from manyview.mmc.initial import LabelInitialisation
from manyview.mmc.objective import default_gamma, default_rank, penalty_named

Labels = npt.NDArray[np.intp]


@dataclass
class _Configured:
    """Parameters that a comparison passes to every estimator."""

    n_clusters: int
    random_state: int | None = None
    normalize: str | None = "rows"

    def _mmc(self, **options: Any) -> MMC:
        return MMC(
            self.n_clusters,
            random_state=self.random_state,
            normalize=self.normalize,
            **options,
        )


@dataclass
class InitialisationOnly(_Configured):
    """The initial labels of MMC with the same seed."""

    order: int | None = None

    def fit(self, views: Any) -> Self:
        checked = as_views(views)
        engine, mmc = engine_for(checked, normalize=self.normalize), self._mmc()
        rank = default_rank(self.n_clusters, len(checked), self.order)
        initial = LabelInitialisation("graph", self.n_clusters, rank, self.order)
        with engine.running():
            # MMC draws its initialisation before anything else
            initial.begin(engine, mmc._problem(engine, mmc.gamma), mmc._generator(), 0)
            self.labels_ = engine.gather("labels")
        return self


@dataclass
class _Varied(_Configured, ABC):
    """MMC with parameters that follow from the data."""

    def fit(self, views: Any) -> Self:
        checked = as_views(views)
        model = self._mmc(**self._options(checked)).fit(checked)
        self.labels_, self.n_iter_, self.objective_ = model.labels_, model.n_iter_, model.objective_
        return self

    @abstractmethod
    def _options(self, views: Views) -> dict[str, Any]:
        """Return the parameters of MMC that are not defaults."""


@dataclass
class ScaledRank(_Varied):
    """MMC with a multiple of its default rank, at least the number of clusters."""

    times: float = 1.0

    def _options(self, views: Views) -> dict[str, Any]:
        rank = round(self.times * default_rank(self.n_clusters, len(views), None))
        return {"rank": max(rank, self.n_clusters)}


@dataclass
class ScaledGamma(_Varied):
    """MMC with a multiple of its default gamma."""

    times: float = 1.0

    def _options(self, views: Views) -> dict[str, Any]:
        engine = engine_for(views, normalize=self.normalize)
        return {"gamma": self.times * default_gamma(engine, penalty_named("l21"), self.n_clusters)}


@dataclass
class FromFullInitialisation(_Varied):
    """MMC of a lower order with the initial labels of the full order.

    The random initial factors differ.
    """

    order: int = 1

    def _options(self, views: Views) -> dict[str, Any]:
        initial = InitialisationOnly(self.n_clusters, self.random_state, self.normalize).fit(views)
        return {"order": self.order, "init": initial.labels_}


@dataclass
class _Split(_Configured, ABC):
    """Base of the variants that score the first `n_first` samples or the others.

    A comparison sets the number of clusters to that of the scored classes. Held-out samples may
    miss a class, so `n_all` is used instead.
    """

    n_all: int = 2
    n_first: int = 1

    def fit(self, views: Any) -> Self:
        self.n_clusters = self.n_all
        self.labels_ = self._labels(as_views(views))
        return self

    @abstractmethod
    def _labels(self, views: Views) -> Labels:
        """Return the labels."""


@dataclass
class Predicted(_Split):
    """MMC fitted to the first samples; scores its prediction of the others."""

    def _labels(self, views: Views) -> Labels:
        rows = np.arange(views.n_samples)
        model = self._mmc().fit(views.take(rows[: self.n_first]))
        return model.predict(views.take(rows[self.n_first :]))


@dataclass
class PredictedByRidge(_Split):
    """A ridge classifier of the concatenated views, trained on the initial labels of MMC."""

    def _labels(self, views: Views) -> Labels:
        first = views.take(np.arange(self.n_first))
        initial = InitialisationOnly(self.n_clusters, self.random_state, self.normalize).fit(first)
        X = concatenated(scaled_arrays(views, self.normalize))
        X = sp.csr_matrix(X) if sp.issparse(X) else X
        model = RidgeClassifier().fit(X[: self.n_first], initial.labels_)
        return np.asarray(model.predict(X[self.n_first :]), dtype=np.intp)


@dataclass
class FittedToAll(_Split):
    """MMC fitted to all samples; scores the others."""

    def _labels(self, views: Views) -> Labels:
        return self._mmc().fit(views).labels_[self.n_first :]


@dataclass
class FirstFittedToAll(_Split):
    """MMC fitted to all samples; scores the first."""

    def _labels(self, views: Views) -> Labels:
        return self._mmc().fit(views).labels_[: self.n_first]


@dataclass
class FirstFitted(_Split):
    """MMC fitted to the first samples; scores these."""

    def _labels(self, views: Views) -> Labels:
        return self._mmc().fit(views.take(np.arange(self.n_first))).labels_
