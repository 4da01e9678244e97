"""MMC in other forms than its own parameters name, as a comparison takes them.

In a module of their own because the processes of a comparison import them by name.
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
from manyview.mmc.initial import Start
from manyview.mmc.objective import default_gamma, default_rank, penalty_named

Labels = npt.NDArray[np.intp]


@dataclass
class _Configured:
    """What the harness gives every estimator."""

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
class StartAlone(_Configured):
    """The labels from which MMC of the same seed begins to sweep."""

    order: int | None = None

    def fit(self, views: Any) -> Self:
        checked = as_views(views)
        engine, mmc = engine_for(checked, normalize=self.normalize), self._mmc()
        rank = default_rank(self.n_clusters, len(checked), self.order)
        start = Start("graph", self.n_clusters, rank, self.order)
        with engine.running():
            # MMC draws its start before anything else
            start.begin(engine, mmc._problem(engine, mmc.gamma), mmc._generator(), 0)
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
        """Return parameters of MMC beside its defaults."""


@dataclass
class ScaledRank(_Varied):
    """MMC with its default rank times a number, but a column for each cluster."""

    times: float = 1.0

    def _options(self, views: Views) -> dict[str, Any]:
        rank = round(self.times * default_rank(self.n_clusters, len(views), None))
        return {"rank": max(rank, self.n_clusters)}


@dataclass
class ScaledGamma(_Varied):
    """MMC with its default gamma times a number."""

    times: float = 1.0

    def _options(self, views: Views) -> dict[str, Any]:
        engine = engine_for(views, normalize=self.normalize)
        return {"gamma": self.times * default_gamma(engine, penalty_named("l21"), self.n_clusters)}


@dataclass
class FromFullStart(_Varied):
    """MMC of a lower order from the start of the full one, whose kernel has all products.

    The labels are the same; the random parts of clusters that make the first factors are not.
    """

    order: int = 1

    def _options(self, views: Views) -> dict[str, Any]:
        start = StartAlone(self.n_clusters, self.random_state, self.normalize).fit(views)
        return {"order": self.order, "init": start.labels_}


@dataclass
class _Split(_Configured, ABC):
    """Labels of the samples after the first `n_first`, or of these, to be scored.

    A comparison counts the clusters in the classes that it scores against; held out samples may
    lack one, so that `n_all` is what counts.
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
    """MMC fitted to the first samples, which predicts the others."""

    def _labels(self, views: Views) -> Labels:
        rows = np.arange(views.n_samples)
        model = self._mmc().fit(views.take(rows[: self.n_first]))
        return model.predict(views.take(rows[self.n_first :]))


@dataclass
class PredictedByRidge(_Split):
    """A ridge classifier of the views side by side, taught the start of the first samples.

    As scikit-learn has it by default: what anyone could add to the start to predict with it.
    """

    def _labels(self, views: Views) -> Labels:
        first = views.take(np.arange(self.n_first))
        start = StartAlone(self.n_clusters, self.random_state, self.normalize).fit(first)
        X = concatenated(scaled_arrays(views, self.normalize))
        X = sp.csr_matrix(X) if sp.issparse(X) else X
        model = RidgeClassifier().fit(X[: self.n_first], start.labels_)
        return np.asarray(model.predict(X[self.n_first :]), dtype=np.intp)


@dataclass
class FittedToAll(_Split):
    """MMC fitted to all samples."""

    def _labels(self, views: Views) -> Labels:
        return self._mmc().fit(views).labels_[self.n_first :]


@dataclass
class FirstFittedToAll(_Split):
    """The first samples, in a fit of all."""

    def _labels(self, views: Views) -> Labels:
        return self._mmc().fit(views).labels_[: self.n_first]


@dataclass
class FirstFitted(_Split):
    """The first samples, fitted by themselves."""

    def _labels(self, views: Views) -> Labels:
        return self._mmc().fit(views.take(np.arange(self.n_first))).labels_
