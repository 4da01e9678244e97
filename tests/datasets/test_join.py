import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from manyview.datasets.join import Table, join

IDS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True)


def table(name, ids, kind=np.asarray):
    rows = np.array([[ord(i), ord(name)] for i in ids], dtype=float)
    return Table(name, f"{name}.csv", np.array(ids), kind(rows), np.array(["p", "q"]))


@given(ids=st.lists(IDS, min_size=2, max_size=3), kind=st.sampled_from([np.asarray, sp.csc_array]))
def test_every_sample_keeps_its_rows(ids, kind):
    together = [i for some in ids for i in some]
    if len(together) == len(set(together)):
        return
    tables = [table("xyz"[v], some, kind) for v, some in enumerate(ids)]
    joined = join(tables)
    assert joined.ids.tolist() == list(dict.fromkeys(together))
    for v, array in enumerate(joined.arrays):
        dense = array.toarray() if sp.issparse(array) else array
        for n, i in enumerate(joined.ids):
            here = i in ids[v]
            assert dense[n].tolist() == ([ord(i), ord("xyz"[v])] if here else [0, 0])
            assert (joined.present is None and here) or joined.present[n, v] == here


@given(ids=st.lists(IDS, min_size=2, max_size=3))
def test_common_samples(ids):
    tables = [table("xyz"[v], some) for v, some in enumerate(ids)]
    common = [i for i in ids[0] if all(i in some for some in ids)]
    if not common:
        with pytest.raises(ValueError, match=r"no id is in all of x\.csv"):
            join(tables, samples="common")
        return
    joined = join(tables, samples="common")
    assert joined.ids.tolist() == common
    assert joined.present is None
    assert all(array[:, 0].tolist() == [ord(i) for i in common] for array in joined.arrays)


def test_a_given_order():
    joined = join([table("x", "ab"), table("y", "ba")], order=np.array(["b", "a"]))
    assert joined.ids.tolist() == ["b", "a"]
    assert joined.arrays[0][:, 0].tolist() == [ord("b"), ord("a")]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "b", "a"], r"x\.csv: id 'a' is in row 1 and in row 3; expected one row a sample"),
        (["a", ""], r"x\.csv: row 2 has no id"),
    ],
)
def test_ids_tell_samples_apart(ids, message):
    with pytest.raises(ValueError, match=message):
        join([Table("x", "x.csv", np.array(ids), np.eye(len(ids)), np.array(ids))])
