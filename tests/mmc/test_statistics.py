import numpy as np
import pytest
import scipy.sparse as sp

from manyview import MMC, as_views
from manyview.datasets import make_views
from manyview.engine import engine_for
from manyview.mmc.statistics import Statistics

PAIRS = [((0, 1), (1, 0)), ((0, 0), (1, 2)), ((0, 1), (2, 0)), ((1, 2), (2, 1))]


def raw(seed=0, n=80):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    views = [rng.normal(50.0 + labels[:, None], 3.0, (n, width)) for width in (4, 3)]
    views.append(rng.poisson(0.4, (n, 5)).astype(float) * (labels[:, None] + 1))
    views[0][:, 1] = rng.normal(0, 1, n)
    views[1][:, 0] = np.where(labels == 0, 1.0, -1.0) * views[0][:, 1] + rng.normal(0, 0.5, n)
    views[1][:, 1] = 7.0
    return views, labels


def statistics_of(views, labels, *, normalize="rows", present=None, pairs=PAIRS, k=3):
    engine = engine_for(as_views(views, present=present, warn=False), normalize=normalize)
    with engine.running():
        engine.scatter("labels", labels)
        return Statistics.of(engine, k, pairs)


def explained(columns, member):
    """Part of the variance of membership that a least squares fit explains."""
    design = np.column_stack([np.ones(len(member)), *columns])
    left = member - design @ np.linalg.lstsq(design, member, rcond=None)[0]
    return 1.0 - left.var() / member.var()


@pytest.mark.parametrize("normalize", ["rows", "columns", None])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_statistics_are_those_of_the_views_as_given(normalize, sparse, missing):
    views, labels = raw()
    present = np.ones((80, 3), dtype=bool)
    if missing:
        present[::5, 0] = present[1::4, 1] = False
    given = [sp.csr_array(X) if sparse else X for X in views]
    found = statistics_of(given, labels, normalize=normalize, present=present)
    np.testing.assert_array_equal(found.sizes, np.bincount(labels))
    for v, X in enumerate(views):
        has = present[:, v]
        for k in range(3):
            mine = has & (labels == k)
            np.testing.assert_allclose(found.means[v][k], X[mine].mean(axis=0))
            np.testing.assert_allclose(found.others(v)[k], X[has & (labels != k)].mean(axis=0))
            for i in range(X.shape[1]):
                expected = 0.0 if np.ptp(X[:, i]) == 0 else explained([X[has, i]], mine[has] * 1.0)
                assert found.explained(v)[k, i] == pytest.approx(expected, abs=1e-9)
        np.testing.assert_allclose(found.overall(v), X[has].mean(axis=0))
        np.testing.assert_allclose(found.deviations[v], X[has].std(axis=0), atol=1e-9)
    for ((v, i), (w, j)), gains in zip(PAIRS, found.gains, strict=True):
        both = present[:, v] & present[:, w]
        a, b = views[v][both, i], views[w][both, j]
        for k, gain in enumerate(gains):
            member = (labels[both] == k) * 1.0
            alone = explained([a, b], member)
            together = explained([a, b, a * b], member)
            significant = (together - alone) * (both.sum() - 4) >= 16 * (1 - together)
            expected = together - alone if significant else 0.0
            assert abs(gain) == pytest.approx(expected, abs=1e-9)
    assert found.gains[0, 0] > 0.2  # features that vary together in cluster 0 only
    assert found.gains[0, 1] <= 0


def test_constant_features_and_their_products_explain_nothing():
    views, labels = raw()
    found = statistics_of(views, labels, pairs=[((0, 0), (1, 1))])
    assert (found.effects(1)[:, 1] == 0).all()
    assert not found.differs(1)[:, 1].any()
    assert (found.gains == 0).all()


def test_clusters_of_one_sample_or_none_have_finite_statistics():
    views, labels = raw()
    labels = np.where(np.arange(80) == 3, 2, labels % 2)
    found = statistics_of(views, labels, k=4)
    np.testing.assert_allclose(found.means[0][2], views[0][3])
    for v in range(3):
        for values in (found.means[v], found.others(v), found.effects(v), found.explained(v)):
            assert np.isfinite(values).all()
        assert (found.effects(v)[3] == 0).all()
    assert np.isfinite(found.gains).all()


def test_offsets_do_not_matter():
    views, labels = raw()
    far = statistics_of([1e4 + X for X in views], labels)
    near = statistics_of(views, labels)
    np.testing.assert_allclose(far.gains, near.gains, atol=1e-6)
    np.testing.assert_allclose(far.effects(0), near.effects(0), rtol=1e-6, atol=1e-6)


def test_huge_values_are_no_error():
    views, labels = raw()
    found = statistics_of([X * 1e200 for X in views], labels)
    assert all(np.isfinite(mean).all() for mean in found.means)
    assert np.isfinite(found.gains).all()


def test_with_restarts_the_statistics_are_those_of_the_labels_kept():
    views, _ = make_views(120, 4, (6, 5), separation=2.0, random_state=0)
    model = MMC(4, init="random", n_init=4, random_state=3).fit(views)
    for k, mean in enumerate(model._statistics.means[0]):
        expected = np.asarray(views.arrays[0])[model.labels_ == k].mean(axis=0)
        np.testing.assert_allclose(mean, expected)


def test_many_clusters_have_few_pairs():
    views, _ = make_views(300, 60, (12, 12), random_state=0)
    model = MMC(60, init="kmeans", max_iter=1, tol=1.0, random_state=0).fit(views)
    assert 0 < len(model._statistics.pairs) <= 300
