import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from manyview.baselines import CoRegSC
from manyview.baselines.graphs import rbf_kernel
from manyview.datasets import read_views
from manyview.exceptions import NotEnoughMemoryError

from .helpers import assert_same_space, blobs, mean_scores_on_3sources, projector

FORMS = pytest.mark.parametrize("form", ["centroid", "pairwise"])


def affinity(view):
    kernel = rbf_kernel(view)
    root = np.sqrt(kernel.sum(axis=1))
    return kernel / root[:, None] / root


@FORMS
class TestBothForms:
    def test_clear_clusters_are_found(self, form):
        views, truth = blobs()
        model = CoRegSC(3, form=form, n_init=5, random_state=0).fit(views)
        assert adjusted_rand_score(truth, model.labels_) == 1.0
        assert model.objective_.shape == (model.n_iter_,) == (10,)
        assert (model.n_views_, model.n_features_in_) == (3, [8, 6, 5])

    @pytest.mark.parametrize("regularization", [0.01, 0.5, 10.0])
    def test_objective_does_not_fall(self, form, regularization):
        views, _ = blobs(spread=3.0)
        model = CoRegSC(
            4, regularization=regularization, form=form, max_iter=30, random_state=0
        ).fit(views)
        assert (np.diff(model.objective_) >= -1e-9).all()

    def test_objective_by_definition(self, form):
        views, _ = blobs(spread=2.0)
        model = CoRegSC(3, regularization=0.3, form=form, max_iter=200, tol=1e-12, random_state=0)
        U = model.fit(views).view_embeddings_
        value = sum(np.trace(u.T @ affinity(v) @ u) for u, v in zip(U, views, strict=True))
        if form == "centroid":
            common = np.linalg.svd(np.hstack(U), full_matrices=False)[0][:, :3]
            value += 0.3 * sum(np.trace(projector(u) @ projector(common)) for u in U)
        else:
            value += 0.3 * sum(
                np.trace(projector(U[v]) @ projector(U[w])) for v in range(3) for w in range(v)
            )
        assert model.objective_[-1] == pytest.approx(value, rel=1e-6)

    def test_embeddings_are_orthonormal(self, form):
        views, _ = blobs(spread=2.0)
        model = CoRegSC(4, regularization=0.3, form=form, random_state=0).fit(views)
        for U in model.view_embeddings_:
            np.testing.assert_allclose(U.T @ U, np.eye(4), atol=1e-10)
        np.testing.assert_allclose(np.linalg.norm(model.embedding_, axis=1), 1)

    def test_without_regularization_views_have_their_own(self, form):
        views, _ = blobs(spread=2.0)
        model = CoRegSC(3, regularization=0.0, form=form, random_state=0).fit(views)
        for U, view in zip(model.view_embeddings_, views, strict=True):
            vectors = np.linalg.eigh(affinity(view))[1][:, -3:]
            assert_same_space(U, vectors, atol=1e-8)
        assert np.isfinite(model.embedding_).all()

    def test_strong_agreement_makes_them_equal(self, form):
        views, _ = blobs(spread=2.0)
        model = CoRegSC(3, regularization=1e4, form=form, max_iter=50, random_state=0).fit(views)
        first, *others = map(projector, model.view_embeddings_)
        for other in others:
            np.testing.assert_allclose(other, first, atol=1e-3)

    def test_rotating_shifting_and_scaling_a_view_changes_nothing(self, form):
        views, _ = blobs(spread=1.0)
        turn = np.linalg.qr(np.random.default_rng(1).standard_normal((8, 8)))[0]
        expected, model = (
            CoRegSC(3, form=form, random_state=0).fit(each)
            for each in (views, [7.0 + 1e3 * views[0] @ turn, *views[1:]])
        )
        for U, W in zip(model.view_embeddings_, expected.view_embeddings_, strict=True):
            assert_same_space(U, W, atol=1e-7)

    @pytest.mark.parametrize("normalize", [None, "rows", "columns"])
    def test_sparse_views_give_what_dense_ones_give(self, form, normalize):
        views, _ = blobs(spread=1.0)
        model = CoRegSC(3, form=form, normalize=normalize, random_state=0)
        dense = model.fit(views).embedding_
        sparse = clone(model).fit([sp.csr_array(view) for view in views]).embedding_
        assert_same_space(sparse, dense, atol=1e-8)

    def test_a_single_view(self, form):
        views, truth = blobs(widths=(8,))
        model = CoRegSC(3, form=form, n_init=5, random_state=0).fit(views)
        assert adjusted_rand_score(truth, model.labels_) == 1.0

    def test_duplicates_zero_rows_and_few_samples(self, form):
        views, _ = blobs(n=5)
        model = CoRegSC(4, form=form, random_state=0).fit(views)
        assert set(model.labels_) == {0, 1, 2, 3}
        views = [np.vstack([np.repeat(v, 9, axis=0), np.zeros((4, v.shape[1]))]) for v in views]
        model = CoRegSC(3, form=form, random_state=0).fit(views)
        assert np.isfinite(model.embedding_).all()
        assert set(model.labels_) == {0, 1, 2}


def test_centroid_does_not_depend_on_the_order_of_views():
    views, _ = blobs(spread=1.0)
    first, second = (CoRegSC(3, random_state=0).fit(each) for each in (views, views[::-1]))
    np.testing.assert_allclose(first.objective_, second.objective_)
    assert_same_space(first.embedding_, second.embedding_, atol=1e-7)


