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
from manyview.exceptions import InterruptWarning
from manyview.mmc import checkpoint as checkpoint_file
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


@pytest.fixture
def path_checkpoint_file(tmp_path):
    return tmp_path / "fit.checkpoint"


@pytest.fixture
def interrupted_checkpoint_file(path_checkpoint_file, monkeypatch):
    """A checkpoint after three of seven sweeps, and the views that it is of."""
    views = made()
    crashed(monkeypatch, views, checkpoint=path_checkpoint_file)
    return views


class TestRefusals:
    @pytest.mark.parametrize(
        ("changed", "told"),
        [
            ({"random_state": 1}, "random_state=0 there, random_state=1 here"),
            ({"random_state": None}, "random_state=0 there, random_state=None here"),
            ({"gamma": 0.02}, "gamma=None there, gamma=0.02 here"),
            ({"rank": 7}, "rank=20 there, rank=7 here"),
            ({"penalty": "frobenius"}, "penalty='l21' there, penalty='frobenius' here"),
            ({"indicator": "orthogonal"}, "indicator='discrete' there"),
            ({"order": 1}, "order=None there, order=1 here"),
            ({"normalize": None}, "normalize='rows' there, normalize=None here"),
            ({"init": "kmeans"}, "init='graph' there, init='kmeans' here"),
            ({"init": np.arange(150) % 3}, "init='graph' there, init='array "),
            ({"tol": 0.1}, r"tol=0\.0 there, tol=0\.1 here"),
            ({"patience": 3}, "patience=None there, patience=3 here"),
            ({"n_clusters": 4}, "n_clusters=3 there, n_clusters=4 here"),
        ],
    )
    def test_other_parameters(
        self, path_checkpoint_file, interrupted_checkpoint_file, changed, told
    ):
        kept = path_checkpoint_file.read_bytes()
        with pytest.raises(ValueError, match=f"is of another fit: .*{told}"):
            fitted(interrupted_checkpoint_file, checkpoint=path_checkpoint_file, **changed)
        assert path_checkpoint_file.read_bytes() == kept

    def test_another_start_that_was_given(self, path_checkpoint_file, monkeypatch):
        views = made()
        crashed(monkeypatch, views, checkpoint=path_checkpoint_file, init=np.arange(150) % 3)
        with pytest.raises(ValueError, match=r"init='array .*there, init='array .* here"):
            fitted(views, checkpoint=path_checkpoint_file, init=np.arange(150)[::-1] % 3)

    def test_a_start_may_be_a_tensor(self, path_checkpoint_file):
        torch = pytest.importorskip("torch")
        start = torch.eye(3, requires_grad=True)[torch.arange(150) % 3]
        given = np.asarray(start.detach())
        views = made()
        other = path_checkpoint_file.with_name("other")
        assert_identical(
            fitted(views, checkpoint=path_checkpoint_file, init=start),
            fitted(views, checkpoint=other, init=given),
        )

    def test_another_generator(self, path_checkpoint_file, monkeypatch):
        views = made()
        crashed(
            monkeypatch,
            views,
            checkpoint=path_checkpoint_file,
            random_state=np.random.RandomState(0),
        )
        with pytest.raises(ValueError, match="random_state='RandomState"):
            fitted(views, checkpoint=path_checkpoint_file, random_state=np.random.RandomState(1))
        fitted(views, checkpoint=path_checkpoint_file, random_state=np.random.RandomState(0))

    @pytest.mark.parametrize("row", [0, 1, 75, 149])
    def test_other_data_of_the_same_shape(
        self, path_checkpoint_file, interrupted_checkpoint_file, row
    ):
        other = [X.copy() for X in interrupted_checkpoint_file]
        other[1][row, 4] += 0.01
        with pytest.raises(ValueError, match="of another fit: view 'view1' holds other numbers"):
            fitted(other, checkpoint=path_checkpoint_file)

    def test_other_shapes(self, path_checkpoint_file, interrupted_checkpoint_file):
        with pytest.raises(ValueError, match="150 samples there, 149 here"):
            fitted([X[1:] for X in interrupted_checkpoint_file], checkpoint=path_checkpoint_file)
        with pytest.raises(ValueError, match="'view1' has 9 features there, 8 here"):
            fitted(
                [interrupted_checkpoint_file[0], interrupted_checkpoint_file[1][:, 1:]],
                checkpoint=path_checkpoint_file,
            )
        with pytest.raises(ValueError, match="2 views there, 1 here"):
            fitted(interrupted_checkpoint_file[:1], checkpoint=path_checkpoint_file)

    def test_another_precision(self, path_checkpoint_file, interrupted_checkpoint_file):
        with pytest.raises(ValueError, match="precision='float64' there, precision='float32'"):
            fitted(
                [X.astype(np.float32) for X in interrupted_checkpoint_file],
                checkpoint=path_checkpoint_file,
            )

    def test_the_same_data_in_another_form_are_the_same(
        self, path_checkpoint_file, interrupted_checkpoint_file, monkeypatch
    ):
        calls = sweeps_made(monkeypatch)
        fitted(
            [
                sp.csr_array(interrupted_checkpoint_file[0]),
                np.asfortranarray(interrupted_checkpoint_file[1]),
            ],
            checkpoint=path_checkpoint_file,
        )
        assert len(calls) == 4

    def test_several_starts(self, path_checkpoint_file, monkeypatch):
        monkeypatch.setattr("manyview.base.as_views", None)  # before any work
        with pytest.raises(ValueError, match=r"n_init=3: a checkpoint is of one start"):
            fitted(made(), checkpoint=path_checkpoint_file, n_init=3)
        assert not path_checkpoint_file.exists()

    @pytest.mark.parametrize("where", ["missing/fit", "file/fit", ".", "circle"])
    def test_a_path_that_cannot_be_written(self, tmp_path, monkeypatch, where):
        (tmp_path / "circle").symlink_to(tmp_path / "circle")
        monkeypatch.setattr("manyview.base.as_views", None)  # before any work
        (tmp_path / "file").write_text("")
        with pytest.raises(OSError, match=r"checkpoint '.*' cannot be written"):
            fitted(made(), checkpoint=tmp_path / where)

    @pytest.mark.parametrize("value", [3, 1.5, ["a"]])
    def test_what_is_no_path(self, value):
        with pytest.raises(ValueError, match="'checkpoint' parameter of MMC"):
            fitted(made(), checkpoint=value)

    @pytest.mark.parametrize("value", [0, -1, 1.5, None])
    def test_what_is_no_number_of_sweeps(self, path_checkpoint_file, value):
        with pytest.raises(ValueError, match="'checkpoint_every' parameter of MMC"):
            fitted(made(), checkpoint=path_checkpoint_file, checkpoint_every=value)


