import numpy as np
import pytest

from manyview.engine.block import RowView, widen
from manyview.engine.scaling import Scaling


@pytest.fixture
def few_at_a_time(monkeypatch):
    monkeypatch.setattr(RowView, "widened_bytes", 300)
    monkeypatch.setattr(RowView, "widened_rows", 1)


def rows_of_type(dtype, n=23, width=9):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 200, size=(n, width)).astype(dtype)
    return RowView(x, rng.random(n).astype(np.float32))


@pytest.mark.usefixtures("few_at_a_time")
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.int64])
class TestWidenedRows:
    def test_are_all_there_once(self, dtype):
        view = rows_of_type(dtype)
        parts = [(rows, part.x.copy(), part.scale) for rows, part in view.parts(np.dtype("f4"))]
        assert len(parts) == 3
        np.testing.assert_array_equal(np.concatenate([x for _, x, _ in parts]), view.x)
        for rows, x, scale in parts:
            assert x.dtype == np.float32
            np.testing.assert_array_equal(scale, view.scale[rows])

    def test_have_the_products_of_the_whole(self, dtype):
        view = rows_of_type(dtype)
        whole = RowView(view.x.astype(np.float32), view.scale)
        rng = np.random.default_rng(1)
        factor = Scaling(9).fold(rng.normal(size=(10, 4)).astype(np.float32))
        rows = rng.normal(size=(23, 4)).astype(np.float32)
        np.testing.assert_allclose(view.project(factor), whole.project(factor), rtol=1e-6)
        found, expected = view.pull(rows), whole.pull(rows)
        np.testing.assert_allclose(found.features, expected.features, rtol=1e-4)
        np.testing.assert_array_equal(found.scaled_sum, expected.scaled_sum)


def test_wide_rows_are_not_widened_one_by_one():
    view = RowView(np.zeros((600, 20_000), dtype=np.uint8), None)
    sizes = [part.x.shape[0] for _, part in view.parts(np.dtype("f4"))]
    assert sizes == [256, 256, 88]


def test_rows_in_their_precision_are_not_copied():
    view = rows_of_type(np.float32)
    ((rows, part),) = view.parts(np.dtype("f4"))
    assert part is view
    assert rows == slice(0, 23)


def test_no_rows_have_no_products():
    view = RowView(np.empty((0, 3), dtype=np.uint8), None)
    factor = Scaling(3).fold(np.ones((4, 2), dtype=np.float32))
    assert view.project(factor).shape == (0, 2)
    np.testing.assert_array_equal(view.pull(np.ones((0, 2), np.float32)).features, np.zeros((3, 2)))


def test_half_precision_is_widened_exactly():
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    wide = widen(finite, np.empty(finite.shape, np.float32))
    np.testing.assert_array_equal(wide, finite.astype(np.float32))
    np.testing.assert_array_equal(np.signbit(wide), np.signbit(finite))
