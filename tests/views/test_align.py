import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from manyview import MMC, Views, as_views
from manyview.datasets import make_views
from manyview.views import align_to

WORDS = ["goal", "match", "bank", "film"]
COLOURS = ["red", "green", "blue"]


@pytest.fixture(scope="module")
def frames() -> dict[str, pd.DataFrame]:
    text, image = make_views(40, 2, (4, 3), random_state=0).views
    return {
        "text": pd.DataFrame(np.abs(text), columns=WORDS),
        "image": pd.DataFrame(image, columns=COLOURS),
    }


@pytest.fixture(scope="module")
def model(frames: dict[str, pd.DataFrame]) -> MMC:
    return MMC(n_clusters=2, random_state=0).fit(frames)


def aligned(model: MMC, views: Any, ids: list[str] | None = None) -> Views:
    return align_to(
        as_views(views),
        names=model.view_names_,
        n_features=model.n_features_in_,
        feature_names=model.feature_names_in_,
        sample_ids=None if ids is None else np.array(ids),
    )


def predicted(model: MMC, views: Any) -> Any:
    return model.transform(aligned(model, views))


def test_views_of_the_fit_pass(model: MMC, frames: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = predicted(model, frames)
    np.testing.assert_allclose(found, model.transform(frames))


def test_columns_and_views_in_another_order(model: MMC, frames: dict[str, Any]) -> None:
    other = {"image": frames["image"][COLOURS[::-1]], "text": frames["text"][WORDS[::-1]]}
    np.testing.assert_allclose(predicted(model, other), model.transform(frames))


def test_sparse_views_as_well(model: MMC, frames: dict[str, Any]) -> None:
    views = as_views(frames)
    order = [2, 0, 3, 1]
    text = sp.csr_array(views["text"])[:, order]
    names = (np.array(WORDS)[order], views.feature_names[1])
    other = Views((text, views["image"]), views.names, names, named=True)
    np.testing.assert_allclose(predicted(model, other), model.transform(frames))


def test_unknown_views_and_features_are_ignored(model: MMC, frames: dict[str, Any]) -> None:
    other = {"sound": frames["image"], **frames, "text": frames["text"].assign(vote=1.0, law=2.0)}
    with pytest.warns(UserWarning, match="ignored") as caught:
        found = predicted(model, other)
    view, features = (str(warning.message) for warning in caught)
    assert "'sound'" in view
    assert "'text'" in features
    assert "'vote', 'law'" in features
    np.testing.assert_allclose(found, model.transform(frames))


def test_an_absent_view_is_missing_for_every_sample(model: MMC, frames: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match="view 'image' is absent"):
        found = predicted(model, {"text": frames["text"]})
    present = np.array([[True, False]] * 40)
    views = as_views(frames, present=present, warn=False)
    np.testing.assert_allclose(found, model.transform(views))


def test_missing_views_stay_missing(model: MMC, frames: dict[str, Any]) -> None:
    present = np.arange(40)[:, None] % 4 != np.array([0, 1])
    expected = model.transform(as_views(frames, present=present))
    other = as_views(dict(reversed(frames.items())), present=present[:, ::-1])
    np.testing.assert_allclose(predicted(model, other), expected)


@pytest.mark.filterwarnings("ignore:.*ignored")
def test_a_sample_without_a_view_of_the_fit_is_rejected(model: MMC, frames: dict[str, Any]) -> None:
    present = np.ones((40, 3), dtype=bool)
    present[7, :2] = False
    views = as_views({**frames, "sound": frames["image"]}, present=present)
    with pytest.raises(ValueError, match=r"\('7'\)"):
        aligned(model, views)
    with pytest.raises(ValueError, match=r"\('patient 7'\)"):
        aligned(model, views, [f"patient {n}" for n in range(40)])


def test_absent_features_are_rejected(model: MMC, frames: dict[str, Any]) -> None:
    other = {**frames, "text": frames["text"][["film", "goal"]]}
    with pytest.raises(ValueError, match=r"'text' .*'match', 'bank'"):
        predicted(model, other)


def test_views_without_names_are_taken_by_position(model: MMC, frames: dict[str, Any]) -> None:
    arrays = [frame.to_numpy() for frame in frames.values()]
    np.testing.assert_allclose(predicted(model, arrays), model.transform(frames))
    with pytest.raises(ValueError, match="'view0'"):
        predicted(model, arrays[:1])
    reversed_features = [frame[frame.columns[::-1]] for frame in frames.values()]
    np.testing.assert_allclose(predicted(model, reversed_features), model.transform(frames))


@pytest.mark.parametrize("given", [["goal", "goal", "bank", "film"], ["film", "goal", "goal", "x"]])
def test_repeated_names_are_rejected(model: MMC, frames: dict[str, Any], given: list[str]) -> None:
    views = as_views(frames)
    names = (np.array(given), views.feature_names[1])
    with pytest.raises(ValueError, match="'text': 2 features are named 'goal'"):
        predicted(model, Views(views.arrays, views.names, names, named=True))


def test_repeated_names_in_the_order_of_fit_pass(frames: dict[str, Any]) -> None:
    views = as_views(frames)
    names = (np.array(["goal", "goal", "bank", "film"]), views.feature_names[1])
    same = Views(views.arrays, views.names, names, named=True)
    model = MMC(n_clusters=2, random_state=0).fit(same)
    np.testing.assert_allclose(predicted(model, same), model.transform(same))
    with pytest.raises(ValueError, match="'text': 2 features are named 'goal'"):
        predicted(model, frames)


def test_views_without_a_known_name_are_rejected(model: MMC, frames: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="'words', 'pictures'"):
        predicted(model, {"words": frames["text"], "pictures": frames["image"]})


def test_dask_arrays_are_rejected(model: MMC, frames: dict[str, Any]) -> None:
    da = pytest.importorskip("dask.array")
    views = {name: da.from_array(frame.to_numpy()) for name, frame in frames.items()}
    with pytest.raises(TypeError, match="dask"):
        aligned(model, views)
