import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from manyview.mmc.orthogonal import OrthogonalIndicator


@given(seed=st.integers(0, 10**4))
def test_is_the_polar_factor(case, seed):
    c = case(seed)
    moments = OrthogonalIndicator().update(c.engine, c.factors, c.moments, trust=0.0)
    F = c.engine.gather("indicator")
    expected, _ = scipy.linalg.polar(c.P @ c.factors.clusters.T)
    np.testing.assert_allclose(F, expected, atol=1e-6)
    np.testing.assert_allclose(F.T @ F, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(moments.cross, c.P.T @ F, atol=1e-8)


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_stays_orthonormal_where_the_prediction_lacks_rank(case, missing):
    c = case(1)
    clusters = c.factors.clusters.copy()
    clusters[:missing] = 0.0
    c.factors = c.factors.with_clusters(clusters)
    before = c.F
    OrthogonalIndicator().update(c.engine, c.factors, c.moments, trust=0.0)
    F = c.engine.gather("indicator")
    np.testing.assert_allclose(F.T @ F, np.eye(3), atol=1e-9)
    prediction = c.P @ clusters.T
    assert np.sum(prediction * F) >= np.sum(prediction * before) - 1e-9
    np.testing.assert_allclose(
        np.sum(prediction * F), np.linalg.svd(prediction)[1].sum(), rtol=1e-8
    )


def test_ill_conditioned_prediction(case):
    c = case(2)
    clusters = c.factors.clusters.copy()
    clusters[1] = clusters[0] + 1e-6 * clusters[1]
    c.factors = c.factors.with_clusters(clusters)
    OrthogonalIndicator().update(c.engine, c.factors, c.moments, trust=0.0)
    F = c.engine.gather("indicator")
    np.testing.assert_allclose(F.T @ F, np.eye(3), atol=1e-9)


def test_float32(case):
    c = case(2, dtype=np.float32)
    OrthogonalIndicator().update(c.engine, c.factors, c.moments, trust=0.0)
    F = c.engine.gather("indicator")
    assert F.dtype == np.float32
    np.testing.assert_allclose(F.T @ F, np.eye(3), atol=1e-5)
