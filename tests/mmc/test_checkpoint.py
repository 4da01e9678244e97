"""Checkpoints: a fit that ends early resumes with the result of an uninterrupted one."""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from manyview import MMC, as_views
from manyview.datasets import make_views
from manyview.exceptions import InterruptWarning
from manyview.mmc import solver
from manyview.mmc.checkpoint import previous_of, writable
from manyview.views import fill_unknown
from tests.engine.places import PLACES, fetched

INDICATORS = [("leave-one-out", False), ("discrete", False), ("orthogonal", True)]
OPTIONS = {"n_clusters": 3, "random_state": 0, "max_iter": 7, "tol": 0.0, "patience": None}


def made(n=60, *, sparse=False, dtype=np.float64, seed=0):
    arrays = [np.asarray(X, dtype) for X in make_views(n, 3, (12, 9), random_state=seed).views]
    return [sp.csr_array(np.where(X > 0, X, 0)) for X in arrays] if sparse else arrays


def fitted(views, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MMC(**(OPTIONS | options)).fit(views)


def n_iterations(path):
    """Return the number of iterations that a checkpoint file records."""
    with np.load(path) as archive:
        return len(json.loads(archive["header"].tobytes())["objective"])


def assert_identical(found, expected):
    np.testing.assert_array_equal(fetched(found.labels_), fetched(expected.labels_))
    np.testing.assert_array_equal(found.objective_, expected.objective_)
    np.testing.assert_array_equal(fetched(found.indicator_), fetched(expected.indicator_))
    for ours, theirs in zip(found.view_factors_, expected.view_factors_, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def assert_same_path(found, expected):
    """Equal up to rounding: a fit with checkpoints projects again at each."""
    np.testing.assert_array_equal(fetched(found.labels_), fetched(expected.labels_))
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-9)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.checkpoint"


@pytest.fixture
def ended_early(path):
    """The views of a checkpoint after three of seven iterations."""
    views = made()
    fitted(views, checkpoint=path, max_iter=3)
    return views


@pytest.fixture
def fail_in_iteration(monkeypatch):
    """Let the n-th iteration from now fail half-way."""

    def fail(number, error):
        real, calls = solver.updated_cluster_factor, []

        def failing(*args, **options):
            calls.append(1)
            if len(calls) == number:
                raise error
            return real(*args, **options)

        monkeypatch.setattr(solver, "updated_cluster_factor", failing)

    return fail


class TestResuming:
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"indicator": "discrete"},
            {"indicator": "discrete", "init": "random"},
            {"indicator": "orthogonal"},
            {"penalty": "frobenius"},
            {"normalize": "columns", "init": "kmeans"},
            {"normalize": None, "init": "random"},
            {"init": np.arange(60) % 3},
            {"dtype": np.float32},
            {"dtype": np.float32, "sparse": True, "indicator": "orthogonal"},
        ],
    )
    def test_ends_like_an_uninterrupted_fit(self, tmp_path, path, options):
        dtype, sparse = options.get("dtype", np.float64), options.get("sparse", False)
        options = {name: options[name] for name in options if name not in ("dtype", "sparse")}
        views = made(sparse=sparse, dtype=dtype)
        whole = fitted(views, checkpoint=tmp_path / "other", **options)
        fitted(views, checkpoint=path, max_iter=3, **options)
        found = fitted(views, checkpoint=path, **options)
        assert_identical(found, whole)
        without = fitted(views, **options)
        np.testing.assert_array_equal(found.labels_, without.labels_)
        rtol = 1e-9 if dtype is np.float64 else 1e-3
        np.testing.assert_allclose(found.objective_, without.objective_, rtol=rtol)

    def test_after_a_crash_within_an_iteration(self, tmp_path, path, fail_in_iteration):
        views = made()
        whole = fitted(views, checkpoint=tmp_path / "other")
        fail_in_iteration(4, RuntimeError("crash"))
        with pytest.raises(RuntimeError, match="crash"):
            fitted(views, checkpoint=path)
        assert n_iterations(path) == 3
        assert_identical(fitted(views, checkpoint=path), whole)

    def test_after_an_interrupt_with_a_result(self, path, fail_in_iteration):
        views = made()
        whole = fitted(views)
        fail_in_iteration(4, KeyboardInterrupt)
        with pytest.warns(InterruptWarning, match="3 iterations"):
            MMC(**OPTIONS, checkpoint=path).fit(views)
        assert_same_path(fitted(views, checkpoint=path), whole)

    def test_repeats_no_iteration(self, path, ended_early, capsys):
        fitted(ended_early, checkpoint=str(path), verbose=1)
        first, *_ = capsys.readouterr().err.splitlines()
        assert " 4/7 " in first

    def test_one_iteration_at_a_time(self, tmp_path, path):
        views = made()
        for max_iter in range(1, 7):
            fitted(views, checkpoint=path, max_iter=max_iter)
        found, whole = (fitted(views, checkpoint=file) for file in (path, tmp_path / "other"))
        assert_identical(found, whole)

    def test_with_dropped_features(self, tmp_path, path):
        noise = np.random.default_rng(1).standard_normal((150, 60))
        views = [made(150)[0], noise]
        options = {"gamma": 0.1, "max_iter": 12}
        whole = fitted(views, checkpoint=tmp_path / "other", **options)
        fitted(views, checkpoint=path, **(options | {"max_iter": 9}))
        with np.load(path) as archive:
            assert 0 < archive["active1"].size < 30
        assert_identical(fitted(views, checkpoint=path, **options), whole)

    def test_with_missing_views(self, tmp_path, path):
        present = np.random.default_rng(0).random((60, 2)) < 0.8
        present[~present.any(axis=1)] = True
        views = as_views(made(), present=present)
        whole = fitted(views, checkpoint=tmp_path / "other")
        fitted(views, checkpoint=path, max_iter=3)
        assert_identical(fitted(views, checkpoint=path), whole)
        present[0] = ~present[0] if present[0].sum() == 1 else [True, False]
        with pytest.raises(ValueError, match="missing views"):
            fitted(as_views(made(), present=present), checkpoint=path)

    @pytest.mark.parametrize(("every", "kept"), [(1, 5), (2, 4), (100, None)])
    def test_from_the_last_checkpoint(self, path, fail_in_iteration, every, kept):
        views = made()
        whole = fitted(views)
        fail_in_iteration(6, RuntimeError)
        with pytest.raises(RuntimeError):
            fitted(views, checkpoint=path, checkpoint_every=every)
        assert (n_iterations(path) if path.exists() else None) == kept
        assert_same_path(fitted(views, checkpoint=path, checkpoint_every=every), whole)

    def test_without_a_seed_random_numbers_continue(self, path):
        views = made()
        options = {"random_state": None, "init": "random", "indicator": "orthogonal"}
        fitted(views, checkpoint=path, max_iter=3, **options)
        kept = path.read_bytes()
        first = fitted(views, checkpoint=path, **options)
        path.write_bytes(kept)
        assert_identical(fitted(views, checkpoint=path, **options), first)

    def test_with_more_threads_and_for_prediction(self, path, ended_early):
        found, whole = fitted(ended_early, checkpoint=path, n_jobs=2), fitted(ended_early)
        np.testing.assert_array_equal(found.labels_, whole.labels_)
        new = made(40, seed=3)
        np.testing.assert_array_equal(found.predict(new), whole.predict(new))


