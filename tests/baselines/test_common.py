import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score

from manyview import (
    AMGL,
    GMC,
    KCTD,
    LMVSC,
    NEMO,
    OPMC,
    RMKMC,
    SCMV3DT,
    SEC,
    SNF,
    CoRegSC,
    MultiNMF,
    as_views,
)
from manyview.baselines.common import (
    check_pairwise_memory,
    column_scales,
    concatenated,
    scaled_arrays,
    strength_per_view,
)
from manyview.datasets import make_views, read_views
from manyview.engine import engine_for
from manyview.exceptions import InterruptWarning, NotEnoughMemoryError

from .helpers import no_convergence_warning

ITERATIVE = {
    "CoRegSC": CoRegSC,
    "AMGL": AMGL,
    "RMKMC": RMKMC,
    "MultiNMF": lambda k, **options: MultiNMF(k, negative="shift", **options),
    "KCTD": KCTD,
    "KCTD, L-BFGS": lambda k, **options: KCTD(k, solver="lbfgs", **options),
    "SCMV3DT": SCMV3DT,
    "GMC": GMC,
    "SNF": SNF,
    "OPMC": OPMC,
    "LMVSC": LMVSC,
}
SPECTRAL = {
    "SEC": SEC,
    "SEC, rotation": lambda k, **options: SEC(k, assign="rotation", **options),
    "CoRegSC": CoRegSC,
    "CoRegSC, pairwise": lambda k, **options: CoRegSC(k, form="pairwise", **options),
    "AMGL": AMGL,
    "AMGL, unit rows": lambda k, **options: AMGL(k, unit_embedding=True, **options),
    "SCMV3DT": SCMV3DT,
    "GMC": GMC,
    "SNF": SNF,
    "NEMO": NEMO,
}


@pytest.fixture(scope="module")
def views():
    # noisy enough that k-means depends on the seed
    return make_views(n_samples=80, n_clusters=6, noise=3.0, random_state=0).views


def raises(error):
    def function(*args, **options):
        raise error

    return function


class InterruptedBar:
    """A progress bar that is interrupted after two iterations."""

    def __init__(self, *args, **options):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def step(self, done, word):
        if done == 2:
            raise KeyboardInterrupt


