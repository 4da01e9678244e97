import numpy as np
import pytest
import scipy.sparse as sp

from manyview import as_views
from manyview.datasets import Dataset
from manyview.experiment.fingerprint import fingerprint

RNG = np.random.default_rng(0)
A, B = RNG.random((20, 3)), RNG.random((20, 4))
Y = np.arange(20) % 3


def of(a=A, b=B, y=Y, names=("a", "b")):
    return fingerprint(Dataset(as_views(dict(zip(names, (a, b), strict=True))), y))


def changed(array):
    other = array.copy()
    other[-1, -1] += 1e-9
    return other


def test_the_same_data_have_the_same():
    assert of() == of(A.copy(), np.asfortranarray(B))


@pytest.mark.parametrize(
    "other",
    [
        {"a": changed(A)},
        {"b": changed(B)},
        {"a": A.astype(np.float32)},
        {"y": Y[::-1].copy()},
        {"names": ("a", "c")},
        {"a": sp.csr_array(A)},
        {"a": A[:, :2]},
    ],
    ids=str,
)
def test_any_change_shows(other):
    assert of(**other) != of()


def test_any_change_of_a_sparse_view_shows():
    sparse = sp.csr_array(np.where(A > 0.5, A, 0.0))
    other = sparse.copy()
    other.data[0] += 1e-9
    assert of(sparse) == of(sparse.copy())
    assert of(sparse) != of(other)


def test_classes_that_are_objects_count_by_what_they_are():
    first, second = (np.array([f"class {k}" for k in Y], dtype=object) for _ in range(2))
    assert of(y=first) == of(y=second)
    assert of(y=first) != of(y=first[::-1].copy())