@pytest.mark.parametrize("place", PLACES)
class TestEveryEngine:
    @pytest.mark.parametrize(("indicator", "sparse"), INDICATORS)
    def test_resumes(self, tmp_path, path, place, indicator, sparse):
        views = [PLACES[place](X) for X in made(sparse=sparse)]
        whole = fitted(views, checkpoint=tmp_path / "other", indicator=indicator)
        fitted(views, checkpoint=path, indicator=indicator, max_iter=3)
        assert_same_path(fitted(views, checkpoint=path, indicator=indicator), whole)

    @pytest.mark.parametrize("value", [0.0, np.nan])
    def test_resumes_what_began_locally(self, path, place, value):
        """Whatever the rows of missing views hold."""
        here, present = made(), np.arange(60)[:, None] % 5 != np.array([0, 1])
        fitted(as_views(here, present=present), checkpoint=path, max_iter=3)
        there = [np.where(has[:, None], X, value) for X, has in zip(here, present.T, strict=True)]
        views = as_views([PLACES[place](X) for X in there], present=present)
        expected = fitted(as_views(here, present=present))
        found = fitted(views, checkpoint=path)
        np.testing.assert_array_equal(fetched(found.labels_), expected.labels_)

    def test_unknown_cells_are_other_data_than_their_means(self, path, place):
        if place == "dask":
            pytest.skip("Dask arrays have no unknown cells")
        here = made()
        here[0][::3, 2] = np.nan
        whole = fitted([PLACES[place](X) for X in here])
        fitted([PLACES[place](X) for X in here], checkpoint=path, max_iter=3)
        assert_same_path(fitted([PLACES[place](X) for X in here], checkpoint=path), whole)
        here[0] = fill_unknown(as_views(here)).arrays[0]
        with pytest.raises(ValueError, match="view0"):
            fitted([PLACES[place](X) for X in here], checkpoint=path)

    def test_rejects_other_data(self, path, place):
        here = made()
        fitted([PLACES[place](X) for X in here], checkpoint=path, max_iter=3)
        here[0][5, 5] += 0.01
        with pytest.raises(ValueError, match="view0"):
            fitted([PLACES[place](X) for X in here], checkpoint=path)


