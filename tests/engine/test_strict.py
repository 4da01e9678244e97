"""Kernels and the small arithmetic ask for nothing that the array API standard does not have."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from manyview import MMC, as_views
from manyview.datasets import make_views
from manyview.engine import Block, LocalEngine, RowView
from manyview.engine.arrays import (
    as_dtype,
    is_sparse,
    largest,
    namespace,
    picked,
    to_numpy,
    uniform_of_rows,
    with_rows_at,
)
from manyview.graph.settings import GraphSettings
from manyview.mmc import estimator

strict = pytest.importorskip("array_api_strict")


@pytest.fixture(autouse=True)
def _version(monkeypatch):
    monkeypatch.setattr(LocalEngine, "block_rows", (40, 40))
    with strict.ArrayAPIStrictFlags(api_version="2024.12"):
        yield


class StrictEngine(LocalEngine):
    """Rows as arrays that have what the standard says, and nothing more."""

    chunk = 11

    def __init__(self, views, *, n_threads=1, scalings=None, **options):
        super().__init__(views, scalings=scalings, **options)
        self.blocks = [
            Block(
                block.rows,
                [
                    RowView(placed(view.x), placed(view.scale), placed(view.known))
                    for view in block.views
                ],
            )
            for block in self.blocks
        ]
        self._whole = [list(block.views) for block in self.blocks]
        if scalings is None and options["normalize"] == "columns":
            self.scalings = [self.standardising(v) for v in range(len(views))]

    def _placed(self, value):
        return placed(value)

    def asarray(self, values):
        return placed(values)

    def take(self, samples):
        taken = super().take(samples) if self.blocks[0].views[0].scale is None else None
        if taken is not None:
            return taken
        return [
            RowView(
                array[samples],
                np.concatenate([to_numpy(block.views[v].scale) for block in self.blocks])[samples],
                None if self._known[v] is None else self._known[v][samples],
            )
            for v, array in enumerate(self._arrays)
        ]


def placed(value):
    if isinstance(value, np.ndarray):
        return strict.asarray(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(placed, value))
    if isinstance(value, list | tuple):
        return type(value)(map(placed, value))
    return value


def made(n=150):
    dataset = make_views(n, 3, (8, 6), separation=6.0, random_state=0)
    return [np.asarray(X) for X in dataset.views]


def fitted(views, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MMC(3, **({"random_state": 0} | options)).fit(views)


@pytest.fixture
def strictly(monkeypatch):
    """Fit on arrays of the standard, and check that the rows were such arrays."""
    made_engines = []

    def engine_for(views, **options):
        made_engines.append(StrictEngine(views, **options))
        return made_engines[-1]

    def fit(views, **options):
        with monkeypatch.context() as patch:
            patch.setattr(estimator, "engine_for", engine_for)
            found = fitted(views, **options)
        assert isinstance(made_engines[0].blocks[0].views[0].x, strict._array_object.Array)
        return found

    return fit


def assert_same(found, expected):
    np.testing.assert_array_equal(to_numpy(found.labels_), expected.labels_)
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-6)
    for ours, theirs in zip(found.view_factors_, expected.view_factors_, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4 * np.abs(theirs).max())


class TestFit:
    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    @pytest.mark.parametrize("indicator", ["leave-one-out", "discrete", "orthogonal"])
    def test_whatever_the_options(self, strictly, normalize, indicator):
        options = {"normalize": normalize, "indicator": indicator, "max_iter": 5, "tol": 0.0}
        assert_same(strictly(made(), **options), fitted(made(), **options))

    @pytest.mark.parametrize("start", ["kmeans", "random"])
    def test_with_any_initialisation(self, strictly, start):
        assert_same(strictly(made(), init=start), fitted(made(), init=start))

    @pytest.mark.parametrize("indicator", ["leave-one-out", "discrete"])
    @pytest.mark.parametrize("order", [None, 1])
    def test_by_landmarks(self, strictly, monkeypatch, order, indicator):
        settings = GraphSettings(
            n_compared=50, compared_per_cluster=0, n_landmarks=40, kmeans_rows=100
        )
        monkeypatch.setattr(MMC, "_graph_settings", settings)
        options = {"order": order, "indicator": indicator}
        assert_same(strictly(made(), **options), fitted(made(), **options))

    @pytest.mark.parametrize(("normalize", "gamma"), [("rows", 0.06), ("columns", 0.5)])
    def test_where_features_are_dropped(self, strictly, normalize, gamma):
        noise = np.random.default_rng(1).standard_normal((150, 40))
        options = {"gamma": gamma, "patience": None, "normalize": normalize}
        views = [made()[0], noise]
        found = strictly(views, **options)
        assert (~found.view_factors_[1][:-1].any(axis=1)).sum() > 10
        assert_same(found, fitted(views, **options))

    def test_in_single_precision(self, strictly):
        views = [X.astype(np.float32) for X in made()]
        found = strictly(views)
        assert found.cluster_factors_.dtype == np.float32
        np.testing.assert_array_equal(to_numpy(found.labels_), fitted(views).labels_)

    def test_of_samples_that_miss_a_view(self, strictly):
        present = np.random.default_rng(0).random((150, 2)) < 0.8
        present[~present.any(axis=1)] = True
        views = as_views(made(), present=present)
        assert_same(strictly(views), fitted(views))

    @pytest.mark.parametrize("normalize", ["rows", "columns"])
    def test_of_unknown_cells(self, strictly, monkeypatch, normalize):
        settings = GraphSettings(n_compared=50, compared_per_cluster=0, n_landmarks=40)
        monkeypatch.setattr(MMC, "_graph_settings", settings)
        rng = np.random.default_rng(0)
        views = [np.where(rng.random(X.shape) < 0.2, np.nan, X) for X in made()]
        assert_same(strictly(views, normalize=normalize), fitted(views, normalize=normalize))


@pytest.mark.parametrize("indicator", ["leave-one-out", "discrete", "orthogonal"])
def test_predict_and_transform(strictly, monkeypatch, indicator):
    seen, new = [X[:100] for X in made()], [X[100:] for X in made()]
    found, expected = strictly(seen, indicator=indicator), fitted(seen, indicator=indicator)
    monkeypatch.setattr(estimator, "engine_for", StrictEngine)
    np.testing.assert_array_equal(to_numpy(found.predict(new)), expected.predict(new))
    np.testing.assert_allclose(to_numpy(found.transform(new)), expected.transform(new), atol=1e-6)


class TestArrays:
    rows = np.array([[3.0, 9.0, 1.0], [7.0, 2.0, 8.0]])

    def both(self, function, *args):
        return to_numpy(function(*placed(args))), function(*args)

    def test_helpers_agree_with_numpy(self):
        places = np.array([2, 0])
        for function, *args in (
            (lambda x: largest(x, 2), self.rows),
            (picked, self.rows, places),
            (lambda where, x: with_rows_at(where, x, 5), np.array([4, 1]), self.rows),
            (lambda x: as_dtype(x, np.float32), self.rows),
        ):
            here, there = self.both(function, *args)
            np.testing.assert_array_equal(here, there)
            assert here.dtype == there.dtype or here.dtype.kind == "i"

    def test_numbers_of_rows(self):
        rows = np.arange(1000, dtype=np.uint64)
        here, there = self.both(lambda x: uniform_of_rows(x, 5), rows)
        np.testing.assert_array_equal(here, there)
        torch = pytest.importorskip("torch")
        np.testing.assert_array_equal(uniform_of_rows(torch.arange(1000), 5).numpy(), there)

    def test_namespace_and_sparsity(self):
        x = placed(self.rows)
        assert "strict" in namespace(x).__name__
        assert not is_sparse(x)
