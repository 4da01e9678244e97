"""Scikit-learn's estimator checks, on adapters that take one X instead of views."""

import pytest
from sklearn.utils import estimator_checks

from manyview.baselines import (
    AMGL,
    GMC,
    KCTD,
    LMVSC,
    NEMO,
    OPMC,
    RMKMC,
    SCMV3DT,
    SEC,
    SNF,
    CoRegSC,
    MultiNMF,
)

NOT_APPLICABLE = {
    "check_n_features_in": "n_features_in_ is a list, one number per view",
    "check_n_features_in_after_fitting": "n_features_in_ is a list, one number per view",
    "check_complex_data": "expects scikit-learn's message; ours names the view",
    "check_estimators_empty_data_messages": "expects scikit-learn's message; ours names the view",
    "check_fit2d_predict1d": "expects scikit-learn's message; ours names the view",
    "check_dtype_object": "expects scikit-learn's message; ours names the view",
    "check_array_api_input": "runs only where SCIPY_ARRAY_API is set",
}
SETTINGS = {
    SEC: {"n_neighbors": 3},
    CoRegSC: {},
    AMGL: {"n_neighbors": 3},
    GMC: {"n_neighbors": 3, "normalize": None},  # two features of a sample cannot be standardised
    RMKMC: {},
    MultiNMF: {"negative": "shift"},
    KCTD: {},
    SCMV3DT: {},
    SNF: {"n_neighbors": 3},
    NEMO: {},
    LMVSC: {"normalize": None, "n_landmarks": 10},
    OPMC: {"normalize": None},
}


def one_view(method):
    """Return the class of an estimator for an X in place of a list of views."""

    def fit(self, X, y=None):
        return method.fit(self, [X])

    def fit_predict(self, X, y=None):
        return self.fit(X).labels_

    def predict(self, X):
        return method.predict(self, [X])

    def transform(self, X):
        return method.transform(self, [X])

    def tags(self):
        tags = method.__sklearn_tags__(self)
        tags.input_tags.two_d_array = True
        return tags

    body = {"fit": fit, "fit_predict": fit_predict, "__sklearn_tags__": tags}
    body["__module__"] = __name__  # pickle looks the class up there
    body["__init__"] = method.__init__  # parameters are read from its signature
    body |= {f.__name__: f for f in (predict, transform) if hasattr(method, f.__name__)}
    return type(f"OneView{method.__name__}", (method,), body)


ADAPTERS = {method: one_view(method) for method in SETTINGS}
globals().update({adapter.__name__: adapter for adapter in ADAPTERS.values()})


def _checks():
    for method, settings in SETTINGS.items():
        adapter = ADAPTERS[method]
        made = adapter(n_clusters=2, **settings)
        for check in estimator_checks._yield_all_checks(made, legacy=True):
            name = getattr(check, "func", check).__name__
            if name not in NOT_APPLICABLE:
                yield pytest.param(adapter, settings, check, id=f"{method.__name__}-{name}")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::manyview.exceptions.ViewWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize(("adapter", "settings", "check"), list(_checks()))
def test_check(adapter, settings, check):
    check(adapter.__name__, adapter(n_clusters=2, random_state=0, **settings))


@pytest.mark.parametrize("method", SETTINGS)
def test_tags_and_clone(method):
    made = method(n_clusters=2)
    estimator_checks.check_estimator_cloneable(method.__name__, made)
    assert made.__sklearn_tags__().estimator_type == "clusterer"
    assert made.__sklearn_tags__().input_tags.sparse
    assert not made.__sklearn_tags__().input_tags.two_d_array


def test_feature_names_of_sec_need_a_fit():
    estimator_checks.check_get_feature_names_out_error("SEC", SEC(n_clusters=2))