class TestFinishedFit:
    @pytest.mark.parametrize("options", [{}, {"tol": 0.05, "max_iter": 50}, {"patience": 1}])
    @pytest.mark.parametrize("indicator", ["leave-one-out", "discrete", "orthogonal"])
    def test_has_the_same_result_without_an_iteration(self, path, capsys, options, indicator):
        views = made()
        first = fitted(views, checkpoint=path, indicator=indicator, **options)
        again = fitted(views, checkpoint=path, indicator=indicator, verbose=1, **options)
        assert capsys.readouterr().err == ""
        assert_identical(again, first)
        np.testing.assert_array_equal(again.transform(views), first.transform(views))

    def test_warns_again_that_it_has_not_converged(self, path):
        views = made()
        for _ in range(2):
            with pytest.warns(ConvergenceWarning, match="max_iter=7"):
                MMC(**OPTIONS, checkpoint=path).fit(views)

    def test_rejects_fewer_iterations(self, path, ended_early):
        with pytest.raises(ValueError, match=r"3 iterations .*max_iter=2"):
            fitted(ended_early, checkpoint=path, max_iter=2)


KILLED = """
    import sys, warnings
    import numpy as np
    from manyview import MMC
    warnings.simplefilter("ignore")
    with np.load(sys.argv[1]) as views:
        views = [views["a"], views["b"]]
    MMC(3, random_state=0, max_iter=4000, tol=0.0, patience=None, checkpoint=sys.argv[2]).fit(views)
"""


@pytest.mark.slow
def test_a_killed_process_resumes(tmp_path, path):
    views = made()
    np.savez(tmp_path / "views.npz", a=views[0], b=views[1])
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path / "views.npz"), str(path)]
    )
    try:
        deadline = time.monotonic() + 60
        while not previous_of(path).exists() and time.monotonic() < deadline:
            assert child.poll() is None
            time.sleep(0.01)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    done = n_iterations(path)
    assert 1 <= done < 4000
    found, whole = (fitted(views, max_iter=done + 3, checkpoint=file) for file in (path, None))
    np.testing.assert_array_equal(found.labels_, whole.labels_)
    np.testing.assert_allclose(found.objective_, whole.objective_, rtol=1e-9)


