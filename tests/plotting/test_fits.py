from copy import copy
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle
from sklearn.cluster import DBSCAN
from sklearn.exceptions import NotFittedError

from manyview import MMC, RMKMC, MultiNMF
from manyview.datasets import make_views
from manyview.metrics import clustering_accuracy
from manyview.plotting import (
    plot_contingency,
    plot_embedding,
    plot_feature_weights,
    plot_objective,
    plot_view_weights,
)


def cells(ax):
    n_rows, n_columns = len(ax.get_yticks()), len(ax.get_xticks())
    return np.array([int(text.get_text()) for text in ax.texts]).reshape(n_rows, n_columns)


LABELLING = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 5)),
    min_size=1,
    max_size=40,
)


@settings(max_examples=25)
@given(LABELLING)
def test_the_diagonal_holds_the_accuracy(pairs):
    y, labels = (list(column) for column in zip(*pairs, strict=True))
    ax = plot_contingency(y, labels)
    counts = cells(ax)
    assert counts.sum() == len(pairs)
    outlined = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    matched = len(outlined)
    assert np.isclose(np.trace(counts) / len(pairs), clustering_accuracy(y, labels))
    assert np.all(np.diag(counts)[:matched] > 0)
    classes = [int(tick.get_text()) for tick in ax.get_yticklabels()]
    clusters = [int(tick.get_text()) for tick in ax.get_xticklabels()]
    for row, one in enumerate(classes):
        for column, other in enumerate(clusters):
            assert counts[row, column] == pairs.count((one, other))
    plt.close(ax.figure)


