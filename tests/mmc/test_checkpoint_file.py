"""What is refused of a checkpoint, what is done where it is damaged, and how it is written."""

import errno
import json
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from manyview.mmc import checkpoint_file

from .checkpoints import (
    assert_identical,
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
    def test_other_parameters(self, path, interrupted, changed, told):
        kept = path.read_bytes()
        with pytest.raises(ValueError, match=f"is of another fit: .*{told}"):
            fitted(interrupted, checkpoint=path, **changed)
        assert path.read_bytes() == kept

    def test_another_start_that_was_given(self, path, monkeypatch):
        views = made()
        crashed(monkeypatch, views, checkpoint=path, init=np.arange(150) % 3)
        with pytest.raises(ValueError, match=r"init='array .*there, init='array .* here"):
            fitted(views, checkpoint=path, init=np.arange(150)[::-1] % 3)

    def test_a_start_may_be_a_tensor(self, path):
        torch = pytest.importorskip("torch")
        start = torch.eye(3, requires_grad=True)[torch.arange(150) % 3]
        given = np.asarray(start.detach())
        views = made()
        other = path.with_name("other")
        assert_identical(
            fitted(views, checkpoint=path, init=start), fitted(views, checkpoint=other, init=given)
        )

    def test_another_generator(self, path, monkeypatch):
        views = made()
        crashed(monkeypatch, views, checkpoint=path, random_state=np.random.RandomState(0))
        with pytest.raises(ValueError, match="random_state='RandomState"):
            fitted(views, checkpoint=path, random_state=np.random.RandomState(1))
        fitted(views, checkpoint=path, random_state=np.random.RandomState(0))

    @pytest.mark.parametrize("row", [0, 1, 75, 149])
    def test_other_data_of_the_same_shape(self, path, interrupted, row):
        other = [X.copy() for X in interrupted]
        other[1][row, 4] += 0.01
        with pytest.raises(ValueError, match="of another fit: view 'view1' holds other numbers"):
            fitted(other, checkpoint=path)

    def test_other_shapes(self, path, interrupted):
        with pytest.raises(ValueError, match="150 samples there, 149 here"):
            fitted([X[1:] for X in interrupted], checkpoint=path)
        with pytest.raises(ValueError, match="'view1' has 9 features there, 8 here"):
            fitted([interrupted[0], interrupted[1][:, 1:]], checkpoint=path)
        with pytest.raises(ValueError, match="2 views there, 1 here"):
            fitted(interrupted[:1], checkpoint=path)

    def test_another_precision(self, path, interrupted):
        with pytest.raises(ValueError, match="precision='float64' there, precision='float32'"):
            fitted([X.astype(np.float32) for X in interrupted], checkpoint=path)

    def test_the_same_data_in_another_form_are_the_same(self, path, interrupted, monkeypatch):
        calls = sweeps_made(monkeypatch)
        fitted([sp.csr_array(interrupted[0]), np.asfortranarray(interrupted[1])], checkpoint=path)
        assert len(calls) == 4

    def test_several_starts(self, path, monkeypatch):
        monkeypatch.setattr("manyview.base.as_views", None)  # before any work
        with pytest.raises(ValueError, match=r"n_init=3: a checkpoint is of one start"):
            fitted(made(), checkpoint=path, n_init=3)
        assert not path.exists()

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
    def test_what_is_no_number_of_sweeps(self, path, value):
        with pytest.raises(ValueError, match="'checkpoint_every' parameter of MMC"):
            fitted(made(), checkpoint=path, checkpoint_every=value)


class TestDamage:
    @pytest.mark.parametrize("part", [0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.9999])
    def test_of_a_truncated_file(self, path, interrupted, part, monkeypatch):
        whole = fitted(interrupted)
        kept = path.read_bytes()
        path.write_bytes(kept[: int(part * len(kept))])
        calls = sweeps_made(monkeypatch)
        with pytest.warns(UserWarning, match=r"cannot be used: .*\.previous', after 2 sweeps"):
            found = fitted(interrupted, checkpoint=path)
        assert len(calls) == 5
        np.testing.assert_array_equal(found.labels_, whole.labels_)
        np.testing.assert_allclose(found.objective_, whole.objective_, rtol=1e-9)

    @pytest.mark.parametrize("part", [0.0, 0.5, 0.99])
    def test_of_both_files(self, path, interrupted, part):
        for file in (path, Path(f"{path}.previous")):
            kept = file.read_bytes()
            file.write_bytes(kept[: int(part * len(kept))])
        with pytest.raises(ValueError, match=r"fit\.checkpoint' cannot be used: it is damaged"):
            fitted(interrupted, checkpoint=path)

    def test_anywhere_in_the_file_is_never_a_crash(self, path, interrupted):
        Path(f"{path}.previous").unlink()
        kept = path.read_bytes()
        rng = np.random.default_rng(0)
        for at in rng.choice(len(kept), 60, replace=False):
            path.write_bytes(kept[:at] + bytes([kept[at] ^ 0xFF]) + kept[at + 1 :])
            told = []
            try:
                fitted(interrupted, checkpoint=path, max_iter=3)
            except ValueError as error:
                told.append(str(error))
            assert all(str(path) in message for message in told)

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
    def test_an_archive_of_something_else(self, path, content):
        with path.open("wb") as file:
            np.savez(file, **content)
        kept = path.read_bytes()
        with pytest.raises(ValueError, match=r"fit\.checkpoint' cannot be used"):
            fitted(made(), checkpoint=path)
        assert path.read_bytes() == kept

    def test_a_later_version(self, path, interrupted, monkeypatch):
        monkeypatch.setattr(checkpoint_file, "_FORM", checkpoint_file._FORM._replace(version=4))
        with pytest.raises(ValueError, match=r"version 3; expected .* 4"):
            fitted(interrupted, checkpoint=path)

    def test_a_table_of_text(self, path):
        path.write_text("sample,label\n0,1\n")
        with pytest.raises(ValueError, match=r"fit\.checkpoint' cannot be used"):
            fitted(made(), checkpoint=path)

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
    def test_of_a_part_that_is_none(self, path, interrupted, part, change, told):
        with np.load(path) as archive:
            members = dict(archive)
        members[part] = change(members[part])
        if members[part] is None:
            del members[part]
        with path.open("wb") as file:
            np.savez(file, **members)
        Path(f"{path}.previous").unlink()
        with pytest.raises(ValueError, match=told):
            fitted(interrupted, checkpoint=path)

    def test_of_another_fit_with_a_previous_one_of_another_fit(self, path, interrupted):
        path.write_bytes(b"")
        with pytest.raises(ValueError, match="is of another fit: random_state=0 there"):
            fitted(interrupted, checkpoint=path, random_state=5)
        assert path.read_bytes() == b""


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
        self, path, monkeypatch, owner, step, last, error
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
            fitted(views, checkpoint=path)
        assert len(calls) >= last
        assert sorted(file.name for file in path.parent.iterdir()) == [
            "fit.checkpoint",
            "fit.checkpoint.previous",
        ]
        found = fitted(views, checkpoint=path)
        np.testing.assert_array_equal(found.labels_, whole.labels_)
        np.testing.assert_allclose(found.objective_, whole.objective_, rtol=1e-9)

    def test_a_disk_that_is_full_costs_a_checkpoint_and_not_the_fit(self, path, monkeypatch):
        views = made()
        whole = fitted(views)

        def full(*args, **options):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(np, "savez", full)
        told = rf"checkpoint '{path}' could not be written after \d+ sweeps: No space left"
        with pytest.warns(UserWarning, match=told):
            found = fitted(views, checkpoint=path)
        np.testing.assert_array_equal(found.labels_, whole.labels_)
        assert not list(path.parent.iterdir())

    def test_another_fit_that_begins_meanwhile_does_no_harm(self, path, monkeypatch):
        write = np.savez

        def begun_meanwhile(*args, **members):
            checkpoint_file.writable(path)
            write(*args, **members)

        monkeypatch.setattr(np, "savez", begun_meanwhile)
        fitted(made(), checkpoint=path)
        assert sorted(entry.name for entry in path.parent.iterdir()) == [
            path.name,
            f"{path.name}.previous",
        ]

    def test_through_a_link(self, tmp_path, path, monkeypatch):
        link = tmp_path / "link"
        link.symlink_to(path)
        crashed(monkeypatch, made(), checkpoint=link)
        assert link.is_symlink()
        assert path.is_file()

    def test_where_the_working_folder_changes(self, tmp_path, path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "other").mkdir()
        write = np.savez

        def leaving(*args, **members):
            os.chdir(tmp_path / "other")
            write(*args, **members)

        monkeypatch.setattr(np, "savez", leaving)
        fitted(made(), checkpoint=path.name)
        assert path.is_file()

    def test_without_links_between_files(self, path, monkeypatch):
        def no_link(*args):
            raise OSError("not supported")

        monkeypatch.setattr(os, "link", no_link)
        crashed(monkeypatch, made(), checkpoint=path)
        for file, done in ((path, 3), (Path(f"{path}.previous"), 2)):
            with np.load(file) as archive:
                assert len(json.loads(archive["header"].tobytes())["objective"]) == done

    def test_holds_no_pickles_and_labels_of_four_bytes(self, path, interrupted):
        with np.load(path, allow_pickle=False) as archive:
            members = dict(archive)
        assert all(member.dtype.kind in "fiu" for member in members.values())
        assert members["labels"].dtype == np.int32
        assert "indicator" not in members

    def test_nothing_is_written_unless_asked_for(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        fitted(made())
        assert not list(tmp_path.iterdir())
