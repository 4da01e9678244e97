import numpy as np
import pytest

from manyview.engine import LocalEngine
from manyview.mmc.graph import find_nearest, harmonic_weights
from manyview.mmc.landmarks import embed_by_landmarks
from manyview.views import as_views

from .conftest import raw_views


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_are_those_of_the_singular_vectors(sparse):
    views = raw_views(0, 60, (5, 4), sparse=sparse)
    engine = LocalEngine(as_views(views), normalize="rows")
    marks = np.arange(0, 60, 4)
    widths = [np.ones(X.shape[1]) for X in views]
    find_nearest(engine, marks, 5, widths)
    z = np.zeros((60, marks.size))
    np.put_along_axis(z, engine.gather("near"), np.tile(harmonic_weights(5), (60, 1)), axis=1)
    z /= z.sum(axis=1, keepdims=True)
    mass = z.sum(axis=0)
    left = np.linalg.svd(z[:, mass > 0] / np.sqrt(mass[mass > 0]))[0][:, :3]
    expected = left / np.linalg.norm(left, axis=1, keepdims=True)
    embed_by_landmarks(engine, marks, 3)
    found = engine.gather("embedding")
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-8)


def test_landmarks_without_samples_are_left_out():
    rows = np.repeat(np.eye(2), 30, axis=0)
    engine = LocalEngine(as_views([rows]), normalize="rows")
    embed_by_landmarks(engine, np.arange(25, 35), 4)
    found = engine.gather("embedding")
    assert np.isfinite(found).all()
    assert np.abs(found[0] @ found[-1]) < 1e-8