def test_classes_have_their_names_and_the_title_the_accuracy():
    ax = plot_contingency([0, 0, 1, 1, 2], [5, 5, 4, 4, 4], class_names=["cat", "dog", "eel"])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["cat", "dog", "eel"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["5", "4"]
    assert ax.get_title() == "ACC 0.800"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("cluster", "class")
    text = plot_contingency(["b", "a"], [0, 1])
    assert [tick.get_text() for tick in text.get_yticklabels()] == ["a", "b"]


def test_what_has_no_match_comes_last():
    ax = plot_contingency([0, 1, 1, 1, 2, 2], [0, 0, 0, 0, 1, 2])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["1", "2", "0"]


def test_counts_fit_into_their_cells():
    rng = np.random.default_rng(0)
    ax = plot_contingency(rng.integers(0, 40, 4000), rng.integers(0, 40, 4000))
    ax.figure.draw_without_rendering()
    width, height = ax.get_window_extent().size / 40
    for text in ax.texts:
        assert text.get_window_extent().width < width
        assert text.get_window_extent().height < 1.2 * height


def test_what_does_not_fit_is_rejected():
    with pytest.raises(ValueError, match="labels has 3"):
        plot_contingency([0, 1], [0, 1, 1])
    with pytest.raises(ValueError, match="class_names"):
        plot_contingency([0, 1], [0, 1], class_names=["cat"])


def test_labels_may_be_tensors():
    torch = pytest.importorskip("torch")
    ax = plot_contingency(torch.tensor([0, 0, 1]), torch.tensor([1, 1, 0]))
    assert [text.get_text() for text in ax.texts] == ["2", "0", "0", "1"]


def spread(n_classes, n_clusters):
    """Labels by which every class has a cluster, or every cluster a class."""
    samples = np.arange(max(n_classes, n_clusters))
    return samples % n_classes, samples % n_clusters


@pytest.mark.parametrize("shape", [(41, 41), (300, 300), (5, 120), (120, 5)])
def test_of_many_the_cells_have_colours_and_no_numbers(shape):
    y, labels = spread(*shape)
    ax = plot_contingency(y, labels)
    assert not ax.texts
    (image,) = ax.images
    assert image.get_array().shape == shape
    assert np.allclose(image.get_array().sum(axis=1), 1.0)
    (enclosed,) = ax.patches
    assert enclosed.get_width() == enclosed.get_height() == min(shape)
    (bar,) = (other for other in ax.figure.axes if other is not ax)
    assert bar.get_ylabel() == "share of the class"
    assert max(ax.figure.get_size_inches()) < 15


def test_of_many_the_names_stand_at_their_cells_and_do_not_touch():
    y, labels = spread(300, 300)
    _, small = plt.subplots(figsize=(4, 3), layout="constrained")
    for ax in (plot_contingency(y, labels), plot_contingency(y, labels, ax=small)):
        ax.figure.draw_without_rendering()
        for axis in (ax.xaxis, ax.yaxis):
            names = axis.get_ticklabels()
            assert len(names) >= 4
            # every class is its own cluster, so that all stand in their order
            assert [int(name.get_text()) for name in names] == axis.get_ticklocs().tolist()
            boxes = [name.get_window_extent() for name in names]
            assert not any(one.overlaps(two) for one, two in pairwise(boxes))


def test_ids_in_place_of_labels_are_rejected():
    with pytest.raises(ValueError, match="60000"):
        plot_contingency(np.arange(60_000), np.arange(60_000))


def drawn(ax):
    return {group.get_label(): np.asarray(group.get_offsets()) for group in ax.collections}


def test_distances_are_those_of_the_embedding_where_it_has_two_dimensions(fitted):
    _, _, amgl = fitted
    ax = plot_embedding(amgl)
    points = np.vstack(list(drawn(ax).values()))
    order = np.argsort(amgl.labels_, kind="stable")
    centred = amgl.embedding_ - amgl.embedding_.mean(axis=0)
    _, s, V = np.linalg.svd(centred, full_matrices=False)
    expected = centred[order] @ V[:2].T
    np.testing.assert_allclose(np.abs(points), np.abs(expected), atol=1e-10)
    assert ax.get_xlabel() == f"component 1 ({s[0] ** 2 / np.sum(s**2):.0%} of variance)"
    assert ax.get_title() == "AMGL: embedding"


def test_views_are_drawn_where_transform_puts_them(fitted):
    views, mmc, _ = fitted
    ax = plot_embedding(mmc, views=views.take(np.arange(20)))
    assert sum(len(points) for points in drawn(ax).values()) == 20
    assert ax.get_title() == "MMC: transform of the views"
    assert ax.get_legend().get_title().get_text() == "cluster"


def test_classes_have_names_and_counts(fitted):
    views, mmc, _ = fitted
    y = np.repeat([0, 2], [40, 20])
    ax = plot_embedding(mmc, y, views=views, class_names=["cat", "cow", "dog"])
    groups = drawn(ax)
    assert {name: len(points) for name, points in groups.items()} == {
        "cat (40)": 40,
        "dog (20)": 20,
    }
    assert ax.get_legend().get_title().get_text() == "class"


def test_the_relaxed_indicator_and_the_consensus_are_drawn_without_views(fitted):
    views, _, _ = fitted
    relaxed = MMC(3, indicator="orthogonal", tol=0.1, random_state=0).fit(views)
    assert plot_embedding(relaxed).get_title() == "MMC: indicator"
    nmf = MultiNMF(3, negative="shift", random_state=0).fit(views)
    assert plot_embedding(nmf).get_title() == "MultiNMF: consensus"


def test_what_cannot_be_drawn_is_rejected(fitted):
    views, mmc, amgl = fitted
    with pytest.raises(NotFittedError, match="MMC"):
        plot_embedding(MMC(3))
    with pytest.raises(ValueError, match="views="):
        plot_embedding(mmc)
    with pytest.raises(TypeError, match="AMGL"):
        plot_embedding(amgl, views=views)
    with pytest.raises(TypeError, match="RMKMC"):
        plot_embedding(RMKMC(3, random_state=0).fit(views), views=views)
    with pytest.raises(TypeError, match="RMKMC"):
        plot_embedding(RMKMC(3, random_state=0).fit(views))
    with pytest.raises(ValueError, match=r"y has shape \(3,\)"):
        plot_embedding(amgl, [0, 1, 2])
    with pytest.raises(ValueError, match="class_names"):
        plot_embedding(amgl, np.repeat([0, 1], 30), class_names=["cat"])


@pytest.fixture
def model(fitted):
    """A fit with known factors: features 1 and 4 of the first view dropped, all of the second."""
    mmc = copy(fitted[1])
    weights = np.array([1.0, 0.0, 3.0, 2.0, 0.0, 0.5, 9.0])  # the last is the bias
    mmc.view_factors_ = [np.outer(weights, [0.6, 0.8]), np.zeros((6, 2))]
    mmc.view_names_ = ["text", "image"]
    mmc.feature_names_in_ = [np.array(list("abcdef")), None]
    return mmc


def texts(ax):
    return [tick.get_text() for tick in ax.get_yticklabels()]


def test_bars_are_the_norms_of_rows_largest_first_without_the_bias(model):
    ax = plot_feature_weights(model, "text")
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], [3.0, 2.0, 1.0, 0.5])
    assert texts(ax) == ["c", "d", "a", "f"]
    assert ax.get_title() == "view 'text': 4 features kept, 2 dropped"
    assert ax.yaxis_inverted()


