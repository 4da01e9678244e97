import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from manyview import MMC, RMKMC, MultiNMF
from manyview.plotting import plot_embedding


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


def test_what_cannot_be_drawn_is_refused(fitted):
    views, mmc, amgl = fitted
    with pytest.raises(NotFittedError, match="MMC"):
        plot_embedding(MMC(3))
    with pytest.raises(ValueError, match=r"indicator of MMC puts all .* give views="):
        plot_embedding(mmc)
    with pytest.raises(TypeError, match="AMGL has no transform; leave out views"):
        plot_embedding(amgl, views=views)
    with pytest.raises(TypeError, match="RMKMC has no transform, nor an embedding"):
        plot_embedding(RMKMC(3, random_state=0).fit(views), views=views)
    with pytest.raises(TypeError, match="RMKMC keeps no embedding"):
        plot_embedding(RMKMC(3, random_state=0).fit(views))
    with pytest.raises(ValueError, match=r"y has shape \(3,\), the embedding 60 samples"):
        plot_embedding(amgl, [0, 1, 2])
    with pytest.raises(ValueError, match=r"class_names has 1 names, y the classes \[0, 1\]"):
        plot_embedding(amgl, np.repeat([0, 1], 30), class_names=["cat"])
