import warnings
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score

from manyview import AMGL, KCTD, RMKMC, SCMV3DT, SEC, CoRegSC, MultiNMF, as_views
from manyview.baselines.common import (
    beside,
    column_scales,
    refuse_beyond,
    scaled_arrays,
    strength_per_view,
    warn_of_copies,
)
from manyview.baselines.graphs import nearest_rows
from manyview.datasets import make_views, read_views
from manyview.engine import engine_for

ITERATIVE = {
    "CoRegSC": CoRegSC,
    "AMGL": AMGL,
    "RMKMC": RMKMC,
    "MultiNMF": lambda k, **options: MultiNMF(k, negative="shift", **options),
    "KCTD": KCTD,
    "KCTD, L-BFGS": lambda k, **options: KCTD(k, solver="lbfgs", **options),
    "SCMV3DT": SCMV3DT,
}
DETERMINISTIC = {
    "SEC": SEC,
    "SEC, rotation": lambda k, **options: SEC(k, assign="rotation", **options),
    "CoRegSC": CoRegSC,
    "CoRegSC, pairwise": lambda k, **options: CoRegSC(k, form="pairwise", **options),
    "AMGL": AMGL,
    "AMGL, unit rows": lambda k, **options: AMGL(k, unit_embedding=True, **options),
    "SCMV3DT": SCMV3DT,
}


@pytest.fixture(scope="module")
def views():
    # hard enough that k-means ends differently from seed to seed
    return make_views(n_samples=80, n_clusters=6, noise=3.0, random_state=0).views


@contextmanager
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def interrupting(after):
    """A progress bar that is interrupted after some steps."""

    class Bar:
        def __init__(self, *args, **options):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def step(self, done, word):
            if done == after:
                raise KeyboardInterrupt

    return Bar


