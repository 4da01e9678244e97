"""Estimators in scikit-learn's model selection, with views split by samples."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import (
    GridSearchCV,
    ShuffleSplit,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    train_test_split,
)
from sklearn.pipeline import make_pipeline

from manyview import AMGL, KCTD, MMC, RMKMC, SEC, CoRegSC, MultiNMF, MultiViewSpectral, as_views
from manyview.base import MultiViewClusterer
from manyview.datasets import make_views
from tests.engine.places import PLACES

N = 90
(A, B), Y = make_views(N, 3, (8, 6), separation=9.0, random_state=0)
SOME = np.arange(N)[:, None] % 5 != np.array([0, 1])
GIVEN = {
    "dense": as_views([A, B]),
    "sparse": as_views({"a": sp.csr_array(A * (A > 0)), "b": B}),
    "missing views": as_views([A, B], present=SOME),
    "frames": as_views([pd.DataFrame(A, index=[f"s{n}" for n in range(N)]), B]),
}
given = pytest.mark.parametrize("views", GIVEN.values(), ids=GIVEN)


@pytest.mark.parametrize("fitted", [False, True])
def test_notebooks_link_to_the_documentation_once_there_is_an_address(fitted, monkeypatch):
    shown = MMC(2, random_state=0)
    if fitted:
        shown.fit([A, B])
    assert "href" not in shown._repr_html_()
    monkeypatch.setattr(MultiViewClusterer, "_doc_link_template", "https://host/{estimator_name}/")
    assert 'href="https://host/MMC/"' in shown._repr_html_()


def model(**options):
    return MMC(3, **({"random_state": 0, "max_iter": 5, "tol": 0.0, "patience": None} | options))


def objective(estimator, views, y=None):
    assert len(views) in (N // 3, N // 10)
    return -estimator.objective_[-1]


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@given
def test_prediction_of_a_test_set(views):
    train, test, y_train, y_test = train_test_split(views, Y, test_size=0.3, random_state=0)
    fitted = model().fit(train)
    assert adjusted_rand_score(y_train, fitted.labels_) > 0.9
    assert adjusted_rand_score(y_test, fitted.predict(test)) > 0.9


@given
def test_scores_of_cross_validation(views):
    scores = cross_val_score(model(), views, Y, scoring="adjusted_rand_score", cv=3)
    assert scores.min() > 0.8
    assert cross_val_predict(model(), views, cv=3).shape == (N,)


@given
def test_cross_validation_without_classes(views):
    cv = ShuffleSplit(2, random_state=0)
    found = cross_validate(model(), views, scoring=objective, cv=cv, error_score="raise")
    assert np.isfinite(found["test_score"]).all()


@given
def test_grid_search(views):
    grid = {"mmc__penalty": ["l21", "frobenius"]}
    search = GridSearchCV(make_pipeline(model()), grid, scoring="adjusted_rand_score", cv=3)
    assert search.fit(views, Y).best_score_ > 0.8
    assert search.predict(views[:7]).shape == (7,)


@pytest.mark.parametrize("method", [AMGL, CoRegSC, KCTD, MultiNMF, MultiViewSpectral, RMKMC, SEC])
def test_every_method_is_fitted_to_the_training_samples(method):
    def size(estimator, views, y=None):
        return estimator.labels_.size

    estimator = method(3, random_state=0)
    if method is MultiNMF:
        estimator.set_params(negative="shift")
    found = cross_validate(estimator, GIVEN["dense"], scoring=size, cv=3, error_score="raise")
    assert found["test_score"].tolist() == [N - N // 3] * 3


def test_pandas_output_keeps_the_index_of_the_split_samples():
    _, test = train_test_split(GIVEN["frames"], random_state=0)
    fitted = model().fit(GIVEN["frames"]).set_output(transform="pandas")
    assert fitted.transform(test).index.tolist() == test.sample_ids.tolist()


class TestListsOfViews:
    """scikit-learn splits a list of views by views: the error says to use as_views."""

    def test_fewer_views(self):
        first, last = train_test_split([A, B, A], test_size=1, shuffle=False)
        fitted = model().fit(first)
        with pytest.raises(ValueError, match=r"1 view\(s\).*as_views"):
            fitted.predict(last)

    def test_other_views(self):
        with pytest.raises(ValueError, match=r"expected 6.*as_views"):
            cross_validate(
                model(),
                [A, B],
                scoring=lambda fitted, views, y=None: fitted.predict(views).size,
                cv=2,
                error_score="raise",
            )

    def test_training_and_test_samples_together(self):
        with pytest.raises(ValueError, match=r"'view1' has 23 rows.*as_views"):
            model().fit(train_test_split(A, B))
        with pytest.raises(TypeError, match="'view0' is a Views object of 67 samples"):
            model().fit(train_test_split(GIVEN["dense"]))

    def test_a_list_of_samples(self):
        with pytest.raises(ValueError, match=r"'view0' has 1 dimension.*\[X\]"):
            model().fit(list(A))


class TestNewSamplesWithoutAView:
    """A view that a dict leaves out is missing in all of its samples."""

    @pytest.mark.parametrize("place", PLACES)
    def test_is_as_one_that_no_sample_has(self, place):
        here = PLACES[place]
        fitted = model().fit({"a": here(A), "b": here(B)})
        marked = as_views(
            {"a": here(A[:9]), "b": here(np.zeros_like(B[:9]))},
            present=np.tile([True, False], (9, 1)),
            warn=False,
        )
        expected = np.asarray(fitted.predict(marked))
        np.testing.assert_array_equal(np.asarray(fitted.predict({"a": here(A[:9])})), expected)
        proba = np.asarray(fitted.predict_proba({"a": here(A[:9])}))
        np.testing.assert_array_equal(proba.argmax(axis=1), expected)

    def test_other_names_and_lists_are_rejected(self):
        fitted = model().fit({"a": A, "b": B})
        with pytest.raises(ValueError, match=r"received 1 view\(s\) \('c'\)"):
            fitted.predict({"c": A})
        with pytest.raises(ValueError, match="leave them out of a dict"):
            fitted.predict([A])

    def test_a_sample_needs_one_of_the_views(self):
        fitted = MMC(3, random_state=0, max_iter=2).fit({"a": A, "b": B, "c": B**2})
        present = np.ones((5, 2), dtype=bool)
        present[3, 0] = False
        some = as_views({"a": A[:5], "c": B[:5]}, present=present)
        assert fitted.predict(some).shape == (5,)

    def test_methods_without_missing_views_say_so(self):
        fitted = SEC(3, random_state=0).fit({"a": A, "b": B})
        with pytest.raises(ValueError, match=r"received 1 view"):
            fitted.predict({"a": A})


def test_categories_of_new_samples_are_those_of_the_fit():
    sexes = np.where(Y == 0, "f", "m")
    frame = pd.DataFrame(A).add_prefix("x").assign(sex=sexes, smoker="no")
    frame.loc[::3, "smoker"] = "yes"
    fitted = model().fit({"a": frame, "b": B})
    assert fitted.feature_names_in_[0].tolist()[-3:] == ["sex=f", "sex=m", "smoker=yes"]
    whole = fitted.predict({"a": frame, "b": B})
    one = fitted.predict({"a": frame.iloc[4:5], "b": B[4:5]})  # with one sex only
    assert one.tolist() == whole[4:5].tolist()
    with pytest.warns(UserWarning, match="'sex' has values that the fit did not have: 'x'"):
        fitted.predict({"a": frame.assign(sex="x"), "b": B})
