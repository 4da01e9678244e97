import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs
from sklearn.metrics import roc_auc_score

from manyview import as_views
from manyview.engine import engine_for
from manyview.graph.outliers import outlier_scores
from manyview.graph.settings import GraphSettings

SOME = GraphSettings(outlier_samples=150)
both = pytest.mark.parametrize("settings", [GraphSettings(), SOME], ids=["all", "some"])


def scores_of(views, labels, *, normalize="columns", settings=None, present=None):
    engine = engine_for(as_views(views, present=present, warn=False), normalize=normalize)
    with engine.running():
        return outlier_scores(engine, labels, np.random.default_rng(0), settings or GraphSettings())


def with_outliers(widths=(3, 3), n=380, n_outliers=20, seed=0):
    """Return views of four blobs, of which the last samples are uniform, labels and outliers."""
    rng = np.random.default_rng(seed)
    X, labels = make_blobs(n, sum(widths), centers=4, center_box=(-8, 8), random_state=seed)
    X = np.vstack([X, rng.uniform(-12, 12, (n_outliers, sum(widths)))])
    labels = np.append(labels, rng.integers(4, size=n_outliers))
    return np.split(X, np.cumsum(widths)[:-1], axis=1), labels, np.arange(len(X)) >= n


@both
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("normalize", ["rows", "columns"])
@pytest.mark.parametrize("widths", [(3, 3), (20,), (10, 20, 5)])
def test_uniform_samples_are_outliers(settings, normalize, sparse, widths):
    views, labels, outlier = with_outliers(widths)
    views = [sp.csr_array(X) if sparse else X for X in views]
    scores = scores_of(views, labels, normalize=normalize, settings=settings)
    assert roc_auc_score(outlier, scores) > 0.95
    if sum(widths) > 6:
        assert np.mean(scores[outlier] > 3.5) > 0.9
        assert np.mean(scores[~outlier] > 3.5) < 0.03


def test_clusters_of_other_density_have_no_outliers_for_it():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 200)
    X = rng.normal(size=(400, 10)) * np.where(labels == 0, 0.1, 2.0)[:, None]
    X[labels == 1] += 20.0
    scores = scores_of([X], labels, normalize=None)
    assert abs(np.median(scores[labels == 0])) < 0.1
    assert abs(np.median(scores[labels == 1])) < 0.1
    assert np.mean(scores > 3.5) < 0.02


def test_a_sample_is_no_outlier_for_missing_a_view():
    views, labels, outlier = with_outliers((10, 10))
    present = np.ones((400, 2), dtype=bool)
    present[::5, 0] = False
    scores = scores_of(views, labels, present=present)
    assert roc_auc_score(outlier, scores) > 0.95
    missing = ~present[:, 0] & ~outlier
    assert np.mean(scores[missing] > 3.5) < 0.05


def test_samples_without_a_common_view_are_compared_with_the_others():
    views, labels, _ = with_outliers((4, 4), n=40, n_outliers=0)
    present = np.array([[n % 2 == 0, n % 2 == 1] for n in range(40)])
    assert np.isfinite(scores_of(views, labels, present=present)).all()


@pytest.mark.parametrize("normalize", ["rows", "columns", None])
def test_of_duplicates_all_are_alike(normalize):
    X = np.repeat(np.eye(3), 30, axis=0)
    labels = np.repeat([0, 1, 2], 30)
    np.testing.assert_allclose(scores_of([X, X], labels, normalize=normalize), 0.0, atol=1e-6)
    X[0] = [5.0, -3.0, 4.0]
    scores = scores_of([X, X], labels, normalize=normalize)
    assert scores.argmax() == 0
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("n", [2, 3, 11])
def test_of_few_samples(n):
    X = np.arange(2.0 * n).reshape(n, 2) ** 2
    scores = scores_of([X], np.arange(n) % 2)
    assert scores.shape == (n,)
    assert np.isfinite(scores).all()


def test_the_order_of_samples_does_not_matter():
    views, labels, _ = with_outliers()
    order = np.random.default_rng(1).permutation(labels.size)
    found = scores_of([X[order] for X in views], labels[order])
    np.testing.assert_allclose(found, scores_of(views, labels)[order], rtol=1e-6, atol=1e-9)