def test_only_the_largest_are_shown_and_the_title_says_so(model):
    ax = plot_feature_weights(model, 0, top=2)
    assert texts(ax) == ["c", "d"]
    assert ax.get_title() == "view 'text': largest 2 of 4 features kept, 2 dropped"


def test_a_view_of_which_nothing_is_left_says_so(model):
    ax = plot_feature_weights(model, "image")
    assert not ax.patches
    assert ax.get_title() == "view 'image': 0 features kept, 5 dropped"
    assert [text.get_text() for text in ax.texts] == ["all features were dropped"]


def test_features_without_names_are_numbered(model):
    model.feature_names_in_ = [None, None]
    assert texts(plot_feature_weights(model)) == [f"feature {at}" for at in (2, 3, 0, 5)]


def test_what_has_no_weights_is_rejected(model, fitted):
    with pytest.raises(NotFittedError, match="MMC"):
        plot_feature_weights(MMC(3))
    with pytest.raises(TypeError, match="AMGL"):
        plot_feature_weights(fitted[2])
    with pytest.raises(ValueError, match="sound"):
        plot_feature_weights(model, "sound")
    with pytest.raises(ValueError, match="view=2"):
        plot_feature_weights(model, 2)
    with pytest.raises(ValueError, match="top=0"):
        plot_feature_weights(model, top=0)


def test_one_fit_is_one_line_under_its_name(fitted):
    _, mmc, _ = fitted
    ax = plot_objective(mmc)
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, mmc.n_iter_ + 1))
    np.testing.assert_array_equal(line.get_ydata(), mmc.objective_)
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("MMC", "iteration", "objective")
    assert ax.get_legend() is None


def test_several_fits_are_distinguished_by_a_legend(fitted):
    _, mmc, amgl = fitted
    ax = plot_objective({"ours": mmc, "theirs": amgl, "noted": [2.0, 1.5, 1.2]})
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["ours", "theirs", "noted"]
    assert len({line.get_color() for line in ax.lines}) == 3


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1000.0, 10.0, 1.0], "log"),
        ([2.0, 1.5, 1.2], "linear"),
        ([1000.0, 1.0, -1.0], "linear"),
        ([1000.0, 1.0, 0.0], "linear"),
    ],
)
def test_the_axis_is_logarithmic_where_values_are_positive_and_wide(values, scale):
    assert plot_objective(values).get_yscale() == scale


def test_the_scale_can_be_chosen():
    assert plot_objective([1000.0, 1.0], log=False).get_yscale() == "linear"
    assert plot_objective([2.0, 1.0], log=True).get_yscale() == "log"


def test_fits_of_very_unequal_length_are_all_seen():
    assert plot_objective({"a": np.ones(200), "b": np.ones(5)}).get_xscale() == "log"
    assert plot_objective({"a": np.ones(20), "b": np.ones(1)}).get_xscale() == "linear"


def test_what_has_no_objective_is_rejected():
    with pytest.raises(NotFittedError, match="MMC"):
        plot_objective(MMC(3))
    with pytest.raises(ValueError, match="fits"):
        plot_objective({})
    with pytest.raises(ValueError, match="ours"):
        plot_objective({"ours": []})
    with pytest.raises(TypeError, match="DBSCAN"):
        plot_objective(DBSCAN().fit([[0.0], [1.0]]))


def test_the_weights_of_views_are_in_the_cells():
    views, _ = make_views(90, 3, (8, 6), random_state=0)
    model = MMC(3, random_state=0).fit(views)
    weights = model.view_weights_
    ax = plot_view_weights(model)
    written = {tuple(text.get_position()): text.get_text() for text in ax.texts}
    for row in range(4):
        for column in range(2):
            assert written[column, row] == f"{weights.added[row, column]:.0%}"
            assert written[3 + column, row] == f"{weights.alone[row, column]:.0%}"
        assert written[6, row] == f"{weights.explained[row]:.0%}"
    names = ["informative0", "informative1"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == [*names, *names, "all views"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["0", "1", "2", "overall"]


def test_weights_of_many_clusters_are_colours():
    views, _ = make_views(300, 60, (8, 6), random_state=0)
    ax = plot_view_weights(MMC(60, random_state=0).fit(views))
    assert len(ax.texts) == 2  # those above the columns
    assert len(ax.get_yticklabels()) < 61
    assert ax.get_yticklabels()[-1].get_text() == "overall"


def test_only_mmc_has_weights_of_views(fitted):
    with pytest.raises(TypeError, match="AMGL"):
        plot_view_weights(fitted[2])