def test_tolerance_ends_the_iterations():
    views, _ = blobs(spread=1.0)
    model = CoRegSC(3, regularization=0.1, max_iter=500, tol=1e-6, random_state=0).fit(views)
    assert model.n_iter_ < 500
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        CoRegSC(3, regularization=0.1, max_iter=2, tol=1e-15, random_state=0).fit(
            blobs(spread=4.0)[0]
        )


@pytest.mark.filterwarnings("ignore::manyview.exceptions.ViewWarning")
def test_a_constant_view_is_rejected():
    views, _ = blobs()
    with pytest.raises(ValueError, match="flat"):
        CoRegSC(3).fit({"a": views[0], "flat": np.ones((60, 2))})


def test_memory_is_checked_beforehand():
    with pytest.raises(NotEnoughMemoryError, match="CoRegSC"):
        CoRegSC(2).fit([sp.eye_array(10**7, 2, format="csr")])


@pytest.mark.data
def test_scores_on_3sources(data_dir):
    # measured with an independent implementation of the same specification
    model = CoRegSC(6, random_state=0).fit(read_views(data_dir / "3sources.npz").views)
    scores = mean_scores_on_3sources(data_dir, lambda views, seed: model.relabelled(seed))
    assert scores == (pytest.approx(0.56, abs=0.03), pytest.approx(0.53, abs=0.03))


def test_many_samples_are_solved_by_lanczos():
    views, truth = blobs(n=420, spread=1.0)
    model = CoRegSC(3, regularization=0.3, n_init=5, random_state=0).fit(views)
    assert adjusted_rand_score(truth, model.labels_) > 0.95
    total = 0.3 * projector(np.linalg.svd(np.hstack(model.view_embeddings_))[0][:, :3])
    for U, view in zip(model.view_embeddings_, views, strict=True):
        expected = np.linalg.eigh(affinity(view) + total)[1][:, -3:]
        assert_same_space(U, expected, atol=1e-3)


def test_without_regularization_the_views_have_equal_weights():
    views, truth = blobs()
    model = CoRegSC(3, regularization=0.0, n_init=5, random_state=0).fit(views)
    assert adjusted_rand_score(truth, model.labels_) == 1.0


def test_the_common_embedding_is_that_of_the_last_iteration():
    views, _ = blobs(spread=3.0)
    model = CoRegSC(3, regularization=5.0, max_iter=3, random_state=0).fit(views)
    common = np.linalg.svd(np.hstack(model.view_embeddings_), full_matrices=False)[0][:, :3]
    unit = common / np.linalg.norm(common, axis=1, keepdims=True)
    np.testing.assert_allclose(model.embedding_ @ model.embedding_.T, unit @ unit.T, atol=1e-10)


def test_the_pairwise_form_updates_the_first_view_last():
    views, _ = blobs(spread=3.0)
    model = CoRegSC(3, regularization=0.5, form="pairwise", max_iter=1, random_state=0).fit(views)
    start = [np.linalg.eigh(affinity(view))[1][:, -3:] for view in views]
    U = dict(enumerate(start))
    for v in (1, 2, 0):
        pulled = affinity(views[v]) + 0.5 * sum(projector(U[w]) for w in U if w != v)
        U[v] = np.linalg.eigh(pulled)[1][:, -3:]
    for v, found in enumerate(model.view_embeddings_):
        assert_same_space(found, U[v], atol=1e-6)


class TestRegularizationPerView:
    def test_one_number_for_all_is_the_same_for_each(self):
        views, _ = blobs(spread=2.0)
        one = CoRegSC(3, regularization=0.3, random_state=0).fit(views)
        each = CoRegSC(3, regularization=[0.3, 0.3, 0.3], random_state=0).fit(views)
        np.testing.assert_array_equal(one.labels_, each.labels_)
        np.testing.assert_allclose(one.objective_, each.objective_)

    def test_objective_by_definition_does_not_fall(self):
        views, _ = blobs(spread=2.0)
        strengths = [0.5, 0.1, 2.0]
        model = CoRegSC(3, regularization=strengths, max_iter=200, tol=1e-12, random_state=0).fit(
            views
        )
        assert (np.diff(model.objective_) >= -1e-9).all()
        U = model.view_embeddings_
        total = sum(s * projector(u) for s, u in zip(strengths, U, strict=True))
        common = np.linalg.eigh(total)[1][:, -3:]
        value = sum(np.trace(u.T @ affinity(v) @ u) for u, v in zip(U, views, strict=True))
        value += sum(s * np.sum((u.T @ common) ** 2) for s, u in zip(strengths, U, strict=True))
        assert model.objective_[-1] == pytest.approx(value, rel=1e-6)

    def test_a_view_without_regularization_keeps_its_own_embedding(self):
        views, _ = blobs(spread=2.0)
        model = CoRegSC(3, regularization=[0.0, 1.0, 1.0], random_state=0).fit(views)
        own = np.linalg.eigh(affinity(views[0]))[1][:, -3:]
        assert_same_space(model.view_embeddings_[0], own, atol=1e-6)

    def test_the_pairwise_form_takes_one_number(self):
        with pytest.raises(ValueError, match="regularization"):
            CoRegSC(3, regularization=[0.1, 0.1, 0.1], form="pairwise").fit(blobs()[0])
