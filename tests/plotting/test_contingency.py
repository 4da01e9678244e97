from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle

from manyview.metrics import clustering_accuracy
from manyview.plotting import plot_contingency


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


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="y has 2 labels, labels has 3"):
        plot_contingency([0, 1], [0, 1, 1])
    with pytest.raises(ValueError, match="class_names has 1 names"):
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
    assert bar.get_ylabel() == "part of the class"
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


def test_ids_in_place_of_labels_are_refused():
    with pytest.raises(ValueError, match=r"y has 60000 classes, labels 60000 clusters: .*ids"):
        plot_contingency(np.arange(60_000), np.arange(60_000))
