import sys
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from manyview import as_views
from manyview.datasets import make_views
from manyview.experiment import METHODS, REFERENCES, method_named

EASY = make_views(90, 3, (6, 5), separation=12.0, random_state=0)
each = pytest.mark.parametrize(
    "method",
    [
        pytest.param(
            method,
            id=name,
            marks=pytest.mark.skipif(
                name == "umap" and find_spec("umap") is None, reason="needs umap-learn"
            ),
        )
        for name, method in REFERENCES.items()
    ],
)


@each
def test_clear_clusters_are_found(method):
    model = method.make(3, random_state=0)
    labels = model.fit_predict(EASY.views)
    assert adjusted_rand_score(EASY.y, labels) == 1.0
    assert model.n_features_in_ == [6, 5]
    np.testing.assert_array_equal(clone(model).fit_predict(EASY.views), labels)


@each
def test_sparse_views_give_the_same(method):
    dense = method.make(3, random_state=0).fit_predict(EASY.views)
    sparse = method.make(3, random_state=0).fit_predict([sp.csr_array(X) for X in EASY.views])
    assert adjusted_rand_score(dense, sparse) == 1.0


@pytest.mark.parametrize("name", [name for name in REFERENCES if name != "MultiViewSpectral"])
def test_errors_name_the_method(name):
    method = REFERENCES[name]
    views = as_views(EASY.views, present=np.arange(180).reshape(90, 2) > 0)
    with pytest.raises(ValueError, match=f"^{method.name} "):
        method.make(3).fit(views)


def test_k_means_is_that_of_scikit_learn_on_concatenated_unit_rows():
    unit = [X / np.linalg.norm(X, axis=1, keepdims=True) for X in EASY.views]
    expected = KMeans(3, n_init=10, random_state=0).fit(np.hstack(unit))
    labels = method_named("k-means").make(3, random_state=0).fit_predict(EASY.views)
    assert adjusted_rand_score(labels, expected.labels_) == 1.0


def test_k_means_of_standardised_features_does_not_depend_on_their_units():
    other = [X * 10.0 ** np.arange(X.shape[1]) + 5 for X in EASY.views]
    first, second = (
        REFERENCES["k-means-standardised"].make(3, random_state=0).fit_predict(views)
        for views in (EASY.views, other)
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.filterwarnings("ignore::manyview.exceptions.ViewWarning")
def test_a_constant_view_has_no_effect_on_the_sum_of_graphs():
    views = make_views(90, 3, (6, 5), separation=2.0, random_state=0).views.arrays
    alone, beside = (
        REFERENCES["summed-graphs"].make(3, random_state=0).fit_predict(each)
        for each in (views, [np.ones((90, 2)), *views])
    )
    np.testing.assert_array_equal(alone, beside)


def test_k_means_on_the_embedding_of_umap(monkeypatch):
    class FirstColumns:
        def __init__(self, *, n_components, **options):
            self.count = n_components

        def fit_transform(self, X):
            return X[:, : self.count]

    package = ModuleType("umap")
    package.UMAP = FirstColumns
    monkeypatch.setitem(sys.modules, "umap", package)
    labels = method_named("umap").make(3, random_state=0).fit_predict(EASY.views)
    assert adjusted_rand_score(EASY.y, labels) == 1.0


def test_umap_names_the_extra_that_has_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(ModuleNotFoundError, match=r"manyview\[umap\]"):
        method_named("umap").make(3).fit(EASY.views)


def test_references_are_separate_from_the_methods_of_the_paper():
    assert not set(REFERENCES) & set(METHODS)
    assert method_named("K-Means").name == "k-means"
