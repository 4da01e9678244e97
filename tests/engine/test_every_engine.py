"""What holds wherever the rows are."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from manyview import MMC, as_views
from manyview.datasets import make_views
from manyview.engine import engine_for
from manyview.engine.arrays import namespace, to_numpy
from manyview.graph.leave_one_out import judge_labels
from manyview.graph.settings import GraphSettings

from .places import PLACES, fetched

places = pytest.mark.parametrize("place", PLACES)


def made(n=150, *, sparse=(False, False), dtype=np.float64, seed=0, separation=6.0):
    dataset = make_views(n, 3, (8, 6), separation=separation, random_state=seed)
    arrays = [np.asarray(X, dtype=dtype) for X in dataset.views]
    thin = np.random.default_rng(seed)
    arrays = [
        sp.csr_array(X * (thin.random(X.shape) < 0.7)) if is_sparse else X
        for X, is_sparse in zip(arrays, sparse, strict=True)
    ]
    return arrays, dataset.y


def some(n_compared):
    """Settings by which only some samples are compared with each other."""
    return GraphSettings(n_compared=n_compared, compared_per_cluster=0, n_landmarks=40)


def fitted(views, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MMC(3, **({"random_state": 0} | options)).fit(views)


def brought(views, place):
    return [PLACES[place](X) for X in views]


def assert_same(found, expected, *, rtol=1e-6):
    np.testing.assert_array_equal(fetched(found.labels_), expected.labels_)
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=rtol)
    for ours, theirs in zip(found.view_factors_, expected.view_factors_, strict=True):
        assert isinstance(ours, np.ndarray)
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4 * np.abs(theirs).max())


@places
class TestAgreement:
    @pytest.mark.parametrize(
        ("normalize", "penalty", "indicator"),
        [
            ("rows", "l21", "discrete"),
            ("columns", "frobenius", "orthogonal"),
            (None, "l21", "orthogonal"),
            (None, "frobenius", "discrete"),
            ("rows", "l21", "leave-one-out"),
            (["rows", "columns"], "l21", "discrete"),
            ([None, "rows"], "frobenius", "discrete"),
            ("auto", "l21", "leave-one-out"),
        ],
    )
    def test_whatever_the_options(self, place, normalize, penalty, indicator):
        views, _ = made()
        options = {"normalize": normalize, "penalty": penalty, "indicator": indicator}
        options |= {"max_iter": 5, "tol": 0.0}
        assert_same(fitted(brought(views, place), **options), fitted(views, **options))

    @pytest.mark.parametrize("name", ["graph", "kmeans", "random", "labels", "indicator"])
    def test_with_any_initialisation(self, place, name):
        views, truth = made()
        given = {"labels": truth, "indicator": np.eye(3)[truth]}.get(name, name)
        assert_same(fitted(brought(views, place), init=given), fitted(views, init=given))

    @pytest.mark.parametrize("indicator", ["leave-one-out", "discrete"])
    @pytest.mark.parametrize("n_compared", [5000, 50], ids=["all", "some"])
    def test_of_clusters_that_overlap(self, place, n_compared, indicator, monkeypatch):
        monkeypatch.setattr(MMC, "_graph_settings", some(n_compared))
        views, _ = made(separation=3.0)
        options = {"indicator": indicator}
        assert_same(fitted(brought(views, place), **options), fitted(views, **options))

    @pytest.mark.parametrize("sparse", [False, True])
    @pytest.mark.parametrize("normalize", ["rows", "columns"])
    @pytest.mark.parametrize("n_compared", [5000, 100], ids=["all", "some"])
    def test_of_labels_judged_by_leave_one_out_predictions(
        self, place, n_compared, normalize, sparse
    ):
        views, truth = made(separation=3.0, sparse=(sparse, False))
        wrong = np.where(np.arange(150) % 3 == 0, 0, truth)

        def judged(views):
            engine = engine_for(as_views(views), normalize=normalize)
            with engine.running():
                engine.scatter("labels", wrong)
                rng = np.random.default_rng(0)
                error = judge_labels(engine, 3, rng, initial=False, settings=some(n_compared))
                return fetched(engine.gather("labels")), error

        (found, error), (expected, of_arrays) = judged(brought(views, place)), judged(views)
        np.testing.assert_array_equal(found, expected)
        assert error == pytest.approx(of_arrays)
        assert adjusted_rand_score(truth, found) > adjusted_rand_score(truth, wrong)

    @pytest.mark.parametrize("indicator", ["leave-one-out", "discrete"])
    def test_of_so_few_compared_samples_that_some_blocks_have_none(
        self, place, indicator, monkeypatch
    ):
        monkeypatch.setattr(MMC, "_graph_settings", some(12))
        views, truth = made()
        options = {"indicator": indicator}
        found = fitted(brought(views, place), **options)
        assert_same(found, fitted(views, **options))
        assert adjusted_rand_score(truth, fetched(found.labels_)) > 0.9

    @pytest.mark.parametrize(
        ("sparse", "normalize"), [((True, True), "rows"), ((True, False), "columns")]
    )
    def test_of_sparse_and_mixed_views(self, place, sparse, normalize):
        views, _ = made(sparse=sparse)
        options = {"normalize": normalize, "max_iter": 5, "tol": 0.0}
        assert_same(fitted(brought(views, place), **options), fitted(views, **options))

    @pytest.mark.parametrize("sparse", [False, True])
    @pytest.mark.parametrize("missing", [False, True])
    def test_of_logarithms_of_counts(self, place, sparse, missing):
        rng, y = np.random.default_rng(0), np.arange(150) % 3
        views = [rng.poisson(rng.gamma(0.2, 8.0, (3, 60))[y]).astype(np.float64) for _ in range(2)]
        views = [sp.csr_array(views[0]) if sparse else views[0], views[1]]
        present = np.arange(150)[:, None] % 7 != np.array([1, 3]) if missing else None
        found = fitted(as_views(brought(views, place), present=present))
        expected = fitted(as_views(views, present=present))
        assert set(found.normalize_.values()) == {"log"}
        assert adjusted_rand_score(y, expected.labels_) > 0.9
        assert_same(found, expected)
        np.testing.assert_allclose(found.membership_, expected.membership_, atol=1e-6)
        for v, mean in enumerate(found._statistics.means):  # in counts
            np.testing.assert_allclose(mean, expected._statistics.means[v])
            if not missing:
                x = views[v].toarray() if sp.issparse(views[v]) else views[v]
                np.testing.assert_allclose(mean[0], x[expected.labels_ == 0].mean(axis=0))
        np.testing.assert_array_equal(
            fetched(found.predict(as_views(brought(views, place), present=present))),
            expected.predict(as_views(views, present=present)),
        )

    @pytest.mark.parametrize("sparse", [False, True])
    @pytest.mark.parametrize("missing", [False, True])
    def test_of_profiles(self, place, sparse, missing):
        views, _ = made(sparse=(sparse, False), separation=3.0)
        present = np.arange(150)[:, None] % 7 != np.array([1, 3]) if missing else None
        found = fitted(as_views(brought(views, place), present=present)).profile()
        expected = fitted(as_views(views, present=present)).profile()
        assert [entry.places for entry in found] == [entry.places for entry in expected]
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.directions == theirs.directions
            assert ours.explains == pytest.approx(theirs.explains)
            for one, other in zip(ours.differences, theirs.differences, strict=True):
                assert one[1:] == pytest.approx(other[1:])

    def test_in_single_precision(self, place):
        views, truth = made(dtype=np.float32)
        found = fitted(brought(views, place))
        assert found.cluster_factors_.dtype == np.float32
        assert adjusted_rand_score(truth, fetched(found.labels_)) == 1.0

    @pytest.mark.parametrize(
        ("normalize", "dtype"), [("rows", np.uint8), ("columns", np.float16), (None, np.float32)]
    )
    def test_of_narrow_types(self, place, dtype, normalize):
        views, truth = made()
        views = [(20.0 * (X - X.min()) / np.ptp(X)).astype(dtype) for X in views]
        options = {"normalize": normalize, "init": truth, "max_iter": 3, "tol": 0.0}
        found, expected = (fitted(given, **options) for given in (brought(views, place), views))
        assert found.cluster_factors_.dtype == np.float32
        np.testing.assert_array_equal(fetched(found.labels_), expected.labels_)
        np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-3)

    @pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
    def test_of_predictions_by_centres(self, place, dtype):
        views, truth = made()
        views = [(20.0 * (X - X.min()) / np.ptp(X)).astype(dtype) for X in views]
        given = brought(views, place)
        found, expected = (
            fitted(some, indicator="orthogonal", init=truth, max_iter=3, tol=0.0)
            for some in (given, views)
        )
        np.testing.assert_array_equal(fetched(found.predict(given)), expected.predict(views))
        predictions = fetched(found.transform(given)), expected.transform(views)
        np.testing.assert_allclose(*predictions, atol=1e-3 * np.abs(predictions[1]).max())

    def test_of_views_with_names_and_several_initialisations(self, place):
        views, _ = made()
        named = dict(zip(("text", "image"), views, strict=True))
        there = {name: PLACES[place](X) for name, X in named.items()}
        found = fitted(there, n_init=2)
        assert found.view_names_ == ["text", "image"]
        assert_same(found, fitted(named, n_init=2))

    def test_of_samples_that_miss_a_view(self, place):
        views, _ = made()
        present = np.random.default_rng(0).random((150, 2)) < 0.8
        present[~present.any(axis=1)] = True
        found, expected = (
            fitted(as_views(given, present=present)) for given in (brought(views, place), views)
        )
        assert_same(found, expected)
        whole = as_views(brought(views, place), present=present[::-1])
        np.testing.assert_allclose(
            fetched(found.transform(whole)),
            expected.transform(as_views(views, present=present[::-1])),
            atol=1e-5,
        )

    @pytest.mark.parametrize("indicator", ["leave-one-out", "orthogonal"])
    @pytest.mark.parametrize("sparse", [False, True])
    @pytest.mark.parametrize("n_compared", [5000, 100], ids=["all", "some"])
    def test_of_memberships_and_view_weights(
        self, place, n_compared, sparse, indicator, monkeypatch
    ):
        settings = replace(some(n_compared), outlier_samples=n_compared)
        monkeypatch.setattr(MMC, "_graph_settings", settings)
        views, _ = made(separation=3.0, sparse=(sparse, False))
        present = np.random.default_rng(0).random((150, 2)) < 0.8
        present[~present.any(axis=1)] = True
        found, expected = (
            fitted(as_views(given, present=present), indicator=indicator)
            for given in (brought(views, place), views)
        )
        for name in ("membership_", "confidence_", "outlier_score_"):
            assert isinstance(getattr(found, name), np.ndarray)
            np.testing.assert_allclose(
                getattr(found, name), getattr(expected, name), rtol=1e-3, atol=1e-4
            )
        for part in ("added", "alone", "explained"):
            ours, theirs = (getattr(each.view_weights_, part) for each in (found, expected))
            np.testing.assert_allclose(ours, theirs, atol=1e-3)
        np.testing.assert_array_equal(
            found.labels_without_outliers(2.0), expected.labels_without_outliers(2.0)
        )
        np.testing.assert_allclose(
            found.predict_proba(brought(views, place)), expected.predict_proba(views), atol=1e-3
        )

    @pytest.mark.parametrize("normalize", ["rows", "columns", "auto"])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
    def test_of_unknown_cells(self, place, dtype, normalize):
        if place == "dask":
            pytest.skip("Dask arrays have no unknown cells")
        views, truth = made(dtype=dtype)
        rng = np.random.default_rng(0)
        views = [np.where(rng.random(X.shape) < 0.2, dtype(np.nan), X) for X in views]
        there = brought(views, place)
        found, expected = (
            fitted(given, normalize=normalize, max_iter=5, tol=0.0) for given in (there, views)
        )
        assert adjusted_rand_score(truth, fetched(found.labels_)) > 0.95
        np.testing.assert_array_equal(fetched(found.labels_), expected.labels_)
        tolerance = 1e-6 if dtype == np.float64 else 1e-3
        np.testing.assert_allclose(found.objective_, expected.objective_, rtol=tolerance)
        predictions = fetched(found.transform(there)), expected.transform(views)
        largest = np.abs(predictions[1]).max()
        np.testing.assert_allclose(*predictions, atol=10 * tolerance * largest)
        for name in ("membership_", "outlier_score_"):
            np.testing.assert_allclose(
                getattr(found, name), getattr(expected, name), rtol=1e-2, atol=1e-2
            )
        assert [entry.places for entry in found.profile()] == [
            entry.places for entry in expected.profile()
        ]

    def test_with_features_dropped(self, place):
        views, _ = made()
        noise = np.random.default_rng(1).standard_normal((150, 40))
        options = {"gamma": 0.06, "patience": None, "normalize": "rows"}
        found = fitted(brought([views[0], noise], place), **options)
        assert (~found.view_factors_[1][:-1].any(axis=1)).sum() > 10
        assert_same(found, fitted([views[0], noise], **options))


@places
class TestRescale:
    def test_arrays_of_a_state_are_multiplied(self, place):
        rng = np.random.default_rng(0)
        rows, factor = rng.random((100, 4)), rng.random((5, 2))
        engine = engine_for(as_views(brought([rows, rows], place)), normalize=None)
        folded = [scaling.fold(engine.asarray(factor)) for scaling in engine.scalings]
        with engine.running():
            engine.update(_both_projected, folded)
            engine.rescale("both", [2.0, 3.0])
            engine.rescale("both", [0.5, 4.0])
            engine.update(_second_kept)
            engine.rescale("both", [1.0, 0.25])
            (total,) = engine.sum(_summed)
            engine.update(_second_alone)
            kept, some = engine.gather("second"), engine.take_state("second", np.arange(3))
        projected = rows @ factor[:-1] + factor[-1]
        np.testing.assert_allclose(to_numpy(total), [projected.sum(), 3.0 * projected.sum()])
        np.testing.assert_allclose(fetched(kept), 3.0 * projected)
        np.testing.assert_allclose(some, 3.0 * projected[:3])


def _both_projected(block, folded):
    return {"both": [view.project(f) for view, f in zip(block.views, folded, strict=True)]}, ()


def _second_kept(block):
    first, second = block.state["both"]
    return {"both": [first + 0.0, second]}, (block.rows.stop - block.rows.start,)


def _summed(block):
    xp = namespace(block.state["both"][0])
    return (xp.stack([xp.sum(x) for x in block.state["both"]]),)


def _second_alone(block):
    return {"second": block.state["both"][1]}, ()


@places
class TestNewSamples:
    @pytest.mark.parametrize("indicator", ["discrete", "orthogonal"])
    def test_predict_and_transform(self, place, indicator):
        views, _ = made()
        seen, new = [X[:100] for X in views], [X[100:] for X in views]
        found = fitted(brought(seen, place), indicator=indicator)
        expected = fitted(seen, indicator=indicator)
        there = brought(new, place)
        np.testing.assert_array_equal(fetched(found.predict(there)), expected.predict(new))
        np.testing.assert_allclose(
            fetched(found.transform(there)), expected.transform(new), atol=1e-6
        )

    def test_a_model_from_elsewhere_predicts_here(self, place):
        views, _ = made()
        found = fitted(brought(views, place))
        assert adjusted_rand_score(found.predict(views), fetched(found.labels_)) > 0.95


@places
class TestInput:
    def test_infinity_is_rejected(self, place):
        views, _ = made()
        views[1][3, 2] = -np.inf
        where = "" if place == "dask" else " at row 3, column 2"
        with pytest.raises(ValueError, match=f"view 'view1' holds -infinity{where}; expected"):
            MMC(3).fit(brought(views, place))

    def test_rows_must_agree(self, place):
        views, _ = made()
        with pytest.raises(ValueError, match="view 'view1' has 149 rows, view 'view0' has 150"):
            MMC(3).fit(brought([views[0], views[1][1:]], place))

    def test_progress_is_shown(self, place, capsys):
        views, _ = made()
        fitted(brought(views, place), verbose=1)
        assert "objective" in capsys.readouterr().err

    def test_the_caller_s_arrays_stay_as_they_are(self, place):
        views, _ = made()
        there = brought(views, place)
        fitted(there)
        for X, array in zip(views, there, strict=True):
            np.testing.assert_array_equal(fetched(array), X)


@pytest.mark.parametrize("place", [place for place in PLACES if place != "local"])
def test_views_of_one_call_are_in_one_place(place):
    views, _ = made()
    with pytest.raises(TypeError, match=r"'view0'.*'view1'"):
        MMC(3).fit([views[0], PLACES[place](views[1])])
