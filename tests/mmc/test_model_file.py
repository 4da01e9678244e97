import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from manyview import AMGL, MMC, as_views, read_model, write_model
from manyview.datasets import make_views


@pytest.fixture(scope="module")
def views():
    return make_views(90, 3, (8, 6), random_state=0).views


@pytest.fixture(scope="module")
def model(views):
    return MMC(n_clusters=3, random_state=0).fit(views)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.model"


def again(model, path):
    write_model(path, model)
    return read_model(path)


def assert_the_same(found, model, views):
    for name in ("labels_", "indicator_", "cluster_factors_", "objective_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(model, name))
        assert getattr(found, name).dtype == getattr(model, name).dtype
    for name in ("n_iter_", "gamma_", "n_views_", "n_features_in_", "view_names_"):
        assert getattr(found, name) == getattr(model, name)
    for factor, other in zip(found.view_factors_, model.view_factors_, strict=True):
        np.testing.assert_array_equal(factor, other)
    np.testing.assert_array_equal(found.predict(views), model.predict(views))
    np.testing.assert_array_equal(found.transform(views), model.transform(views))
    assert found.explain(top=3) == model.explain(top=3)
    assert found.profile() == model.profile()
    for name in ("membership_", "confidence_", "outlier_score_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(model, name))
    np.testing.assert_array_equal(found.predict_proba(views), model.predict_proba(views))
    assert found.view_weights_.view_names == model.view_weights_.view_names
    for part in ("added", "alone", "explained"):
        ours, theirs = (getattr(each.view_weights_, part) for each in (found, model))
        np.testing.assert_array_equal(ours, theirs)
    assert set(vars(found)) == set(vars(model))  # nothing that fit records is forgotten


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"indicator": "discrete"},
        {"indicator": "orthogonal"},
        {"normalize": "columns"},
        {"normalize": None, "penalty": "frobenius"},
        {"order": 1, "gamma": np.float64(0.02), "n_init": np.int64(2)},
        {"patience": None, "max_iter": 3, "tol": 0.1},
    ],
)
def test_a_model_is_read_as_it_was_written(views, path, parameters):
    model = MMC(n_clusters=3, random_state=0, **parameters).fit(views)
    found = again(model, path)
    assert_the_same(found, model, views)
    assert found.get_params() == model.get_params()
    np.testing.assert_array_equal(clone(found).fit(views).labels_, model.labels_)


def test_single_precision_and_sparse_views(path):
    views = [sp.csr_array(X).astype(np.float32) for X in make_views(60, 2, density=0.3).views]
    model = MMC(n_clusters=2, random_state=0).fit(views)
    found = again(model, path)
    assert_the_same(found, model, views)
    assert found.transform(views).dtype == np.float32


def test_counts(path):
    rng, y = np.random.default_rng(0), np.arange(60) % 2
    views = [rng.poisson(rng.gamma(0.2, 8.0, (2, 60))[y]) for _ in range(2)]
    model = MMC(n_clusters=2, normalize="log", random_state=0).fit(views)
    found = again(model, path)
    assert found.normalize_ == {"view0": "log", "view1": "log"}
    assert_the_same(found, model, views)


def test_names_of_views_and_features_are_kept(path):
    rng = np.random.default_rng(0)
    frames = {
        "größe": pd.DataFrame(rng.random((40, 2)), columns=["größte", "b"]),
        "text": pd.DataFrame(rng.random((40, 3)), columns=["c", "d", "e"]),
    }
    model = MMC(n_clusters=2, random_state=0).fit(frames)
    found = again(model, path)
    assert_the_same(found, model, frames)
    assert [names.tolist() for names in found.feature_names_in_] == [
        names.tolist() for names in model.feature_names_in_
    ]
    with pytest.raises(ValueError, match="größe"):
        found.predict({"size": frames["größe"], "text": frames["text"]})


def test_missing_views_are_predicted_as_before(views, model, path):
    some = as_views(list(views), present=np.arange(90)[:, None] % 3 != np.array([0, 1]))
    assert_the_same(again(model, path), model, views)
    np.testing.assert_array_equal(read_model(path).predict(some), model.predict(some))


