import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from manyview import MMC
from manyview.datasets import make_views
from manyview.engine import LocalEngine
from manyview.mmc import estimator
from manyview.mmc import initial as module
from manyview.mmc.indicator import (
    DiscreteIndicator,
    LeaveOneOutIndicator,
    OrthogonalIndicator,
)
from manyview.mmc.initial import (
    Given,
    LabelInitialisation,
    kmeans_labels,
    random_labels,
)
from manyview.mmc.objective import RowSparse
from manyview.mmc.solver import Problem
from manyview.views import as_views

from .estimators import blobs
from .indicators import indicator_of


class TestGiven:
    def test_labels_of_any_type(self):
        given = Given.of(["b", "a", "b", "c"], 4, 3)
        np.testing.assert_array_equal(given.labels, [1, 0, 1, 2])
        assert given.indicator is None

    def test_a_mask_without_masked_entries_is_ignored(self):
        given = Given.of(np.ma.masked_equal([0, 1, 2, 1], 9), 4, 3)
        np.testing.assert_array_equal(given.labels, [0, 1, 2, 1])

    def test_an_indicator_is_made_orthonormal(self):
        G = np.random.default_rng(0).standard_normal((6, 2))
        expected, _ = scipy.linalg.polar(G)
        np.testing.assert_allclose(Given.of(G, 6, 2).indicator, expected, atol=1e-9)

    @pytest.mark.parametrize("scale", [1.0, -1.0, 1e300, 1e-300])
    def test_labels_of_an_indicator(self, scale):
        F = scale * indicator_of(np.array([1, 0, 1, 2]), 3)
        np.testing.assert_array_equal(Given.of(F, 4, 3).labels, [1, 0, 1, 2])

    def test_the_largest_membership_is_the_label_even_of_small_clusters(self):
        rng = np.random.default_rng(0)
        labels = (rng.random(400) < 0.05).astype(int)
        own = rng.uniform(0.55, 0.95, 400)
        memberships = np.where(np.arange(2) == labels[:, None], own[:, None], 1.0 - own[:, None])
        np.testing.assert_array_equal(Given.of(memberships, 400, 2).labels, labels)

    @pytest.mark.parametrize(
        ("array", "message"),
        [
            ([0, 0, 1, 1], "init .* n_clusters=3"),
            ([0, 1, 2], r"init .*\(3,\).*\(4,\)"),
            ([0.0, 1.0, 2.0, np.nan], "init .* NaN"),
            (np.array([0, "a", None, 1], dtype=object), "init .* types"),
            (np.ones((4, 3)), "init .* rank 1"),
            (np.full((4, 3), np.nan), "init .* nan at row 0, column 0"),
            (np.full((4, 3), 1j), "init .* complex128"),
            (np.ones((4, 2)), r"init .*\(4, 2\)"),
            (np.ma.masked_equal([0, 1, 2, 9], 9), "init .* masked"),
        ],
    )
    def test_unusable_arrays_are_rejected(self, array, message):
        with pytest.raises(ValueError, match=message):
            Given.of(array, 4, 3)

    def test_they_are_rejected_before_any_pass_over_the_views(self, monkeypatch):
        monkeypatch.setattr(estimator, "engine_for", None)  # makes the first pass
        views, _ = make_views(60, 3, random_state=0)
        with pytest.raises(ValueError, match="init"):
            MMC(3, init=[0, 1, 2]).fit(views)


NORMALIZE = ["rows", "columns", None]