def test_the_parameters_are_those_of_an_estimator(path):
    model = clone(MMC(3, checkpoint=path, checkpoint_every=4))
    assert model.get_params()["checkpoint"] == path
    assert model.get_params()["checkpoint_every"] == 4
    assert MMC(3).checkpoint is None


class TestRejections:
    @pytest.mark.parametrize(
        ("changed", "name"),
        [
            ({"random_state": 1}, "random_state=1"),
            ({"random_state": None}, "random_state=None"),
            ({"gamma": 0.02}, "gamma=0.02"),
            ({"rank": 7}, "rank=7"),
            ({"indicator": "orthogonal"}, "indicator='orthogonal'"),
            ({"init": np.arange(60) % 3}, "init='array "),
            ({"n_clusters": 4}, "n_clusters=4"),
        ],
    )
    def test_other_parameters(self, path, ended_early, changed, name):
        kept = path.read_bytes()
        with pytest.raises(ValueError, match=rf"fit\.checkpoint.*{name}"):
            fitted(ended_early, checkpoint=path, **changed)
        assert path.read_bytes() == kept

    def test_another_scaling_than_the_one_that_was_chosen(self, path):
        rng = np.random.default_rng(0)
        views = [np.arange(60)[:, None] % 3 * 9.0 + rng.standard_normal((60, 4)) for _ in "ab"]
        first = fitted(views, normalize="auto", checkpoint=path, max_iter=3)
        assert set(first.normalize_.values()) == {"columns"}
        with pytest.raises(ValueError, match="normalize="):
            fitted(views, normalize="rows", checkpoint=path)
        resumed = fitted(views, normalize="columns", checkpoint=path)
        np.testing.assert_array_equal(resumed.labels_, first.labels_)
        np.testing.assert_array_equal(resumed.objective_[:3], first.objective_)

    def test_another_given_initialisation(self, path):
        views = made()
        fitted(views, checkpoint=path, max_iter=3, init=np.arange(60) % 3)
        with pytest.raises(ValueError, match="init='array"):
            fitted(views, checkpoint=path, init=np.arange(60)[::-1] % 3)

    def test_another_generator(self, path):
        views = made()
        fitted(views, checkpoint=path, max_iter=3, random_state=np.random.RandomState(0))
        with pytest.raises(ValueError, match="random_state='RandomState"):
            fitted(views, checkpoint=path, random_state=np.random.RandomState(1))
        fitted(views, checkpoint=path, random_state=np.random.RandomState(0))

    @pytest.mark.parametrize("row", [0, 2, 149])
    def test_other_data_of_the_same_shape(self, path, row):
        """Whether the row is among the hundred that are compared or not."""
        views = made(150)
        fitted(views, checkpoint=path, max_iter=1)
        views[1][row, 4] += 0.01
        with pytest.raises(ValueError, match="view1"):
            fitted(views, checkpoint=path)

    def test_other_shapes(self, path, ended_early):
        with pytest.raises(ValueError, match=r"60 samples .*59"):
            fitted([X[1:] for X in ended_early], checkpoint=path)
        with pytest.raises(ValueError, match=r"'view1' has 9 features .*8"):
            fitted([ended_early[0], ended_early[1][:, 1:]], checkpoint=path)
        with pytest.raises(ValueError, match=r"2 views .*1"):
            fitted(ended_early[:1], checkpoint=path)

    def test_another_precision(self, path, ended_early):
        with pytest.raises(ValueError, match="precision='float32'"):
            fitted([X.astype(np.float32) for X in ended_early], checkpoint=path)

    def test_the_same_data_in_another_form_are_accepted(self, path):
        views = made()
        fitted(views, normalize="rows", checkpoint=path, max_iter=3)
        other = [sp.csr_array(views[0]), np.asfortranarray(views[1])]
        found = fitted(other, normalize="rows", checkpoint=path)
        np.testing.assert_array_equal(found.labels_, fitted(views, normalize="rows").labels_)

    def test_an_initialisation_may_be_a_tensor(self, path):
        torch = pytest.importorskip("torch")
        start = torch.eye(3, requires_grad=True)[torch.arange(60) % 3]
        views = made()
        first = fitted(views, checkpoint=path, init=np.asarray(start.detach()))
        assert_identical(fitted(views, checkpoint=path, init=start), first)

    def test_several_restarts_before_the_views_are_read(self, path):
        with pytest.raises(ValueError, match="n_init=3"):
            fitted("no views", checkpoint=path, n_init=3)
        assert not path.exists()

    @pytest.mark.parametrize("where", ["missing/fit", "file/fit", ".", "circle"])
    def test_an_unwritable_path_before_the_views_are_read(self, tmp_path, where):
        (tmp_path / "circle").symlink_to(tmp_path / "circle")
        (tmp_path / "file").write_text("")
        with pytest.raises(OSError, match=r"checkpoint '.*' cannot be written"):
            fitted("no views", checkpoint=tmp_path / where)

    @pytest.mark.parametrize(("name", "value"), [("checkpoint", 3), ("checkpoint_every", 0)])
    def test_invalid_parameters(self, path, name, value):
        with pytest.raises(ValueError, match=f"'{name}' parameter of MMC"):
            fitted(made(), **({"checkpoint": path} | {name: value}))