@pytest.mark.parametrize("make", ITERATIVE.values(), ids=ITERATIVE)
class TestInterrupt:
    def test_keeps_what_was_reached(self, make, views, monkeypatch):
        monkeypatch.setattr("manyview.base.ProgressBar", interrupting(after=2))
        with pytest.warns(ConvergenceWarning, match="interrupted: .* of 2 whole iterations"):
            model = make(6, random_state=0).fit(views)
        assert model.n_iter_ == len(model.objective_) == 2
        assert np.unique(model.labels_).size == 6

    def test_before_the_end_of_the_first_iteration_leaves_an_earlier_fit(
        self, make, views, monkeypatch
    ):
        with quiet():
            model = make(6, random_state=0).fit(views)
        labels = model.labels_.copy()
        module = type(model).__module__

        def interrupt(*args, **options):
            raise KeyboardInterrupt

        monkeypatch.setattr(f"{module}.scaled_arrays", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(views)
        np.testing.assert_array_equal(model.labels_, labels)


@pytest.mark.parametrize("make", DETERMINISTIC.values(), ids=DETERMINISTIC)
class TestRelabelled:
    def test_as_a_fit_with_that_seed(self, make, views):
        with quiet():
            first = make(6, random_state=0).fit(views)
            fitted = [make(6, random_state=seed).fit(views).labels_ for seed in range(4)]
        for seed, labels in enumerate(fitted):
            np.testing.assert_array_equal(first.relabelled(seed), labels)
        np.testing.assert_array_equal(first.labels_, fitted[0])

    def test_needs_a_fit(self, make, views):
        with pytest.raises(NotFittedError):
            make(6).relabelled(0)


@pytest.mark.parametrize("make", [CoRegSC, AMGL, RMKMC, MultiNMF, KCTD, SCMV3DT])
@pytest.mark.parametrize("method", ["predict", "transform"])
def test_what_cannot_tell_of_other_samples_says_so(make, method):
    assert not hasattr(make(2), method)
    assert not hasattr(make, method)
    with pytest.raises(AttributeError, match=rf"{make.__name__} has no {method}: .* MMC or SEC"):
        getattr(make(2), method)


@pytest.mark.parametrize("make", [SEC, CoRegSC, AMGL, KCTD, SCMV3DT])
def test_a_fit_that_fails_at_its_labels_leaves_an_earlier_one(make, views, monkeypatch):
    with quiet():
        model = make(6, random_state=0).fit(views)
    before = {name: value for name, value in vars(model).items() if name.endswith("_")}

    def fail(*args, **options):
        raise MemoryError

    monkeypatch.setattr("sklearn.cluster.KMeans.fit_predict", fail)
    with pytest.raises(MemoryError), quiet():
        model.fit(views.take(range(50)))
    after = {name: value for name, value in vars(model).items() if name.endswith("_")}
    assert all(after[name] is before[name] for name in before)


@pytest.mark.parametrize("make", [SEC, *ITERATIVE.values()], ids=["SEC", *ITERATIVE])
def test_samples_that_lack_a_view_are_refused_and_only_they(make, views):
    present = np.ones((80, len(views)), dtype=bool)
    with quiet():
        labels = make(6, random_state=0).fit_predict(views)
        same = make(6, random_state=0).fit_predict(as_views(views, present=present))
    np.testing.assert_array_equal(same, labels)
    present[:2, 0] = False
    with pytest.raises(ValueError, match="needs every sample in every view; 2 samples lack one"):
        make(6).fit(as_views(views, present=present))


@pytest.mark.data
@pytest.mark.parametrize("make", [SEC, AMGL])
@pytest.mark.parametrize("name", ["ngs", "webkb203"])
def test_counts_give_the_same_dense_or_sparse(make, name, data_dir):
    dataset = read_views(data_dir / f"{name}.npz")
    k = np.unique(dataset.y).size
    dense = [X.toarray() if sp.issparse(X) else np.asarray(X) for X in dataset.views]
    labels = [
        make(k, random_state=0).fit(views).labels_
        for views in (dense, [sp.csr_array(X) for X in dense])
    ]
    assert adjusted_rand_score(*labels) > 0.99


def views_copies(first=(20, 15, 10), seed=0):
    """Two views with so many copies of some samples, in no order, and ten samples of one each."""
    rng = np.random.default_rng(seed)
    kind = rng.permutation(np.repeat(np.arange(len(first) + 10), [*first, *[1] * 10]))
    return [rng.standard_normal((kind.max() + 1, width))[kind] for width in (4, 3)]


def warn(arrays, n_neighbors, n_clusters=3, beyond=0):
    nearest = [nearest_rows(array, n_neighbors + beyond) for array in arrays]
    warn_of_copies(nearest, n_neighbors, n_clusters)


def quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn(*arguments, **options)


@pytest.mark.parametrize("beyond", [0, 1])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_more_copies_than_neighbours_and_no_fewer(kind, beyond):
    arrays = [kind(view) for view in views_copies()]
    match = "has 19 copies, more than n_neighbors=18: .* raise n_neighbors to 19, or"
    with pytest.warns(ConvergenceWarning, match=match):
        warn(arrays, 18, beyond=beyond)
    quietly(arrays, 19, beyond=beyond)


def test_what_differs_in_one_view_is_no_copy():
    quietly([*views_copies(), np.random.default_rng(1).standard_normal((55, 2))], 5)


def test_small_heaps_where_larger_ones_of_two_views_cross_are_no_copies():
    first, second = np.divmod(np.arange(36), 6)
    quietly([np.eye(6)[first], np.eye(6)[second]], 3)


def test_within_a_view_there_are_more():
    first = np.repeat([0, 1], 20)
    with pytest.warns(ConvergenceWarning, match=r"has 19 copies.* to 39, its copies within a view"):
        warn([np.eye(2)[first], np.ones((40, 2))], 4, n_clusters=2)


def test_nothing_of_a_single_cluster_nor_of_more_clusters_than_distinct_samples():
    quietly(views_copies(), 5, n_clusters=1)
    quietly([np.ones((20, 2))], 5, n_clusters=2)


def test_too_many_samples_are_refused_with_their_number():
    refuse_beyond(100.0, method="SEC", n_samples=3, limit=100)
    with pytest.raises(ValueError, match=r"SEC on 3 samples needs .* samples by samples"):
        refuse_beyond(101, method="SEC", n_samples=3, limit=100)


def test_one_number_stands_for_all_views():
    np.testing.assert_array_equal(strength_per_view("weight", 0.5, 3), [0.5, 0.5, 0.5])


def test_one_number_each():
    np.testing.assert_array_equal(strength_per_view("weight", (1, 0), 2), [1.0, 0.0])


@pytest.mark.parametrize("value", [[1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]]])
def test_a_number_for_each_view_or_one(value):
    with pytest.raises(ValueError, match=r"weight has shape .* each of 2 views"):
        strength_per_view("weight", value, 2)


@pytest.mark.parametrize("value", [-1.0, [1.0, -0.1], [1.0, np.nan], np.inf])
def test_finite_and_not_negative(value):
    with pytest.raises(ValueError, match="expected finite numbers of at least 0"):
        strength_per_view("weight", value, 2)