def groups(n=90, *, sparse=False, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % 3
    views = [4 * rng.standard_normal((3, d))[truth] + rng.standard_normal((n, d)) for d in (6, 4)]
    return [sp.csr_array(X) if sparse else X for X in views], truth


def scaled(views, normalize):
    out = []
    for X in views:
        X = X.toarray() if sp.issparse(X) else X
        if normalize == "rows":
            X = X / np.linalg.norm(X, axis=1, keepdims=True)
        elif normalize == "columns":
            X = (X - X.mean(axis=0)) / X.std(axis=0)
        out.append(X)
    return out


@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("sparse", [False, True])
def test_kmeans_is_a_fixed_point_of_lloyd_on_the_concatenation(normalize, sparse):
    views, _ = groups(sparse=sparse)
    engine = LocalEngine(as_views(views), normalize=normalize)
    kmeans_labels(engine, 3, np.random.default_rng(0))
    labels = engine.gather("labels")
    concatenated = np.hstack(scaled(views, normalize))
    centres = np.stack([concatenated[labels == k].mean(axis=0) for k in range(3)])
    distances = ((concatenated[:, None] - centres) ** 2).sum(axis=2)
    np.testing.assert_array_equal(distances.argmin(axis=1), labels)
    best = KMeans(3, n_init=10, random_state=0).fit(concatenated).inertia_
    assert distances.min(axis=1).sum() <= 1.001 * best


def test_kmeans_from_a_sample_of_the_rows_continues_with_all():
    rng = np.random.default_rng(0)
    views = [rng.standard_normal((3000, d)) for d in (6, 4)]  # without clusters, centres move far
    engine = LocalEngine(as_views(views), normalize=None)
    kmeans_labels(engine, 8, np.random.default_rng(0))
    labels = engine.gather("labels")
    concatenated = np.hstack(views)
    centres = np.stack([concatenated[labels == k].mean(axis=0) for k in range(8)])
    moved = ((concatenated[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1) != labels
    assert moved.mean() < 0.02


@pytest.mark.parametrize("width", [2, 60])
def test_concatenated_views_are_sparse_if_most_entries_are_zero(width):
    words = sp.random_array((50, 100), density=0.05, format="csr", random_state=0)
    dense = np.ones((50, width))
    concatenated = module._concatenated([dense, words])
    assert sp.issparse(concatenated) == (width == 2)
    found = concatenated.toarray() if sp.issparse(concatenated) else concatenated
    np.testing.assert_array_equal(found, np.hstack([dense, words.toarray()]))


def test_random_labels_are_balanced():
    views, _ = groups(90)
    engine = LocalEngine(as_views(views), normalize="rows")
    random_labels(engine, 4, np.random.default_rng(0))
    labels = engine.gather("labels")
    assert sorted(np.bincount(labels)) == [22, 22, 23, 23]


VIEWS, TRUTH = blobs()
WRONG = np.where(np.arange(90) % 4 == 0, (TRUTH + 1) % 3, TRUTH)
INDICATORS = [DiscreteIndicator, LeaveOneOutIndicator, OrthogonalIndicator]


def begun(init="graph", number=0, *, views=VIEWS, k=3, indicator=DiscreteIndicator, order=None):
    engine = LocalEngine(as_views(views), normalize="rows")
    problem = Problem(RowSparse(), 0.01, indicator(), 10, 1e-3)
    start = LabelInitialisation(init, n_clusters=k, rank=2 * k, order=order)
    return engine, start.begin(engine, problem, np.random.default_rng(0), number)


class TestBegin:
    @pytest.mark.parametrize("indicator", INDICATORS)
    @pytest.mark.parametrize("init", ["graph", "kmeans"])
    def test_the_blocks_hold_the_indicator_of_the_labels(self, indicator, init):
        engine, fitted = begun(init, indicator=indicator)
        labels = engine.gather("labels")
        assert adjusted_rand_score(TRUTH, labels) > 0.95
        np.testing.assert_allclose(engine.gather("indicator"), indicator_of(labels, 3))
        assert not fitted.objective
        assert all(block.state.get("embedding") is None for block in engine.blocks)

    @pytest.mark.parametrize("indicator", [DiscreteIndicator, OrthogonalIndicator])
    def test_iterations_that_move_labels_begin_with_the_given_ones(self, indicator):
        engine, _ = begun(Given.of(WRONG, 90, 3), indicator=indicator)
        np.testing.assert_array_equal(engine.gather("labels"), WRONG)

    @pytest.mark.parametrize("views", [VIEWS, VIEWS[:1]], ids=["two views", "one view"])
    def test_those_that_do_not_begin_with_mended_ones(self, views):
        engine, _ = begun(Given.of(WRONG, 90, 3), views=views, indicator=LeaveOneOutIndicator)
        np.testing.assert_array_equal(engine.gather("labels"), TRUTH)

    def test_further_graphs_have_smaller_neighbourhoods(self, monkeypatch):
        asked = []

        def noted(*args, neighbourhood, **options):
            asked.append(neighbourhood)
            return spectral_labels(*args, neighbourhood=neighbourhood, **options)

        spectral_labels = module.spectral_labels
        monkeypatch.setattr(module, "spectral_labels", noted)
        for number in range(3):
            begun(number=number)
        assert asked[0] == 1.0
        assert asked[0] > asked[1] > asked[2] > 0.0

    @pytest.mark.parametrize("indicator", INDICATORS)
    @pytest.mark.parametrize("init", ["graph", "kmeans", "random"])
    def test_no_cluster_is_empty(self, indicator, init):
        noise = np.random.default_rng(0).standard_normal((2, 60, 4))
        for k in (1, 7, 59, 60):
            engine, _ = begun(init, views=list(noise), k=k, indicator=indicator)
            assert np.unique(engine.gather("labels")).size == k