class TestDamage:
    @pytest.mark.parametrize("part", [0.0, 0.5, 0.9999])
    def test_of_the_file_resumes_from_the_previous_one(self, path, ended_early, part):
        kept = path.read_bytes()
        path.write_bytes(kept[: int(part * len(kept))])
        with pytest.warns(UserWarning, match=r"fit\.checkpoint.*\.previous', after 2 iterations"):
            found = fitted(ended_early, checkpoint=path)
        assert_same_path(found, fitted(ended_early))

    def test_of_both_files_raises(self, path, ended_early):
        for file in (path, previous_of(path)):
            file.write_bytes(file.read_bytes()[:1000])
        with pytest.raises(ValueError, match=r"fit\.checkpoint"):
            fitted(ended_early, checkpoint=path)

    @pytest.mark.slow
    def test_anywhere_in_the_file_names_it(self, path, ended_early):
        previous_of(path).unlink()
        kept = path.read_bytes()
        messages = []
        for at in np.random.default_rng(0).choice(len(kept), 60, replace=False):
            path.write_bytes(kept[:at] + bytes([kept[at] ^ 0xFF]) + kept[at + 1 :])
            try:
                fitted(ended_early, checkpoint=path, max_iter=3)
            except ValueError as error:
                messages.append(str(error))
        assert messages
        assert all(str(path) in message for message in messages)

    @pytest.mark.parametrize(
        "content",
        [
            {"X0": np.eye(3)},
            {"header": np.eye(3)},
            {"header": np.frombuffer(b'{"format": "another", "version": 1}', np.uint8)},
            {"header": np.array([{}], dtype=object)},
        ],
    )
    def test_an_archive_of_something_else(self, path, content):
        with path.open("wb") as file:
            np.savez(file, **content)
        kept = path.read_bytes()
        with pytest.raises(ValueError, match=r"fit\.checkpoint"):
            fitted(made(), checkpoint=path)
        assert path.read_bytes() == kept

    @staticmethod
    def change(path, changed):
        with np.load(path) as archive:
            members = {**archive, **changed(archive)}
        with path.open("wb") as file:
            np.savez(file, **{name: part for name, part in members.items() if part is not None})
        previous_of(path).unlink()

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("labels", lambda labels: labels + 5),
            ("labels", lambda labels: labels[1:]),
            ("view_factor1", lambda factor: factor[:-1]),
            ("cluster_factor", lambda factor: factor[0]),
            ("columns0", lambda columns: None),
        ],
    )
    def test_parts_that_do_not_match(self, path, ended_early, name, change):
        self.change(path, lambda archive: {name: change(archive[name])})
        with pytest.raises(ValueError, match=r"fit\.checkpoint"):
            fitted(ended_early, checkpoint=path)

    @pytest.mark.parametrize("change", [{"version": 2}, {"n_samples": 7}, {"objective": []}])
    def test_another_header(self, path, ended_early, change):
        def changed(archive):
            header = json.loads(archive["header"].tobytes()) | change
            return {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)}

        self.change(path, changed)
        with pytest.raises(ValueError, match=r"fit\.checkpoint"):
            fitted(ended_early, checkpoint=path)

    def test_with_a_previous_file_of_another_fit(self, path, ended_early):
        path.write_bytes(b"")
        with pytest.raises(ValueError, match="random_state=5"):
            fitted(ended_early, checkpoint=path, random_state=5)
        assert path.read_bytes() == b""


