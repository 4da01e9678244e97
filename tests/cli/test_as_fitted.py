import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from manyview import MMC, Views, as_views
from manyview.cli.as_fitted import as_fitted
from manyview.datasets import Dataset, make_views

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


def predicted(model: MMC, views: Any, ids: list[str] | None = None) -> Any:
    names = None if ids is None else np.array(ids)
    return model.transform(as_fitted(Dataset(as_views(views), None, None, "more", names), model))


def test_views_that_fit_are_left_as_they_are(model: MMC, frames: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = predicted(model, frames)
    np.testing.assert_array_equal(found, model.transform(frames))


def test_columns_and_views_in_another_order(model: MMC, frames: dict[str, Any]) -> None:
    other = {"image": frames["image"][COLOURS[::-1]], "text": frames["text"][WORDS[::-1]]}
    np.testing.assert_array_equal(predicted(model, other), model.transform(frames))


def test_sparse_views_as_well(model: MMC, frames: dict[str, Any]) -> None:
    views = as_views(frames)
    order = [2, 0, 3, 1]
    text = sp.csr_array(views["text"])[:, order]
    names = (np.array(WORDS)[order], views.feature_names[1])
    other = Views((text, views["image"]), views.names, names, named=True)
    np.testing.assert_allclose(predicted(model, other), model.transform(frames))


def test_what_the_model_does_not_know_is_left_out(model: MMC, frames: dict[str, Any]) -> None:
    other = {"sound": frames["image"], **frames, "text": frames["text"].assign(vote=1.0, law=2.0)}
    with pytest.warns(UserWarning, match="left out") as told:
        found = predicted(model, other)
    assert [str(warning.message) for warning in told] == [
        "the model does not know view 'sound': left out",
        "view 'text': the model does not know 2 features ('vote', 'law'): left out",
    ]
    np.testing.assert_array_equal(found, model.transform(frames))


def test_a_view_that_is_not_there_is_lacking(model: MMC, frames: dict[str, Any]) -> None:
    with pytest.warns(
        UserWarning, match="DATA has no view 'image': predicted as if every sample lacked it"
    ):
        found = predicted(model, {"text": frames["text"]})
    present = np.array([[True, False]] * 40)
    views = as_views(frames, present=present, warn=False)
    np.testing.assert_array_equal(found, model.transform(views))


def test_samples_that_lack_a_view_still_do(model: MMC, frames: dict[str, Any]) -> None:
    present = np.arange(40)[:, None] % 4 != np.array([0, 1])
    expected = model.transform(as_views(frames, present=present))
    other = as_views(dict(reversed(frames.items())), present=present[:, ::-1])
    np.testing.assert_array_equal(predicted(model, other), expected)


@pytest.mark.filterwarnings("ignore:the model does not know")
def test_a_sample_that_is_left_with_no_view_is_refused(model: MMC, frames: dict[str, Any]) -> None:
    present = np.ones((40, 3), dtype=bool)
    present[7, :2] = False
    views = as_views({**frames, "sound": frames["image"]}, present=present)
    with pytest.raises(ValueError, match=r"1 of the samples have none of the views .*\('7'\)"):
        predicted(model, views)
    with pytest.raises(ValueError, match=r"none of the views that the model knows \('patient 7'\)"):
        predicted(model, views, [f"patient {n}" for n in range(40)])


def test_features_that_are_not_there_are_told(model: MMC, frames: dict[str, Any]) -> None:
    other = {**frames, "text": frames["text"][["film", "goal"]]}
    with pytest.raises(ValueError, match=r"'text' lacks 2 of the 4 features .*'match', 'bank'"):
        predicted(model, other)


def test_views_without_names_are_taken_by_their_places(model: MMC, frames: dict[str, Any]) -> None:
    arrays = [frame.to_numpy() for frame in frames.values()]
    np.testing.assert_array_equal(predicted(model, arrays), model.transform(frames))
    with pytest.raises(ValueError, match="received 1 view"):
        predicted(model, arrays[:1])
    reversed_features = [frame[frame.columns[::-1]] for frame in frames.values()]
    np.testing.assert_array_equal(predicted(model, reversed_features), model.transform(frames))


@pytest.mark.parametrize("given", [["goal", "goal", "bank", "film"], ["film", "goal", "goal", "x"]])
def test_features_that_cannot_be_told_apart_are_refused(
    model: MMC, frames: dict[str, Any], given: list[str]
) -> None:
    views = as_views(frames)
    names = (np.array(given), views.feature_names[1])
    with pytest.raises(ValueError, match="'text': 2 features are named 'goal'"):
        predicted(model, Views(views.arrays, views.names, names, named=True))


def test_a_model_of_features_that_cannot_be_told_apart(frames: dict[str, Any]) -> None:
    views = as_views(frames)
    names = (np.array(["goal", "goal", "bank", "film"]), views.feature_names[1])
    same = Views(views.arrays, views.names, names, named=True)
    model = MMC(n_clusters=2, random_state=0).fit(same)
    np.testing.assert_array_equal(predicted(model, same), model.transform(same))
    with pytest.raises(ValueError, match="'text': 2 features are named 'goal'"):
        predicted(model, frames)


def test_views_of_which_none_is_known_are_refused(model: MMC, frames: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="received views named 'words', 'pictures'"):
        predicted(model, {"words": frames["text"], "pictures": frames["image"]})
