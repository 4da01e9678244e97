"""Variants of MMC, as estimators for a comparison.

They have their own module because the processes of a comparison import them by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.linear_model import RidgeClassifier

from manyview import MMC, MultiViewSpectral, Views, as_views
from manyview.baselines.common import concatenated, scaled_arrays
from manyview.graph.settings import ALL_ORDERS, FAR_PRODUCT, NEAR_PRODUCT, GraphSettings

Labels = npt.NDArray[np.intp]


@dataclass
class _Configured:
    """Parameters that a comparison passes to every estimator."""

    n_clusters: int
    random_state: int | None = None
    normalize: Literal["auto", "rows", "columns"] | None = "auto"

    def _mmc(self, **options: Any) -> MMC:
        return MMC(
            self.n_clusters,
            random_state=self.random_state,
            normalize=self.normalize,
            **options,
        )


PARTS: dict[str, dict[str, Any]] = {
    "votes": {"votes": 0.0},
    "regressions": {"votes": 1e6},
    "other graphs": {"graphs": (ALL_ORDERS,)},
    "graphs of single views": {"graphs": (FAR_PRODUCT, NEAR_PRODUCT)},
    "the near graph": {"graphs": (ALL_ORDERS, FAR_PRODUCT)},
    "distances": {"distance": False},
    "winsorising": {"winsorise_at": np.inf},
    "weights of views": {"informative": 1e-9},
    "squares for many samples": {"extending_power": 1},
}
"""What of the label step and its graphs :class:`Without` can leave out."""


@dataclass
class Without(_Configured):
    """MMC without one of ``PARTS``."""

    part: str = "votes"

    def fit(self, views: Any) -> Self:
        model = self._mmc()
        model._graph_settings = replace(GraphSettings(), **PARTS[self.part])
        self.labels_ = model.fit(views).labels_
        return self


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
        initial = MultiViewSpectral(self.n_clusters, random_state=self.random_state).fit(first)
        X = concatenated(scaled_arrays(views, "rows"))
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