class TestWriting:
    @pytest.mark.parametrize(
        ("owner", "step", "last"),  # the call that fails
        [
            (np, "savez", 4),
            pytest.param(os, "fsync", 4, marks=pytest.mark.slow),  # of the folder
            pytest.param(os, "fsync", 5, marks=pytest.mark.slow),  # of the file
            (os, "link", 3),
            (Path, "replace", 4),  # of the previous one
            pytest.param(Path, "replace", 5, marks=pytest.mark.slow),
        ],
    )
    @pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
    def test_a_failure_at_any_step_leaves_a_valid_file(
        self, path, monkeypatch, owner, step, last, error
    ):
        views = made()
        real, calls = getattr(owner, step), []

        def failing(*args, **options):
            calls.append(1)
            if len(calls) == last:
                if step == "savez":
                    args[0].write(b"PK")
                raise error
            return real(*args, **options)

        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            patch.setattr(owner, step, failing)
            fitted(views, checkpoint=path)
        assert len(calls) >= last
        assert sorted(path.parent.iterdir()) == [path, previous_of(path)]
        assert_same_path(fitted(views, checkpoint=path), fitted(views))

    def test_a_full_disk_warns_and_the_fit_continues(self, path, monkeypatch):
        views = made()

        def full(*args, **options):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(np, "savez", full)
        with pytest.warns(UserWarning, match=r"fit\.checkpoint.*: No space left"):
            found = fitted(views, checkpoint=path)
        np.testing.assert_array_equal(found.labels_, fitted(views).labels_)
        assert not list(path.parent.iterdir())

    def test_another_fit_that_begins_meanwhile_does_no_harm(self, path, monkeypatch):
        write = np.savez

        def begun_meanwhile(*args, **members):
            writable(path)
            write(*args, **members)

        monkeypatch.setattr(np, "savez", begun_meanwhile)
        fitted(made(), checkpoint=path)
        assert sorted(path.parent.iterdir()) == [path, previous_of(path)]

    def test_through_a_link(self, tmp_path, path):
        link = tmp_path / "link"
        link.symlink_to(path)
        fitted(made(), checkpoint=link, max_iter=2)
        assert link.is_symlink()
        assert path.is_file()

    def test_in_the_folder_in_which_the_fit_began(self, tmp_path, path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "other").mkdir()
        write = np.savez

        def leaving(*args, **members):
            os.chdir(tmp_path / "other")
            write(*args, **members)

        monkeypatch.setattr(np, "savez", leaving)
        fitted(made(), checkpoint=path.name, max_iter=2)
        assert path.is_file()

    def test_on_a_file_system_without_links(self, path, monkeypatch):
        def no_link(*args):
            raise OSError("not supported")

        monkeypatch.setattr(os, "link", no_link)
        fitted(made(), checkpoint=path, max_iter=3)
        assert (n_iterations(path), n_iterations(previous_of(path))) == (3, 2)

    def test_has_no_pickles_and_labels_of_four_bytes(self, path, ended_early):
        with np.load(path, allow_pickle=False) as archive:
            members = dict(archive)
        assert all(member.dtype.kind in "fiu" for member in members.values())
        assert members["labels"].dtype == np.int32
        assert "indicator" not in members

    def test_nothing_is_written_by_default(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        fitted(made())
        assert not list(tmp_path.iterdir())
