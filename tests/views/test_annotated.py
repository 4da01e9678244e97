"""AnnData and MuData objects, by what they have; neither package is a dependency of the tests."""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from manyview import MMC, as_views


@dataclass
class Annotated:
    X: object
    obs_names: pd.Index
    var_names: pd.Index
    isbacked: bool = False

    @property
    def shape(self):
        return self.X.shape


@dataclass
class Modalities:
    mod: dict
    obs_names: pd.Index
    axis: int = 0
    shape: tuple = (0, 0)
    var_names: tuple = ()
    isbacked: bool = False


def annotated(samples, width, kind=np.asarray, seed=0):
    values = np.random.default_rng(seed).random((len(samples), width))
    return Annotated(
        kind(values), pd.Index(list(samples)), pd.Index([f"g{d}" for d in range(width)])
    )


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix, sp.csc_matrix])
def test_a_list_has_a_view_of_each(kind):
    first, second = annotated("abcd", 3, kind), annotated("abcd", 2, seed=1)
    views = as_views([first, second])
    np.testing.assert_array_equal(
        views[0].toarray() if sp.issparse(views[0]) else views[0],
        first.X.toarray() if sp.issparse(first.X) else first.X,
    )
    np.testing.assert_array_equal(views[1], second.X)
    assert [list(names) for names in views.feature_names] == [["g0", "g1", "g2"], ["g0", "g1"]]


def test_samples_of_a_list_must_be_the_same():
    with pytest.raises(ValueError, match="different indexes: row 1 is 'b' in 'rna' and 'c' in 'p'"):
        as_views({"rna": annotated("abc", 3), "p": annotated("acb", 3)})


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_modalities_are_brought_into_one_order(kind):
    rna, protein = annotated("abcd", 3, kind), annotated("dbe", 2, kind, seed=1)
    views = as_views(Modalities({"rna": rna, "protein": protein}, pd.Index(list("abcde"))))
    assert views.names == ("rna", "protein")
    assert views.present.tolist() == [[1, 0], [1, 1], [1, 0], [1, 1], [0, 1]]
    dense = [x.toarray() if sp.issparse(x) else x for x in views]
    given = [np.asarray(sp.csr_array(m.X).toarray()) for m in (rna, protein)]
    np.testing.assert_array_equal(dense[0], [*given[0], np.zeros(3)])
    np.testing.assert_array_equal(dense[1], [[0, 0], given[1][1], [0, 0], given[1][0], given[1][2]])


def test_modalities_with_all_samples_are_not_copied():
    rna = annotated("abc", 3)
    views = as_views(Modalities({"rna": rna, "atac": annotated("abc", 2)}, rna.obs_names))
    assert views.present is None
    assert np.shares_memory(views["rna"], rna.X)


@pytest.mark.parametrize(
    ("views", "message"),
    [
        (annotated("abc", 3), "received a single Annotated of shape (3, 3)"),
        (Modalities({"rna": annotated("aba", 3)}, pd.Index(list("ab"))), "'a' names several"),
        (Modalities({"rna": annotated("ab", 3)}, pd.Index(["a"])), "has a sample 'b' that is not"),
        (Modalities({"rna": annotated("ab", 3)}, pd.Index(list("ab")), axis=1), "axis=1"),
        (
            [Modalities({"rna": annotated("ab", 3)}, pd.Index(list("ab")))],
            "view 'view0' is a MuData object",
        ),
        ([Annotated(None, pd.Index(["a"]), pd.Index(["g"]))], "view 'view0' has no X"),
        ([Annotated(0, pd.Index(["a"]), pd.Index(["g"]), isbacked=True)], ".to_memory()"),
    ],
)
def test_others_are_refused(views, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        as_views(views)


def test_mmc_fits_and_keeps_the_names_of_samples():
    samples = [f"cell{n}" for n in range(40)]
    rna, protein = annotated(samples, 6), annotated(samples[5:], 4, seed=1)
    cells = Modalities({"rna": rna, "protein": protein}, rna.obs_names)
    model = MMC(2, random_state=0).set_output(transform="pandas").fit(cells)
    assert model.view_names_ == ["rna", "protein"]
    assert model.transform(cells).index.tolist() == samples


def test_rows_that_are_lacking_stay_so_whatever_present_says():
    rna, protein = annotated("abcd", 3), annotated("dbe", 2, seed=1)
    cells = Modalities({"rna": rna, "protein": protein}, pd.Index(list("abcde")))
    for mask in (np.ones((5, 2)), [[1, 1], [1, 1], [1, 1], [1, 0], [1, 1]]):
        views = as_views(cells, present=mask)
        expected = np.array([[1, 0], [1, 1], [1, 0], [1, 1], [0, 1]]) * np.asarray(mask)
        assert views.present.tolist() == expected.tolist()


def test_views_elsewhere_are_not_moved():
    da = pytest.importorskip("dask.array")
    rna, protein = annotated("abcd", 3, da.from_array), annotated("dbe", 2, da.from_array)
    with pytest.raises(TypeError, match="view 'rna' is of dask, and not of all samples"):
        as_views(Modalities({"rna": rna, "protein": protein}, pd.Index(list("abcde"))))
    same = Modalities({"rna": rna}, rna.obs_names)
    assert as_views(same).place == "dask"


def test_a_part_of_another_is_read_once():
    class Counted(Annotated):
        reads = 0

        def __getattribute__(self, name):
            if name == "X":
                Counted.reads += 1
            return super().__getattribute__(name)

    rna = annotated("abcd", 3)
    counted = Counted(rna.X, rna.obs_names, rna.var_names)
    Counted.reads = 0
    as_views([counted])
    assert Counted.reads == 1