class TestDamage:
    @pytest.mark.parametrize("part", [0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.9999])
    def test_of_a_truncated_file(
        self, path_checkpoint_file, interrupted_checkpoint_file, part, monkeypatch
    ):
        whole = fitted(interrupted_checkpoint_file)
        kept = path_checkpoint_file.read_bytes()
        path_checkpoint_file.write_bytes(kept[: int(part * len(kept))])
        calls = sweeps_made(monkeypatch)
        with pytest.warns(UserWarning, match=r"cannot be used: .*\.previous', after 2 sweeps"):
            found = fitted(interrupted_checkpoint_file, checkpoint=path_checkpoint_file)
        assert len(calls) == 5
        np.testing.assert_array_equal(found.labels_, whole.labels_)
        np.testing.assert_allclose(found.objective_, whole.objective_, rtol=1e-9)

    @pytest.mark.parametrize("part", [0.0, 0.5, 0.99])
    def test_of_both_files(self, path_checkpoint_file, interrupted_checkpoint_file, part):
        for file in (path_checkpoint_file, Path(f"{path}.previous")):
            kept = file.read_bytes()
            file.write_bytes(kept[: int(part * len(kept))])
        with pytest.raises(ValueError, match=r"fit\.checkpoint' cannot be used: it is damaged"):
            fitted(interrupted_checkpoint_file, checkpoint=path_checkpoint_file)

    def test_anywhere_in_the_file_is_never_a_crash(
        self, path_checkpoint_file, interrupted_checkpoint_file
    ):
        Path(f"{path}.previous").unlink()
        kept = path_checkpoint_file.read_bytes()
        rng = np.random.default_rng(0)
        for at in rng.choice(len(kept), 60, replace=False):
            path_checkpoint_file.write_bytes(kept[:at] + bytes([kept[at] ^ 0xFF]) + kept[at + 1 :])
            told = []
            try:
                fitted(interrupted_checkpoint_file, checkpoint=path_checkpoint_file, max_iter=3)
            except ValueError as error:
                told.append(str(error))
            assert all(str(path_checkpoint_file) in message for message in told)

    @pytest.mark.parametrize(
        "content",
        [
            {"X0": np.eye(3)},
            {"header": np.eye(3)},
            {"header": np.frombuffer(b'{"format": "another", "version": 1}', np.uint8)},
            {"header": np.frombuffer(b"[1, 2]", np.uint8)},
            {"header": np.array([{}], dtype=object)},
        ],
    )
    def test_an_archive_of_something_else(self, path_checkpoint_file, content):
        with path_checkpoint_file.open("wb") as file:
            np.savez(file, **content)
        kept = path_checkpoint_file.read_bytes()
        with pytest.raises(ValueError, match=r"fit\.checkpoint' cannot be used"):
            fitted(made(), checkpoint=path_checkpoint_file)
        assert path_checkpoint_file.read_bytes() == kept

    def test_a_later_version(self, path_checkpoint_file, interrupted_checkpoint_file, monkeypatch):
        monkeypatch.setattr(checkpoint_file, "_FORM", checkpoint_file._FORM._replace(version=4))
        with pytest.raises(ValueError, match=r"version 3; expected .* 4"):
            fitted(interrupted_checkpoint_file, checkpoint=path_checkpoint_file)

    def test_a_table_of_text(self, path_checkpoint_file):
        path_checkpoint_file.write_text("sample,label\n0,1\n")
        with pytest.raises(ValueError, match=r"fit\.checkpoint' cannot be used"):
            fitted(made(), checkpoint=path_checkpoint_file)

    @pytest.mark.parametrize(
        ("part", "change", "told"),
        [
            ("labels", lambda labels: labels + 5, "do not belong together"),
            ("labels", lambda labels: labels[1:], "do not belong together"),
            ("view_factor1", lambda factor: factor[:-1], "do not belong together"),
            ("cluster_factor", lambda factor: factor[0], "are not those of a checkpoint"),
            ("columns0", lambda columns: None, "some of its arrays are not there"),
        ],
    )
    def test_of_a_part_that_is_none(
        self, path_checkpoint_file, interrupted_checkpoint_file, part, change, told
    ):
        with np.load(path_checkpoint_file) as archive:
            members = dict(archive)
        members[part] = change(members[part])
        if members[part] is None:
            del members[part]
        with path_checkpoint_file.open("wb") as file:
            np.savez(file, **members)
        Path(f"{path}.previous").unlink()
        with pytest.raises(ValueError, match=told):
            fitted(interrupted_checkpoint_file, checkpoint=path_checkpoint_file)

    def test_of_another_fit_with_a_previous_one_of_another_fit(
        self, path_checkpoint_file, interrupted_checkpoint_file
    ):
        path_checkpoint_file.write_bytes(b"")
        with pytest.raises(ValueError, match="is of another fit: random_state=0 there"):
            fitted(interrupted_checkpoint_file, checkpoint=path_checkpoint_file, random_state=5)
        assert path_checkpoint_file.read_bytes() == b""


