"""Scikit-learn's own checks of an estimator.

They call ``fit(X)`` with one 2-D array, which is an error here by design: a list of views is
expected. So they run on an adapter that makes a list of one view; what does not apply even then
is listed with the reason.
"""

import pytest
from sklearn.utils import ClassifierTags, estimator_checks

from manyview import MMC

NOT_APPLICABLE = {
    "check_n_features_in": "n_features_in_ is a list, one number a view",
    "check_n_features_in_after_fitting": "n_features_in_ is a list, one number a view",
    "check_complex_data": "asks for scikit-learn's words; ours name the view",
    "check_estimators_empty_data_messages": "asks for scikit-learn's words; ours name the view",
    "check_fit2d_predict1d": "asks for scikit-learn's words; ours name the view",
    "check_dtype_object": "asks for scikit-learn's words; ours name the view",
    "check_array_api_input": "runs only where SCIPY_ARRAY_API is set",
}


class _Wrapped(list):
    """A list of one view, told from an X that is a list of lists."""


class OneView(MMC):
    """MMC for an X in place of a list of views."""

    def fit(self, X, y=None):
        return super().fit([X])

    def fit_predict(self, X, y=None):
        return self.fit(X).labels_

    def transform(self, X):
        return super().transform(X if isinstance(X, _Wrapped) else [X])

    def predict(self, X):
        return super().predict(_Wrapped([X]))

    def predict_proba(self, X):
        return super().predict_proba(_Wrapped([X]))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.classifier_tags = ClassifierTags(multi_class=False)  # two columns
        return tags


def _checks():
    for check in estimator_checks._yield_all_checks(OneView(n_clusters=2), legacy=True):
        name = getattr(check, "func", check).__name__
        if name not in NOT_APPLICABLE:
            yield pytest.param(check, id=name)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:view .* is constant:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("check", list(_checks()))
def test_check(check):
    check("OneView", OneView(n_clusters=2, random_state=0))


@pytest.mark.parametrize("name", ["check_estimator_cloneable", "check_get_feature_names_out_error"])
def test_check_of_the_estimator_itself(name):
    getattr(estimator_checks, name)("MMC", MMC(n_clusters=2))


def test_tags():
    tags = MMC(n_clusters=2).__sklearn_tags__()
    assert tags.estimator_type == "clusterer"
    assert tags.input_tags.sparse
    assert not tags.input_tags.two_d_array
    assert set(tags.transformer_tags.preserves_dtype) == {"float64", "float32"}
