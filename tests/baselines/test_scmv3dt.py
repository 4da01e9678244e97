import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from manyview.baselines.scmv3dt import SCMV3DT, leading_scores
from manyview.datasets import make_views, read_views
from manyview.linalg.partition import cluster_rows
from manyview.metrics import clustering_accuracy, normalized_mutual_info

constructions = pytest.mark.parametrize("construction", ["pca", "pad", "block"])


def fitted(views, k=3, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return SCMV3DT(k, **({"random_state": 0} | options)).fit(views)


class TestScores:
    @pytest.mark.parametrize("width", [4, 30])
    def test_inner_products_are_those_of_the_best_approximation(self, width):
        X = np.random.default_rng(0).standard_normal((12, width))
        scores = leading_scores(X, 3)
        left, values, _ = np.linalg.svd(X, full_matrices=False)
        expected = (left[:, :3] * values[:3] ** 2) @ left[:, :3].T
        np.testing.assert_allclose(scores @ scores.T, expected, atol=1e-10)
        np.testing.assert_allclose(leading_scores(sp.csr_array(X), 3), scores, atol=1e-10)

    def test_all_scores_keep_the_inner_products(self):
        X = np.random.default_rng(0).standard_normal((12, 2)) @ np.ones((2, 5))
        scores = leading_scores(X, 50)
        assert scores.shape == (12, 5)
        assert not scores[:, 1:].any()
        np.testing.assert_allclose(scores @ scores.T, X @ X.T, atol=1e-10)

    def test_signs_do_not_hang_on_one_sample(self):
        X = np.abs(np.random.default_rng(0).standard_normal((12, 4)))
        assert (leading_scores(X, 3).sum(axis=0) > 0).all()

    def test_signs_of_centred_views_are_those_of_the_largest_score(self):
        X = np.random.default_rng(0).standard_normal((12, 4))
        scores = leading_scores(X - X.mean(axis=0), 3)
        assert (scores.max(axis=0) == np.abs(scores).max(axis=0)).all()


class TestEstimator:
    @constructions
    def test_clear_clusters_are_found(self, construction):
        views, truth = make_views(60, 3, n_features=(20, 15), separation=12.0, random_state=0)
        model = fitted(views, construction=construction, n_init=10)
        assert adjusted_rand_score(truth, model.labels_) > 0.9

    @constructions
    def test_attributes(self, construction):
        views, _ = make_views(30, 3, n_features=(5, 7), random_state=0)
        model = fitted(views, construction=construction)
        assert set(model.labels_) == {0, 1, 2}
        assert model.embedding_.shape == (30, 3)
        np.testing.assert_allclose(np.linalg.norm(model.embedding_, axis=1), 1.0)
        np.testing.assert_array_equal(model.affinity_, model.affinity_.T)
        assert (model.affinity_ >= 0).all()
        assert not np.diag(model.affinity_).any()
        assert model.objective_.shape == (model.n_iter_,)
        assert model.n_features_in_ == [5, 7]
        assert not hasattr(model, "predict")

    def test_same_seed_same_result(self):
        views, _ = make_views(30, 3, random_state=0)
        model = SCMV3DT(3, random_state=0)
        np.testing.assert_array_equal(model.fit_predict(views), clone(model).fit(views).labels_)

    @constructions
    @pytest.mark.parametrize("normalize", [None, "rows", "columns"])
    def test_sparse_or_dense(self, construction, normalize):
        views, _ = make_views(30, 3, density=0.5, random_state=0)
        options = {"construction": construction, "normalize": normalize, "max_iter": 20}
        dense = fitted([X.toarray() for X in views], **options)
        np.testing.assert_allclose(dense.affinity_, fitted(views, **options).affinity_, atol=1e-8)

    def test_warns_when_stopped_early(self):
        views, _ = make_views(30, 3, random_state=0)
        with pytest.warns(ConvergenceWarning, match="max_iter=2 "):
            SCMV3DT(3, max_iter=2, random_state=0).fit(views)

    def test_progress_is_shown_when_asked_for(self, capsys):
        views, _ = make_views(30, 3, random_state=0)
        fitted(views, verbose=1)
        assert "SCMV3DT" in capsys.readouterr().err


class TestDegenerate:
    @constructions
    @pytest.mark.parametrize("low_rank", [0.1, 100.0])
    def test_no_coefficients_left_names_the_largest_sparsity(self, construction, low_rank):
        views, _ = make_views(20, 2, random_state=0)
        sparsity = 100.0 if low_rank < 1 else 0.1
        with pytest.raises(ValueError, match=r"lam_s,max = \d"):
            fitted(views, 2, construction=construction, sparsity=sparsity, low_rank=low_rank)

    @pytest.mark.parametrize(
        ("options", "remedy"),
        [({"max_iter": 1}, "raise max_iter above 1$"), ({"tol": 1.0}, "lower tol below 1$")],
    )
    def test_no_coefficients_yet_is_no_matter_of_their_weights(self, options, remedy):
        rng = np.random.default_rng(0)
        views = [np.abs(rng.standard_normal((200, width))) for width in (8, 6)]
        with pytest.raises(ValueError, match=rf"still zero after 1 iteration.*; {remedy}"):
            fitted(views, **options)
        assert fitted(views, max_iter=2).affinity_.any()

    def test_samples_without_relatives_are_refused(self):
        with pytest.raises(ValueError, match="lam_s,max = 0"):
            fitted([np.eye(6)], 2, sparsity=0.0, construction="pad")

    @constructions
    def test_duplicates(self, construction):
        views, _ = make_views(10, 3, random_state=0)
        model = fitted([np.repeat(X, 3, axis=0) for X in views], construction=construction)
        assert np.isfinite(model.embedding_).all()
        assert set(model.labels_) == {0, 1, 2}

    @constructions
    def test_rows_of_zeros_stand_alone(self, construction):
        views, _ = make_views(30, 3, random_state=0)
        arrays = [np.array(X) for X in views]
        for X in arrays:
            X[:2] = 0.0
        model = fitted(arrays, construction=construction)
        assert not model.affinity_[:2].any()
        assert np.isfinite(model.embedding_).all()
        assert set(model.labels_) == {0, 1, 2}

    @pytest.mark.parametrize("construction", ["pad", "block"])
    def test_clusters_without_a_link(self, construction):
        # two groups of samples with features of their own; scores of views need not keep apart
        rng = np.random.default_rng(0)
        blocks = [[rng.uniform(0.5, 1.0, (8, 4)) for _ in range(2)] for _ in range(2)]
        views = [np.block([[a, np.zeros((8, 4))], [np.zeros((8, 4)), b]]) for a, b in blocks]
        model = fitted(views, 2, construction=construction)
        assert not model.affinity_[:8, 8:].any()
        assert adjusted_rand_score(np.repeat([0, 1], 8), model.labels_) == 1.0

    @pytest.mark.parametrize("n", [3, 4])
    def test_barely_more_samples_than_clusters(self, n):
        views = [np.random.default_rng(v).standard_normal((n, 4)) for v in range(2)]
        assert set(fitted(views).labels_) == {0, 1, 2}

    @pytest.mark.filterwarnings("ignore:.*carries nothing")
    @constructions
    @pytest.mark.parametrize("normalize", [None, "rows", "columns"])
    def test_a_constant_view_takes_no_part(self, construction, normalize):
        (first, last), _ = make_views(30, 3, n_features=(6, 4), random_state=0)
        options = {"construction": construction, "normalize": normalize, "max_iter": 20}
        model = fitted([first, np.full((30, 2), 3.0), last], **options)
        np.testing.assert_array_equal(model.affinity_, fitted([first, last], **options).affinity_)
        assert model.n_views_ == 3

    @pytest.mark.filterwarnings("ignore:.*carries nothing")
    def test_nor_does_a_view_whose_rows_are_the_same_once_scaled(self):
        views, _ = make_views(30, 3, n_features=(6,), random_state=0)
        lengths = np.linspace(1.0, 2.0, 30)[:, None]
        model = fitted([views[0], lengths], normalize="rows")
        np.testing.assert_array_equal(model.affinity_, fitted(views).affinity_)

    @pytest.mark.filterwarnings("ignore:.*carries nothing")
    @constructions
    def test_constant_views_only(self, construction):
        model = fitted([np.ones((30, 2)), np.ones((30, 3))], construction=construction)
        assert np.isfinite(model.embedding_).all()

    @pytest.mark.parametrize(
        "options",
        [{"sparsity": -1.0}, {"low_rank": -1.0}, {"construction": "fold"}, {"n_components": 0}],
    )
    def test_bad_parameters_are_named(self, options):
        with pytest.raises(ValueError, match=next(iter(options))):
            SCMV3DT(2, **options).fit([np.eye(5)])

    def test_more_than_the_memory_is_refused(self):
        with pytest.raises(ValueError, match="GiB"):
            SCMV3DT(2).fit([sp.eye_array(10**7, 2, format="csr")])


def scores_on_3sources(data_dir, construction):
    """Mean accuracy and normalised mutual information over 20 seeds of k-means."""
    views, truth = read_views(data_dir / "3sources.npz")
    embedding = SCMV3DT(6, construction=construction, random_state=0).fit(views).embedding_
    labels = [cluster_rows(embedding, 6, np.random.default_rng(s), n_init=1)[0] for s in range(20)]
    accuracy = np.mean([clustering_accuracy(truth, found) for found in labels])
    information = np.mean([normalized_mutual_info(truth, found) for found in labels])
    return accuracy, information


# expected scores are those of a separate implementation of the same equations. They leave the
# signs of principal scores open: over random signs ACC was 40 to 61, over seven rules that make
# sense 49 to 55. The one that is used was taken after these had been seen, being the one that
# does not depend on a single entry.
@pytest.mark.data
@pytest.mark.parametrize(
    ("construction", "expected"),
    [("pca", (0.55, 0.51)), ("pad", (0.725, 0.653)), ("block", (0.651, 0.642))],
)
def test_scores_on_3sources(data_dir, construction, expected):
    assert scores_on_3sources(data_dir, construction) == pytest.approx(expected, abs=0.04)