@pytest.mark.parametrize("make", ITERATIVE.values(), ids=ITERATIVE)
class TestInterrupt:
    def test_keeps_the_last_complete_iteration(self, make, views, monkeypatch):
        monkeypatch.setattr("manyview.base.ProgressBar", InterruptedBar)
        with pytest.warns(InterruptWarning):
            model = make(6, random_state=0).fit(views)
        assert model.n_iter_ == len(model.objective_) == 2
        assert np.unique(model.labels_).size == 6

    def test_before_the_first_iteration_leaves_an_earlier_fit(self, make, views, monkeypatch):
        with no_convergence_warning():
            model = make(6, random_state=0, **({"max_iter": 5} if make is SCMV3DT else {}))
            labels = model.fit(views).labels_.copy()
        monkeypatch.setattr(f"{type(model).__module__}.scaled_arrays", raises(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            model.fit(views)
        np.testing.assert_array_equal(model.labels_, labels)


@pytest.mark.parametrize("make", SPECTRAL.values(), ids=SPECTRAL)
class TestRelabelled:
    def test_equals_a_fit_with_that_seed(self, make, views):
        with no_convergence_warning():
            first = make(6, random_state=0).fit(views)
            second = make(6, random_state=1).fit(views)
        np.testing.assert_array_equal(first.relabelled(0), first.labels_)
        np.testing.assert_array_equal(first.relabelled(1), second.labels_)

    def test_needs_a_fit(self, make, views):
        with pytest.raises(NotFittedError):
            make(6).relabelled(0)


@pytest.mark.parametrize("make", [CoRegSC, AMGL, RMKMC, MultiNMF, KCTD, SCMV3DT, GMC, SNF, NEMO])
@pytest.mark.parametrize("method", ["predict", "transform"])
def test_methods_without_out_of_sample_prediction_raise(make, method):
    assert not hasattr(make(2), method)
    with pytest.raises(AttributeError, match=make.__name__):
        getattr(make(2), method)


@pytest.mark.parametrize("make", [SEC, CoRegSC, AMGL, KCTD, SCMV3DT, GMC, SNF, NEMO])
def test_a_fit_that_fails_at_its_labels_leaves_an_earlier_fit(make, views, monkeypatch):
    with no_convergence_warning():
        model = make(6, random_state=0).fit(views)
    before = {name: value for name, value in vars(model).items() if name.endswith("_")}
    monkeypatch.setattr("sklearn.cluster.KMeans.fit_predict", raises(MemoryError))
    with pytest.raises(MemoryError), no_convergence_warning():
        model.fit(views.take(range(50)))
    assert all(getattr(model, name) is before[name] for name in before)


@pytest.mark.parametrize("make", [SEC, *ITERATIVE.values()], ids=["SEC", *ITERATIVE])
def test_samples_with_missing_views_are_rejected(make, views):
    present = np.ones(views.shape, dtype=bool)
    with no_convergence_warning():
        labels = make(6, random_state=0).fit_predict(views)
        same = make(6, random_state=0).fit_predict(as_views(views, present=present))
    np.testing.assert_array_equal(same, labels)
    present[:2, 0] = False
    with pytest.raises(ValueError, match=type(make(6)).__name__):
        make(6).fit(as_views(views, present=present))


@pytest.mark.data
@pytest.mark.parametrize("make", [SEC, AMGL])
@pytest.mark.parametrize("name", ["ngs", "webkb203"])
def test_dense_and_sparse_counts_give_the_same_labels(make, name, data_dir):
    dataset = read_views(data_dir / f"{name}.npz")
    k = np.unique(dataset.y).size
    dense = [X.toarray() if sp.issparse(X) else np.asarray(X) for X in dataset.views]
    labels = [
        make(k, random_state=0).fit(views).labels_
        for views in (dense, [sp.csr_array(X) for X in dense])
    ]
    assert adjusted_rand_score(*labels) > 0.99


def test_too_many_samples_for_the_memory_are_rejected():
    check_pairwise_memory(100.0, method="SEC", n_samples=3)
    with pytest.raises(NotEnoughMemoryError, match="SEC on 3 samples"):
        check_pairwise_memory(1e20, method="SEC", n_samples=3)


class TestStrengthPerView:
    def test_one_number_for_all_views_or_one_each(self):
        np.testing.assert_array_equal(strength_per_view("weight", 0.5, 3), [0.5, 0.5, 0.5])
        np.testing.assert_array_equal(strength_per_view("weight", (1, 0), 2), [1.0, 0.0])

    @pytest.mark.parametrize("value", [[1.0], [[1.0, 2.0]], [1.0, -0.1], [1.0, np.nan], "much"])
    def test_other_values_are_rejected(self, value):
        with pytest.raises(ValueError, match=r"weight.*2 views"):
            strength_per_view("weight", value, 2)


def counts(seed=0, n=30, d=7):
    array = np.random.default_rng(seed).poisson(0.7, (n, d))
    array[3] = 0
    return array


class TestScaling:
    @pytest.mark.parametrize("normalize", [None, "rows", "columns", "zscore"])
    @pytest.mark.parametrize("dtype", [np.int64, np.float32, bool])
    def test_sparse_and_dense_agree_and_are_double(self, normalize, dtype):
        array = counts().astype(dtype)
        sparse_array = sp.csr_array(array)
        dense, sparse = scaled_arrays([array, sparse_array], normalize)
        assert dense.dtype == sparse.dtype == np.float64
        assert sp.issparse(sparse) == (normalize in (None, "rows"))
        np.testing.assert_allclose(sparse.toarray() if sp.issparse(sparse) else sparse, dense)
        # the input is not changed
        np.testing.assert_array_equal(array, counts().astype(dtype))
        np.testing.assert_array_equal(sparse_array.toarray(), array)

    def test_nothing_is_copied_without_need(self):
        array = np.ones((4, 2))
        assert scaled_arrays([array], None)[0] is array

    @pytest.mark.parametrize("size", [1.0, 1e-305, 1e200])
    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
    def test_rows_have_unit_length_and_zero_rows_stay(self, size, kind):
        scaled = scaled_arrays([kind(counts() * size)], "rows")[0]
        lengths = np.sqrt((scaled * scaled).sum(axis=1))
        np.testing.assert_allclose(lengths, (counts() > 0).any(axis=1))

    @pytest.mark.parametrize("size", [1e-200, 1e200])
    def test_entries_whose_squares_leave_the_range_are_rejected(self, size):
        views = as_views({"a": counts(), "b": counts() * size})
        for normalize in (None, "columns"):
            with pytest.raises(ValueError, match="'b'"):
                scaled_arrays(views, normalize)
        with pytest.raises(ValueError, match="'b'"):
            column_scales(views)

    @pytest.mark.parametrize(("dtype", "size"), [(np.float16, 2e3), (np.float32, 1e30)])
    def test_column_scales_are_computed_in_double_precision(self, dtype, size):
        array = (counts() * size).astype(dtype)
        kinds = [np.asarray] if dtype == np.float16 else [np.asarray, sp.csr_array]
        for kind in kinds:
            scale, expected = (
                column_scales([kind(a)])[0] for a in (array, array.astype(np.float64))
            )
            np.testing.assert_array_equal(scale, expected)

    def test_samples_are_standardised_and_constant_ones_zero(self):
        scaled = scaled_arrays([counts()], "zscore")[0]
        np.testing.assert_allclose(scaled.mean(axis=1), 0, atol=1e-12)
        np.testing.assert_allclose(scaled.std(axis=1), counts().std(axis=1) > 0, atol=1e-12)

    def test_columns_are_standardised_and_constant_ones_zero(self):
        array = np.column_stack([counts(), np.full(30, 0.1)])
        scaled = scaled_arrays([array], "columns")[0]
        np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(scaled.std(axis=0), [1] * 7 + [0], atol=1e-12)

    def test_out_of_sample_data_are_scaled_like_the_training_samples(self):
        array = counts().astype(float)
        scales = column_scales([sp.csr_array(array)])
        whole = scaled_arrays([array], "columns")[0]
        np.testing.assert_allclose(scaled_arrays([array[:5]], "columns", scales)[0], whole[:5])

    def test_an_unknown_scaling_is_rejected(self):
        with pytest.raises(ValueError, match="normalize"):
            scaled_arrays([np.ones((2, 2))], "whole")

    @pytest.mark.parametrize("deviation", [1e-9, 1e-6])
    def test_the_same_features_are_constant_as_in_mmc(self, deviation):
        array = 1000.0 + deviation * np.array([[-1.0], [1.0], [1.0], [-1.0]])
        engine = engine_for(as_views([array]), normalize="columns")
        scaled = scaled_arrays([array], "columns")[0]
        constant = deviation == 1e-9
        assert (engine.standardising(0).width[0] == 0) == constant
        assert (np.abs(scaled).max() < 0.5) == constant


def test_concatenated_views_are_sparse_if_one_is():
    array = counts().astype(float)
    both = np.hstack([array, array])
    np.testing.assert_array_equal(concatenated([array, array]), both)
    mixed = concatenated([array, sp.csr_array(array)])
    assert sp.issparse(mixed)
    np.testing.assert_array_equal(mixed.toarray(), both)
    assert concatenated([array]) is array
