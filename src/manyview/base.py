"""Base class of all estimators: validation of parameters and views, and fitted attributes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from manyview.iterate import ProgressBar
from manyview.views import (
    Views,
    as_views,
    check_n_clusters,
    check_same_views,
    check_shared_samples,
    fill_unknown,
    first_index,
    unchecked_views,
    warn_of_few_distinct,
    warn_of_single_features,
    with_absent,
)

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["MultiViewClusterer", "feature_name", "new_frame", "view_place"]


class _NoOutOfSample:
    """A method that an estimator does not have, with an error that says why.

    ``hasattr`` is false, as scikit-learn expects of methods that an estimator does not have.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> NoReturn:
        raise AttributeError(
            f"{owner.__name__} has no {self._name}: it only clusters the samples of fit. Fit all "
            "samples together, or use MMC or SEC"
        )


class MultiViewClusterer(ClusterMixin, BaseEstimator):
    """Base class of the estimators: ``fit(views, y=None)`` takes views in place of X.

    Subclasses have parameters ``n_clusters`` and ``random_state`` and, like those of scikit-learn,
    a class attribute ``_parameter_constraints``.

    Attributes
    ----------
    n_views_ : int
        Number of views seen by fit.
    n_features_in_ : list of int
        Number of features of each view.
    view_names_ : list of str
        Names of the views.
    feature_names_in_ : list of ndarray of str or None
        Names of the features of each view, None where they have none.
    """

    n_clusters: Any
    random_state: Any
    verbose: int
    labels_: npt.NDArray[np.intp]
    predict: Any = _NoOutOfSample()
    transform: Any = _NoOutOfSample()
    _name: ClassVar[str | None] = None  # if users know it by another name than its class
    _takes_missing_views = False  # samples may miss views
    _takes_unknown_cells = False  # dense views may hold NaN
    _takes_other_places = False  # views may be torch tensors and Dask arrays
    _doc_link_module = "manyview"
    # address of the page of a class, such as "https://.../{estimator_name}.html", to which the
    # display of notebooks links; no link without one
    _doc_link_template: Any = ""

    def fit_predict(self, views: Any, y: Any = None) -> npt.NDArray[np.intp]:
        """Fit and return the labels of the samples.

        Parameters
        ----------
        views : list, tuple or dict of array-likes, or Views
            The views; see :func:`manyview.as_views`.
        y : ignored
            Present for compatibility with scikit-learn.

        Returns
        -------
        ndarray of shape (n_samples,)
            The cluster of each sample, ``labels_``.
        """
        labels: npt.NDArray[np.intp] = self.fit(views).labels_
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # a list of them
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._takes_unknown_cells
        return tags

    def _setup_fit(self, views: Any) -> Views:
        """Validate parameters and views."""
        self._validate_params()
        checked = as_views(views, min_samples=2)
        chosen = isinstance(self.n_clusters, str)  # "auto", from the views
        if not chosen:
            check_n_clusters(self.n_clusters, checked)
        self._check_kind(checked)
        check_shared_samples(checked)
        if getattr(self, "verbose", 0):
            self._report_unknown(checked)
        checked = fill_unknown(checked)
        warn_of_few_distinct(2 if chosen else self.n_clusters, checked)
        warn_of_single_features(checked, getattr(self, "normalize", None))
        return checked

    def _setup_predict(self, views: Any) -> Views:
        """Validate views of other samples and return them in the order of fit."""
        check_is_fitted(self, "labels_")
        fitted: dict[str, Any] = {
            "names": self.view_names_,
            "n_features": self.n_features_in_,
            "feature_names": self.feature_names_in_,
        }
        known = dict(zip(self.view_names_, self.feature_names_in_, strict=True))
        checked = as_views(unchecked_views(views, known=known), warn=False)
        if self._takes_missing_views:
            checked = with_absent(checked, **fitted)
        self._check_kind(checked)
        try:
            same = check_same_views(checked, **fitted)
            return fill_unknown(same, None if same.unknown is None else self._feature_means())
        except ValueError as error:
            if not isinstance(views, list) or checked.n_features == self.n_features_in_:
                raise
            raise ValueError(
                f"{error}. scikit-learn splits a list of views by views: to split it by samples, "
                "pass as_views([...])"
            ) from error

    def _report_unknown(self, views: Views) -> None:
        """Print the part of unknown cells of each view that has any."""
        parts = zip(views.names, views.unknown or (), strict=False)
        shown = ", ".join(f"{name} {part:.1%}" for name, part in parts if part)
        if shown and sys.stderr is not None:  # absent in some processes
            sys.stderr.write(f"{type(self).__name__}: unknown cells: {shown}\n")

    def _feature_means(self) -> list[npt.NDArray[Any]] | None:
        """Return the means of the features in fit, which stand for unknown cells."""
        return None

    def _check_kind(self, views: Views) -> None:
        """Raise if the method does not support such views."""
        name = self._name or type(self).__name__
        if views.place != "numpy" and not self._takes_other_places:
            raise TypeError(
                f"{name} supports NumPy and SciPy arrays only; received views of {views.place}, "
                "which MMC and MultiViewSpectral support"
            )
        if views.unknown is not None and not self._takes_unknown_cells:
            v = int(np.argmax(views.unknown))
            raise ValueError(
                f"{name} does not support unknown cells; {views.unknown[v]:.2g} of view "
                f"{views.names[v]!r} is NaN: impute or drop them, or use MMC"
            )
        if views.present is not None and not self._takes_missing_views:
            raise ValueError(
                f"{name} does not support missing views; "
                f"{int((~views.present).any(axis=1).sum())} samples miss a view"
            )

    def _record_views(self, views: Views) -> None:
        """Set the attributes of fit. Called at its end, so that a failed fit changes nothing."""
        self.n_views_ = views.n_views
        self.n_features_in_ = views.n_features
        self.view_names_ = list(views.names)
        self.feature_names_in_ = list(views.feature_names)

    def _generator(self) -> np.random.Generator:
        """Return the source of all random numbers of a fit."""
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))

    @contextmanager
    def _progress(self, total: int, word: str = "objective") -> Iterator[Callable[..., None]]:
        """Yield a function of iterations done and value that shows progress if `verbose`."""
        with ProgressBar(type(self).__name__, total=total, shown=bool(self.verbose)) as bar:
            yield lambda done, value: bar.step(done, f"{word} {value:.6g}")

    def _as_output(self, values: Any, views: Any) -> Any:
        """Return the result of `transform`, as a DataFrame if `set_output` asks for pandas.

        Its index is that of the views' frames; scikit-learn would look for a single frame.
        """
        index = first_index(views)
        if index is None or _get_output_config("transform", self)["dense"] != "pandas":
            return values
        import pandas as pd

        return pd.DataFrame(values, index=index)


def view_place(estimator: MultiViewClusterer, view: int | str) -> int:
    """Return the position of a view of a fitted estimator, given its name or position."""
    names = estimator.view_names_
    if isinstance(view, str):
        if view not in names:
            raise ValueError(f"no view {view!r}; the views are {', '.join(names)}")
        return names.index(view)
    is_integer = isinstance(view, Integral) and not isinstance(view, bool)
    if not is_integer or not 0 <= view < len(names):
        raise ValueError(
            f"view={view!r}; expected 0 to {len(names) - 1} or a name: {', '.join(names)}"
        )
    return int(view)


def feature_name(estimator: MultiViewClusterer, view: int, place: int) -> str:
    """Return the name of a feature of a fitted estimator, or ``feature d`` if it has none."""
    names = estimator.feature_names_in_[view]
    return f"feature {place}" if names is None else str(names[place])


def new_frame(rows: list[Any], columns: list[str]) -> DataFrame:
    """Return a pandas DataFrame, or raise an error that names the extra that has pandas."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        message = "to_frame needs pandas: pip install 'manyview[app]'"
        raise ModuleNotFoundError(message, name="pandas") from error
    return pd.DataFrame(rows, columns=columns)