def test_a_file_without_weights_of_cosines_predicts_the_largest_entry(path):
    X, _ = load_iris(return_X_y=True)
    views = [X[:, :2], X[:, 2:]]
    write_model(path, MMC(3, random_state=0).fit(views))
    with np.load(path) as archive:
        parts = dict(archive)
    del parts["cosine_weights"]
    # and no statistics either
    statistics = ("sizes", "count", "cluster_mean", "deviation", "pairs", "gains")
    parts = {name: X for name, X in parts.items() if name.rstrip("01") not in statistics}
    header = json.loads(parts.pop("header").tobytes()) | {"arrays": sorted(parts)}
    parts["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, **parts)
    old = read_model(path)
    np.testing.assert_array_equal(old.predict(views), old.transform(views).argmax(axis=1))
    found = old.explain(top=3)
    assert {entry.cluster for entry in found} == {0, 1, 2}
    assert all(entry.directions == () for entry in found)
    assert "weight" in repr(found)
    assert len(found.to_frame()) == len(found)
    with pytest.raises(ValueError, match="earlier version"):
        old.profile()


def test_a_file_without_memberships_predicts_labels_only(views, model, path):
    write_model(path, model)
    with np.load(path) as archive:
        parts = dict(archive)
    absent = ("membership", "outlier_score", "calibration")
    for name in (*absent, "view_added", "view_alone", "view_explained"):
        del parts[name]
    header = json.loads(parts.pop("header").tobytes()) | {"arrays": sorted(parts)}
    parts["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, **parts)
    old = read_model(path)
    np.testing.assert_array_equal(old.predict(views), model.predict(views))
    for name in ("membership_", "confidence_", "outlier_score_", "view_weights_"):
        assert not hasattr(old, name)
    with pytest.raises(AttributeError, match="fit again"):
        old.predict_proba(views)
    np.testing.assert_array_equal(again(old, path).labels_, model.labels_)
    assert pickle.loads(pickle.dumps(old)).labels_.size == 90


def test_a_fit_of_tensors_is_read_without_them(views, path):
    torch = pytest.importorskip("torch")
    tensors = [torch.as_tensor(X) for X in views]
    model = MMC(n_clusters=3, random_state=0).fit(tensors)
    found = again(model, path)
    assert isinstance(found.labels_, np.ndarray)
    np.testing.assert_array_equal(found.predict(list(views)), np.asarray(model.predict(tensors)))


def as_objects(labels):
    return np.array(labels, dtype=object)


@pytest.mark.parametrize(
    ("kind", "names"), [(list, (9, 10, 11)), (pd.Series, ("a", "b", "c")), (as_objects, "abc")]
)
def test_a_given_initialisation_is_kept(views, path, kind, names):
    start = kind([names[n % 3] for n in range(90)])
    model = MMC(n_clusters=3, init=start, random_state=0, max_iter=2, tol=1.0).fit(views)
    found = again(model, path)
    assert found.init.tolist() == list(start)
    np.testing.assert_array_equal(clone(found).fit(views).labels_, model.labels_)


def test_generators_and_checkpoints_are_left_out(views, path, tmp_path):
    source = np.random.RandomState(0)
    model = MMC(3, random_state=source, checkpoint=tmp_path / "fit.ckpt").fit(views)
    found = again(model, path)
    assert (found.random_state, found.checkpoint) == (None, None)
    with np.load(path) as archive:
        assert b"fit.ckpt" not in archive["header"].tobytes()


def test_a_zero_model(views, path):
    with pytest.warns(match="too large"):
        model = MMC(n_clusters=3, gamma=1e6, random_state=0).fit(views)
    assert again(model, path).explain() == []


def test_only_a_fitted_mmc_is_written(views, path):
    with pytest.raises(NotFittedError):
        write_model(path, MMC(n_clusters=3))
    with pytest.raises(TypeError, match="AMGL"):
        write_model(path, AMGL(n_clusters=3))
    assert not path.exists()


def test_parameters_that_were_set_after_fit(views, model, path):
    other = copy.deepcopy(model).set_params(n_clusters=5, max_iter=7)
    found = again(other, path)
    assert found.get_params() == other.get_params()
    np.testing.assert_array_equal(found.predict(views), model.predict(views))
    with pytest.raises(ValueError, match="gamma"):
        write_model(path, other.set_params(gamma=-1.0))


def test_subclasses_are_rejected(views, path):
    class Mine(MMC):
        pass

    with pytest.raises(TypeError, match="Mine"):
        write_model(path, Mine(n_clusters=3, random_state=0).fit(views))


def test_unwritable_paths(model, tmp_path):
    with pytest.raises(IsADirectoryError, match="folder"):
        write_model(tmp_path, model)
    with pytest.raises(FileNotFoundError, match="missing"):
        write_model(tmp_path / "missing" / "some.model", model)


def test_an_older_file_is_kept_if_writing_fails(model, path, monkeypatch):
    write_model(path, model)
    kept = path.read_bytes()

    def fails(*args, **options):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fails)
    with pytest.raises(OSError, match="disk full"):
        write_model(path, model)
    assert path.read_bytes() == kept
    assert list(path.parent.iterdir()) == [path]


def test_unreadable_paths(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        read_model(tmp_path / "missing")
    with pytest.raises(IsADirectoryError, match="folder"):
        read_model(tmp_path)


class TestDamage:
    @pytest.fixture
    def parts(self, model, path):
        write_model(path, model)
        with np.load(path) as archive:
            return dict(archive)

    @staticmethod
    def write(path, parts):
        with path.open("wb") as file:
            np.savez(file, **parts)

    @pytest.mark.parametrize("part", [0.0, 0.5, 0.99])
    def test_of_a_truncated_file(self, path, parts, part):
        kept = path.read_bytes()
        path.write_bytes(kept[: int(part * len(kept))])
        with pytest.raises(ValueError, match=r"some\.model"):
            read_model(path)

    @pytest.mark.parametrize("hidden", [["centre1", "width1"], ["feature_names0"]])
    def test_of_the_directory_that_hides_arrays(self, path, hidden):
        # no checksum covers the directory of an archive
        frames = [
            pd.DataFrame(X).add_prefix("f") for X in make_views(60, 2, (4, 3), random_state=0).views
        ]
        write_model(path, MMC(n_clusters=2, normalize="columns", random_state=0).fit(frames))
        with np.load(path) as archive:
            parts = dict(archive)
        assert set(hidden) <= set(parts)
        self.write(path, {name: part for name, part in parts.items() if name not in hidden})
        with pytest.raises(ValueError, match=r"some\.model"):
            read_model(path)

    def test_a_pickle_is_rejected(self, path):
        path.write_bytes(pickle.dumps({"labels": 1}))
        with pytest.raises(ValueError, match=r"some\.model"):
            read_model(path)

    def test_a_file_of_views(self, path, parts):
        self.write(path, {"X0": np.eye(2)})
        with pytest.raises(ValueError, match=r"some\.model"):
            read_model(path)

    @pytest.mark.parametrize(
        ("name", "change", "expected"),
        [
            ("labels", lambda part: part[1:], r"indicator has shape \(90, 3\); expected \(89, 3\)"),
            ("labels", lambda part: part + 1, "labels"),
            ("labels", lambda part: part.astype(float), "labels has type float64"),
            ("view_factor1", lambda part: part[:-1], "expected"),
            ("view_predictor0", lambda part: part[:, 1:], "view_predictor0 has shape"),
            ("mean_row0", lambda part: part[1:], "mean_row0 has shape"),
            ("cluster_factor", lambda part: part.T, "expected"),
            ("cluster_factor", lambda part: np.array(1.0), "not that of a model"),
            ("cluster_predictor", lambda part: part.astype(np.str_), "has type <U"),
            ("view_predictor0", lambda part: part * np.nan, "not finite"),
            ("cosine_weights", lambda part: part[1:], "cosine_weights has shape"),
            ("objective", lambda part: part[None], "objective has shape"),
            ("cluster_mean0", lambda part: part[:, 1:], "cluster_mean0 has shape"),
            ("deviation1", lambda part: part * np.inf, "not finite"),
            ("gains", lambda part: part[1:], "gains has shape"),
            ("pairs", lambda part: part + 1, "pairs"),
            ("pairs", lambda part: part - 1, "pairs"),
            ("membership", lambda part: part[1:], "membership has shape"),
            ("outlier_score", lambda part: part * np.nan, "not finite"),
            ("calibration", lambda part: part[:1], "not that of a model"),
        ],
    )
    def test_parts_that_do_not_belong_together(self, path, parts, name, change, expected):
        self.write(path, parts | {name: change(parts[name])})
        with pytest.raises(ValueError, match=rf"some\.model.*{expected}"):
            read_model(path)

    @pytest.mark.parametrize("name", ["labels", "view_predictor1", "cluster_mean1", "pairs"])
    def test_parts_that_are_missing(self, path, parts, name):
        del parts[name]
        self.write(path, parts)
        with pytest.raises(ValueError, match=r"some\.model"):
            read_model(path)

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ({"version": 2}, "version 2"),
            ({"format": "manyview.MMC checkpoint"}, "manyview.MMC checkpoint"),
            ({"parameters": {"n_clusters": 3, "depth": 7}}, "depth"),
            ({"parameters": {"n_clusters": 3, "penalty": "l3"}}, "penalty"),
            ({"view_names": ["a", "a"]}, "views"),
            ({"view_names": "ab"}, "views"),
            ({"normalized_by": "cells"}, "cells"),
            ({"gamma": "x"}, "gamma"),
        ],
    )
    def test_another_header(self, path, parts, change, expected):
        header = json.loads(parts["header"].tobytes()) | change
        parts["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
        self.write(path, parts)
        with pytest.raises(ValueError, match=rf"some\.model.*{expected}"):
            read_model(path)


def test_unknown_cells(path):
    rng = np.random.default_rng(0)
    views = [
        np.where(rng.random(X.shape) < 0.2, np.nan, X)
        for X in make_views(90, 3, (8, 6), random_state=0).views
    ]
    model = MMC(n_clusters=3, random_state=0).fit(views)
    assert_the_same(again(model, path), model, views)
