import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from manyview.baselines import SNF
from manyview.baselines import snf as module
from manyview.exceptions import NotEnoughMemoryError, ViewWarning

from .helpers import assert_same_space, blobs, scores_on


def affinities_by_definition(X, k):
    squares = cdist(X, X, "sqeuclidean")
    radii = np.sort(squares, axis=1)[:, 1 : k + 1].mean(axis=1)
    widths = (radii[:, None] + radii + squares) / 6
    return np.exp(-(squares**2) / (2 * widths**2)) / widths


class TestNetworks:
    def test_affinities_by_definition(self):
        X = blobs()[0][0]
        found, expected = module.affinities(X, 7), affinities_by_definition(X, 7)
        np.testing.assert_allclose(found / found[0, 1], expected / expected[0, 1])

    @pytest.mark.parametrize("scale", [1e-60, 1e60])
    def test_affinities_have_no_scale(self, scale):
        X = blobs()[0][0]
        found = module.affinities(scale * X, 7)
        np.testing.assert_allclose(found, module.affinities(X, 7), rtol=1e-9)

    def test_local_networks_have_the_largest_entries(self):
        P = module.normalized(module.affinities(blobs()[0][0], 7))
        np.testing.assert_array_equal(P, P.T)
        S = module.local_network(P, 7).toarray()
        kept = -np.sort(-P, axis=1)[:, 6:7] <= P
        np.testing.assert_array_equal(S > 0, kept)
        expected = np.where(kept, P, 0)
        np.testing.assert_allclose(S, expected / expected.sum(axis=1, keepdims=True))

    def test_iteration_by_definition(self):
        P = [module.normalized(module.affinities(X, 7)) for X in blobs()[0]]
        S = [module.local_network(each, 7) for each in P]
        found = module.diffuse(P, S)
        expected = S[1].toarray() @ ((P[0] + P[2]) / 2) @ S[1].toarray().T + np.eye(60)
        np.testing.assert_allclose(found[1], expected, atol=1e-12)
        for each in found:
            np.testing.assert_array_equal(each, each.T)


class TestFit:
    def test_clear_clusters_are_found(self):
        views, truth = blobs(n=90)
        model = SNF(3, n_init=5, random_state=0).fit(views)
        assert adjusted_rand_score(truth, model.labels_) == 1.0
        assert model.n_iter_ == model.objective_.size == 20
        np.testing.assert_allclose(model.embedding_.T @ model.embedding_, np.eye(3), atol=1e-9)
        np.testing.assert_array_equal(model.affinity_, model.affinity_.T)
        assert (model.affinity_ >= 0).all()

    def test_a_noisy_view_does_not_hide_the_clusters(self):
        views, truth = blobs(n=120, widths=(8, 6))
        noise = np.random.default_rng(9).standard_normal((120, 30))
        model = SNF(3, n_init=5, random_state=0).fit([*views, noise])
        assert adjusted_rand_score(truth, model.labels_) == 1.0

    def test_order_of_views_does_not_matter(self):
        views, _ = blobs(spread=3.0)
        first, second = (SNF(3, random_state=0).fit(each) for each in (views, views[::-1]))
        np.testing.assert_allclose(first.affinity_, second.affinity_, atol=1e-12)

    @pytest.mark.parametrize("normalize", [None, "rows", "columns"])
    def test_sparse_views_give_what_dense_ones_give(self, normalize):
        views, _ = blobs(spread=3.0)
        model = SNF(3, normalize=normalize, random_state=0)
        dense = model.fit(views).embedding_
        sparse = clone(model).fit([sp.csr_array(view) for view in views]).embedding_
        assert_same_space(sparse, dense, atol=1e-7)

    def test_too_many_samples_for_the_memory_are_rejected(self, monkeypatch):
        monkeypatch.setattr("manyview.memory._half_of_memory", lambda: 1e5)
        with pytest.raises(NotEnoughMemoryError, match="SNF on 60 samples"):
            SNF(3).fit(blobs()[0])


class TestDegenerate:
    def test_duplicates_and_zero_rows(self):
        views, _ = blobs(n=6)
        views = [np.vstack([np.repeat(v, 9, axis=0), np.zeros((9, v.shape[1]))]) for v in views]
        model = SNF(4, n_neighbors=4, random_state=0).fit(views)
        assert np.isfinite(model.affinity_).all()
        assert np.unique(model.labels_).size == 4

    def test_a_constant_view_has_no_effect(self):
        views, _ = blobs(spread=2.0)
        alone = SNF(3, random_state=0).fit(views)
        with pytest.warns(ViewWarning):
            beside = SNF(3, random_state=0).fit([views[0], np.ones((60, 2)), *views[1:]])
        np.testing.assert_array_equal(beside.affinity_, alone.affinity_)

    @pytest.mark.parametrize("n", [4, 5])
    def test_few_samples(self, n):
        model = SNF(4, n_neighbors=2, random_state=0).fit(blobs(n=n)[0])
        assert set(model.labels_) == {0, 1, 2, 3}

    def test_too_few_samples_for_the_neighbours(self):
        with pytest.raises(ValueError, match="n_neighbors=20"):
            SNF(2).fit(blobs(n=20)[0])


@pytest.mark.data
@pytest.mark.slow
def test_scores_on_handwritten(data_dir):
    # seen with the program of its authors, on unit rows
    scores = scores_on(data_dir, "handwritten", lambda k: SNF(k, n_init=10, random_state=0))
    assert scores == (pytest.approx(0.885, abs=0.01), pytest.approx(0.895, abs=0.01))


@pytest.mark.data
def test_scores_on_ngs(data_dir):
    acc, nmi = scores_on(data_dir, "ngs", lambda k: SNF(k, random_state=0))
    assert (acc, nmi) == (pytest.approx(0.988, abs=0.005), pytest.approx(0.960, abs=0.01))
