"""A fit that goes on where it was interrupted ends where it would have ended."""

import json
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from manyview import MMC, as_views
from manyview.exceptions import InterruptWarning
from tests.engine.places import PLACES, fetched

from .checkpoints import (
    OPTIONS,
    assert_identical,
    crash_in_sweep,
    crashed,
    fitted,
    made,
    sweeps_made,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.checkpoint"


@pytest.fixture
def interrupted(path, monkeypatch):
    """A checkpoint after three of seven sweeps, and the views that it is of."""
    views = made()
    crashed(monkeypatch, views, checkpoint=path)
    return views


class TestGoingOn:
    @pytest.mark.parametrize("indicator", ["discrete", "orthogonal"])
    @pytest.mark.parametrize("penalty", ["l21", "frobenius"])
    @pytest.mark.parametrize("sparse", [False, True])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_ends_where_it_would_have(
        self, tmp_path, path, monkeypatch, indicator, penalty, sparse, dtype
    ):
        views = made(sparse=sparse, dtype=dtype)
        options = {"indicator": indicator, "penalty": penalty}
        whole = fitted(views, checkpoint=tmp_path / "other", **options)
        crashed(monkeypatch, views, checkpoint=path, **options)
        calls = sweeps_made(monkeypatch)
        found = fitted(views, checkpoint=path, **options)
        assert len(calls) == 4
        assert_identical(found, whole)
        without = fitted(views, **options)
        np.testing.assert_array_equal(found.labels_, without.labels_)
        rtol = 1e-9 if dtype is np.float64 else 1e-3
        np.testing.assert_allclose(found.objective_, without.objective_, rtol=rtol)

    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    @pytest.mark.parametrize("init", ["graph", "kmeans", "random", "array"])
    def test_whatever_the_start_and_scaling(self, tmp_path, path, monkeypatch, normalize, init):
        views = made()
        given = np.arange(150) % 3 if init == "array" else init
        options = {"normalize": normalize, "init": given}
        whole = fitted(views, checkpoint=tmp_path / "other", **options)
        crashed(monkeypatch, views, checkpoint=path, **options)
        assert_identical(fitted(views, checkpoint=path, **options), whole)

    def test_with_features_dropped(self, tmp_path, path, monkeypatch):
        noise = np.random.default_rng(1).standard_normal((150, 60))
        views = [made()[0], noise]
        options = {"gamma": 0.1, "max_iter": 12}
        whole = fitted(views, checkpoint=tmp_path / "other", **options)
        crashed(monkeypatch, views, 10, checkpoint=path, **options)
        with np.load(path) as archive:
            assert 0 < archive["active1"].size < 30
        assert_identical(fitted(views, checkpoint=path, **options), whole)

    def test_of_samples_that_lack_a_view(self, tmp_path, path, monkeypatch):
        present = np.random.default_rng(0).random((150, 2)) < 0.8
        present[~present.any(axis=1)] = True
        views = as_views(made(), present=present)
        whole = fitted(views, checkpoint=tmp_path / "other")
        crashed(monkeypatch, views, checkpoint=path)
        assert_identical(fitted(views, checkpoint=path), whole)
        present[0] = ~present[0] if present[0].sum() == 1 else [True, False]
        with pytest.raises(ValueError, match="other samples lack a view"):
            fitted(as_views(made(), present=present), checkpoint=path)

    @pytest.mark.parametrize("every", [1, 2, 3, 5, 100])
    def test_loses_the_sweeps_since_the_last_checkpoint(self, path, monkeypatch, every):
        views = made()
        whole = fitted(views)
        crashed(monkeypatch, views, 6, checkpoint=path, checkpoint_every=every)
        assert path.exists() == (every <= 5)
        calls = sweeps_made(monkeypatch)
        found = fitted(views, checkpoint=path, checkpoint_every=every)
        assert len(calls) == 7 - every * (5 // every)
        np.testing.assert_array_equal(found.labels_, whole.labels_)
        np.testing.assert_allclose(found.objective_, whole.objective_, rtol=1e-9)

    def test_as_often_as_one_likes(self, tmp_path, path, monkeypatch):
        views = made()
        whole = fitted(views, checkpoint=tmp_path / "other")
        for _ in range(6):
            crashed(monkeypatch, views, 2, checkpoint=path)
        calls = sweeps_made(monkeypatch)
        assert_identical(fitted(views, checkpoint=path), whole)
        assert len(calls) == 1

    def test_after_an_interrupt_that_gave_a_result(self, path, monkeypatch):
        views = made()
        whole = fitted(views)
        with monkeypatch.context() as patch:
            crash_in_sweep(patch, 4, KeyboardInterrupt)
            with pytest.warns(InterruptWarning, match="3 sweeps"):
                MMC(**OPTIONS, checkpoint=path).fit(views)
        found = fitted(views, checkpoint=path)
        np.testing.assert_array_equal(found.labels_, whole.labels_)
        np.testing.assert_allclose(found.objective_, whole.objective_, rtol=1e-9)

    def test_other_samples_are_predicted_the_same(self, path, interrupted):
        new = made(40, seed=3)
        found, whole = fitted(interrupted, checkpoint=path), fitted(interrupted)
        np.testing.assert_array_equal(found.predict(new), whole.predict(new))

    def test_without_a_seed_it_has_the_random_numbers_it_began_with(self, path, monkeypatch):
        views = made()
        options = {"random_state": None, "init": "random", "indicator": "orthogonal"}
        crashed(monkeypatch, views, checkpoint=path, **options)
        kept = path.read_bytes()
        first = fitted(views, checkpoint=path, **options)
        path.write_bytes(kept)
        assert_identical(fitted(views, checkpoint=path, **options), first)

    def test_with_more_threads(self, path, interrupted):
        found = fitted(interrupted, checkpoint=path, n_jobs=2)
        np.testing.assert_array_equal(found.labels_, fitted(interrupted).labels_)

    def test_by_a_path_as_text(self, path, interrupted, monkeypatch):
        calls = sweeps_made(monkeypatch)
        fitted(interrupted, checkpoint=str(path))
        assert len(calls) == 4


@pytest.mark.parametrize("place", PLACES)
class TestEveryEngine:
    @pytest.mark.parametrize("indicator", ["discrete", "orthogonal"])
    @pytest.mark.parametrize("sparse", [False, True])
    def test_goes_on(self, tmp_path, path, monkeypatch, place, indicator, sparse):
        here = made(sparse=sparse)
        views = [PLACES[place](X) for X in here]
        whole = fitted(views, checkpoint=tmp_path / "other", indicator=indicator)
        crashed(monkeypatch, views, checkpoint=path, indicator=indicator)
        calls = sweeps_made(monkeypatch)
        found = fitted(views, checkpoint=path, indicator=indicator)
        assert len(calls) == 4
        np.testing.assert_array_equal(fetched(found.labels_), fetched(whole.labels_))
        np.testing.assert_allclose(found.objective_, whole.objective_, rtol=1e-9)

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_goes_on_with_what_began_here(self, path, monkeypatch, place, dtype):
        here = made(dtype=dtype)
        crashed(monkeypatch, here, checkpoint=path)
        found = fitted([PLACES[place](X) for X in here], checkpoint=path)
        np.testing.assert_array_equal(fetched(found.labels_), fitted(here).labels_)

    @pytest.mark.parametrize("held", [0.0, 5.0, np.nan])
    def test_goes_on_whatever_lacking_rows_hold(self, path, monkeypatch, place, held):
        here, present = made(), np.arange(150)[:, None] % 5 != np.array([0, 1])
        crashed(monkeypatch, as_views(here, present=present), checkpoint=path)
        there = [np.where(has[:, None], X, held) for X, has in zip(here, present.T, strict=True)]
        views = as_views([PLACES[place](X) for X in there], present=present)
        expected = fitted(as_views(here, present=present))
        found = fitted(views, checkpoint=path)
        np.testing.assert_array_equal(fetched(found.labels_), expected.labels_)

    def test_refuses_other_data(self, path, monkeypatch, place):
        here = made()
        crashed(monkeypatch, [PLACES[place](X) for X in here], checkpoint=path)
        here[0][5, 5] += 0.01
        with pytest.raises(ValueError, match="view 'view0' holds other numbers"):
            fitted([PLACES[place](X) for X in here], checkpoint=path)


class TestAFinishedFit:
    @pytest.mark.parametrize("options", [{}, {"tol": 0.05, "max_iter": 50}, {"patience": 1}])
    @pytest.mark.parametrize("indicator", ["discrete", "orthogonal"])
    def test_has_the_same_result_again_without_a_sweep(self, path, monkeypatch, options, indicator):
        views = made()
        first = fitted(views, checkpoint=path, indicator=indicator, **options)
        calls = sweeps_made(monkeypatch)
        again = fitted(views, checkpoint=path, indicator=indicator, **options)
        assert not calls
        assert_identical(again, first)
        np.testing.assert_array_equal(again.transform(views), first.transform(views))

    def test_warns_again_that_it_has_not_converged(self, path):
        views = made()
        for _ in range(2):
            with pytest.warns(ConvergenceWarning, match="max_iter=7"):
                MMC(**OPTIONS, checkpoint=path).fit(views)

    def test_goes_on_with_more_sweeps(self, path):
        views = made()
        fitted(views, checkpoint=path, max_iter=3)
        found, whole = fitted(views, checkpoint=path), fitted(views)
        np.testing.assert_array_equal(found.labels_, whole.labels_)
        np.testing.assert_allclose(found.objective_, whole.objective_, rtol=1e-9)
        with pytest.raises(ValueError, match="7 sweeps there, max_iter=3 here"):
            fitted(views, checkpoint=path, max_iter=3)


KILLED = """
    import sys, time, warnings
    import numpy as np
    from manyview import MMC
    from manyview.mmc import fit as sweeps
    real = sweeps.sweep

    def slow(*args, **options):
        time.sleep(0.05)
        return real(*args, **options)

    sweeps.sweep = slow
    warnings.simplefilter("ignore")
    with np.load(sys.argv[1]) as views:
        views = [views["a"], views["b"]]
    MMC(3, random_state=0, max_iter=400, tol=0.0, patience=None, checkpoint=sys.argv[2]).fit(views)
"""


def test_a_killed_process_goes_on(tmp_path, path):
    views = made()
    np.savez(tmp_path / "views.npz", a=views[0], b=views[1])
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path / "views.npz"), str(path)]
    )
    try:
        deadline = time.monotonic() + 60
        while not Path(f"{path}.previous").exists() and time.monotonic() < deadline:
            assert child.poll() is None
            time.sleep(0.01)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    with np.load(path) as archive:
        done = len(json.loads(archive["header"].tobytes())["objective"])
    assert 1 <= done < 400  # the second may not have taken its place yet
    found, whole = (fitted(views, max_iter=done + 3, checkpoint=file) for file in (path, None))
    np.testing.assert_array_equal(found.labels_, whole.labels_)
    np.testing.assert_allclose(found.objective_, whole.objective_, rtol=1e-9)


def test_the_parameters_are_those_of_an_estimator(path):
    model = clone(MMC(3, checkpoint=path, checkpoint_every=4))
    assert model.get_params()["checkpoint"] == path
    assert model.get_params()["checkpoint_every"] == 4
    assert MMC(3).checkpoint is None