class TestWriting:
    @pytest.mark.parametrize(
        ("owner", "step", "last"),  # the call that fails
        [
            (np, "savez", 4),
            (os, "fsync", 4),  # of the folder
            (os, "fsync", 5),  # of the file
            (os, "link", 3),
            (Path, "replace", 4),  # of the previous one
            (Path, "replace", 5),
        ],
    )
    @pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
    def test_a_failure_at_any_step_leaves_a_good_file(
        self, path_checkpoint_file, monkeypatch, owner, step, last, error
    ):
        views = made()
        whole = fitted(views)
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
            fitted(views, checkpoint=path_checkpoint_file)
        assert len(calls) >= last
        assert sorted(file.name for file in path_checkpoint_file.parent.iterdir()) == [
            "fit.checkpoint",
            "fit.checkpoint.previous",
        ]
        found = fitted(views, checkpoint=path_checkpoint_file)
        np.testing.assert_array_equal(found.labels_, whole.labels_)
        np.testing.assert_allclose(found.objective_, whole.objective_, rtol=1e-9)

    def test_a_disk_that_is_full_costs_a_checkpoint_and_not_the_fit(
        self, path_checkpoint_file, monkeypatch
    ):
        views = made()
        whole = fitted(views)

        def full(*args, **options):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(np, "savez", full)
        told = rf"checkpoint '{path}' could not be written after \d+ sweeps: No space left"
        with pytest.warns(UserWarning, match=told):
            found = fitted(views, checkpoint=path_checkpoint_file)
        np.testing.assert_array_equal(found.labels_, whole.labels_)
        assert not list(path_checkpoint_file.parent.iterdir())

    def test_another_fit_that_begins_meanwhile_does_no_harm(
        self, path_checkpoint_file, monkeypatch
    ):
        write = np.savez

        def begun_meanwhile(*args, **members):
            checkpoint_file.writable(path_checkpoint_file)
            write(*args, **members)

        monkeypatch.setattr(np, "savez", begun_meanwhile)
        fitted(made(), checkpoint=path_checkpoint_file)
        assert sorted(entry.name for entry in path_checkpoint_file.parent.iterdir()) == [
            path_checkpoint_file.name,
            f"{path.name}.previous",
        ]

    def test_through_a_link(self, tmp_path, path_checkpoint_file, monkeypatch):
        link = tmp_path / "link"
        link.symlink_to(path_checkpoint_file)
        crashed(monkeypatch, made(), checkpoint=link)
        assert link.is_symlink()
        assert path_checkpoint_file.is_file()

    def test_where_the_working_folder_changes(self, tmp_path, path_checkpoint_file, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "other").mkdir()
        write = np.savez

        def leaving(*args, **members):
            os.chdir(tmp_path / "other")
            write(*args, **members)

        monkeypatch.setattr(np, "savez", leaving)
        fitted(made(), checkpoint=path_checkpoint_file.name)
        assert path_checkpoint_file.is_file()

    def test_without_links_between_files(self, path_checkpoint_file, monkeypatch):
        def no_link(*args):
            raise OSError("not supported")

        monkeypatch.setattr(os, "link", no_link)
        crashed(monkeypatch, made(), checkpoint=path_checkpoint_file)
        for file, done in ((path_checkpoint_file, 3), (Path(f"{path}.previous"), 2)):
            with np.load(file) as archive:
                assert len(json.loads(archive["header"].tobytes())["objective"]) == done

    def test_holds_no_pickles_and_labels_of_four_bytes(
        self, path_checkpoint_file, interrupted_checkpoint_file
    ):
        with np.load(path_checkpoint_file, allow_pickle=False) as archive:
            members = dict(archive)
        assert all(member.dtype.kind in "fiu" for member in members.values())
        assert members["labels"].dtype == np.int32
        assert "indicator" not in members

    def test_nothing_is_written_unless_asked_for(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        fitted(made())
        assert not list(tmp_path.iterdir())
