import numpy as np
import pytest
import scipy.sparse as sp

from manyview import as_views

VIEWS = as_views({"text": sp.csr_array(np.eye(3)), "image": np.arange(6.0).reshape(3, 2)})


def test_membership_is_by_name_or_identity():
    assert "text" in VIEWS
    assert "sound" not in VIEWS
    assert VIEWS["image"] in VIEWS
    assert VIEWS["image"].copy() not in VIEWS


def test_the_position_of_a_view():
    assert [VIEWS.index(name) for name in VIEWS.names] == [0, 1]
    assert [VIEWS.index(array) for array in VIEWS] == [0, 1]
    for strange in ("sound", np.ones((3, 2)), 1):
        with pytest.raises(ValueError, match="the views are 'text', 'image'"):
            VIEWS.index(strange)
    with pytest.raises(ValueError, match="no 'text'"):
        VIEWS.index("text", 1)


@pytest.mark.parametrize(
    "rows", [2, np.int64(2), [2], np.array([False, False, True]), slice(2, None)]
)
def test_one_sample_can_be_taken_by_any_index(rows):
    taken = VIEWS.take(rows)
    assert taken.n_samples == 1
    assert taken["image"].tolist() == [[4.0, 5.0]]