def counts(seed=0, n=30, d=7):
    array = np.random.default_rng(seed).poisson(0.7, (n, d))
    array[3] = 0
    return array


@pytest.mark.parametrize("normalize", [None, "rows", "columns"])
@pytest.mark.parametrize("dtype", [np.int64, np.float32, bool])
def test_sparse_and_dense_agree_and_are_double(normalize, dtype):
    array = counts().astype(dtype)
    dense, sparse = scaled_arrays([array, sp.csr_array(array)], normalize)
    assert dense.dtype == sparse.dtype == np.float64
    assert sp.issparse(sparse) == (normalize != "columns")
    np.testing.assert_allclose(sparse.toarray() if sp.issparse(sparse) else sparse, dense)


def test_nothing_is_scaled_or_copied_without_need():
    array = np.ones((4, 2))
    assert scaled_arrays([array], None)[0] is array


@pytest.mark.parametrize("size", [1.0, 1e-305, 1e-200, 1e200])
def test_rows_have_unit_length_and_zero_rows_stay(size):
    for kind in (np.asarray, sp.csr_array):
        scaled = scaled_arrays([kind(counts() * size)], "rows")[0]
        lengths = np.sqrt((scaled * scaled).sum(axis=1))
        np.testing.assert_allclose(lengths, (counts() > 0).any(axis=1))


@pytest.mark.parametrize("size", [1e-200, 1e200])
@pytest.mark.parametrize("normalize", [None, "columns"])
def test_sizes_whose_squares_cannot_be_written_are_refused_by_name(size, normalize):
    views = as_views({"a": counts(), "b": counts() * size})
    with pytest.raises(ValueError, match="'b' has entries of size"):
        scaled_arrays(views, normalize)
    with pytest.raises(ValueError, match="'b' has entries of size"):
        column_scales(views)


@pytest.mark.parametrize(
    ("kind", "dtype", "size"),
    [
        (np.asarray, np.float16, 2e3),
        (np.asarray, np.float16, 1e-4),
        (np.asarray, np.float32, 1e30),
        (sp.csr_array, np.float32, 1e30),
    ],
)
def test_columns_are_measured_in_double_precision(kind, dtype, size):
    array = (counts() * size).astype(dtype)
    scale, expected = (column_scales([kind(a)])[0] for a in (array, array.astype(np.float64)))
    np.testing.assert_array_equal(scale.mean, expected.mean)
    np.testing.assert_array_equal(scale.deviation, expected.deviation)


def test_columns_are_standardised_and_constant_ones_zero():
    array = np.column_stack([counts(), np.full(30, 0.1)])
    scaled = scaled_arrays([array], "columns")[0]
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.std(axis=0), [1] * 7 + [0], atol=1e-12)


def test_other_samples_are_scaled_by_the_columns_of_the_first():
    array = counts().astype(float)
    scales = column_scales([sp.csr_array(array)])
    whole = scaled_arrays([array], "columns")[0]
    np.testing.assert_allclose(scaled_arrays([array[:5]], "columns", scales)[0], whole[:5])


def test_the_input_stays_as_it_is():
    array = counts().astype(float)
    sparse = sp.csr_array(array)
    for normalize in ("rows", "columns"):
        scaled_arrays([array, sparse], normalize)
    np.testing.assert_array_equal(array, counts())
    np.testing.assert_array_equal(sparse.toarray(), counts())


def test_beside_is_sparse_if_a_view_is():
    array = counts().astype(float)
    both = np.hstack([array, array])
    np.testing.assert_array_equal(beside([array, array]), both)
    mixed = beside([array, sp.csr_array(array)])
    assert sp.issparse(mixed)
    np.testing.assert_array_equal(mixed.toarray(), both)
    assert beside([array]) is array


def test_unknown_scaling_is_refused():
    with pytest.raises(ValueError, match="'whole'"):
        scaled_arrays([np.ones((2, 2))], "whole")


@pytest.mark.parametrize("apart", [1e-9, 1e-6])
def test_a_feature_is_constant_where_it_is_to_mmc(apart):
    array = 1000.0 + apart * np.array([[-1.0], [1.0], [1.0], [-1.0]])
    engine = engine_for(as_views([array]), normalize="columns")
    scaled = scaled_arrays([array], "columns")[0]
    assert (
        (engine.standardising(0).width[0] == 0) == (np.abs(scaled).max() < 0.5) == (apart == 1e-9)
    )
