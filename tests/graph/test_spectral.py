import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from manyview.engine import LocalEngine
from manyview.graph import spectral as module
from manyview.graph.estimator import graph_start
from manyview.graph.neighbours import (
    Search,
    find_nearest,
    halfway_widths,
    harmonic_weights,
    nearest_of,
)
from manyview.graph.spectral import FAR_LOOK, NEAR_LOOK, clearest_look, embed_by_landmarks
from manyview.linalg.partition import clear_weights
from manyview.metrics import score_all
from manyview.views import as_views
from tests.mmc.conftest import raw_views


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_are_those_of_the_singular_vectors(sparse):
    views = raw_views(0, 60, (5, 4), sparse=sparse)
    engine = LocalEngine(as_views(views), normalize="rows")
    marks = np.arange(0, 60, 4)
    widths = [np.ones(X.shape[1]) for X in views]
    find_nearest(engine, Search.of(engine, engine.take(marks), 5, widths))
    z = np.zeros((60, marks.size))
    np.put_along_axis(z, engine.gather("near"), np.tile(harmonic_weights(5), (60, 1)), axis=1)
    z /= z.sum(axis=1, keepdims=True)
    mass = z.sum(axis=0)
    left, values, _ = np.linalg.svd(z[:, mass > 0] / np.sqrt(mass[mass > 0]))
    left = left[:, :5] * clear_weights(values[:6] ** 2, 3)
    expected = left / np.linalg.norm(left, axis=1, keepdims=True)
    embed_by_landmarks(engine, engine.take(marks), 3, np.random.default_rng(0), [NEAR_LOOK])
    found = engine.gather("embedding")
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-8)


@pytest.mark.parametrize("density", [0.02, 0.5])
def test_gram_of_links_whether_few_or_many(density):
    links = sp.random_array((40, 30), density=density, format="csr", rng=0)
    z = links.toarray()
    np.testing.assert_allclose(module._gram(links), z.T @ z, atol=1e-12)


def test_landmarks_without_samples_are_left_out():
    whole, few = (
        LocalEngine(as_views([np.repeat(np.eye(2), n, axis=0)]), normalize="rows") for n in (20, 3)
    )
    marks, engine = whole.take(np.arange(40)), few  # six samples, each linked to five of forty
    find_nearest(engine, Search.of(engine, marks, 5, [np.ones(2)]))
    assert np.unique(engine.gather("near")).size <= 30
    embed_by_landmarks(engine, marks, 4, np.random.default_rng(0), [NEAR_LOOK])
    found = engine.gather("embedding")
    assert np.isfinite(found).all()
    assert np.abs(found[0] @ found[-1]) < 1e-8


class TestByAFewSamples:
    """The embedding where its eigenvectors are those of a part of the samples."""

    def embedded(self, seed=0):
        views = raw_views(0, 400, (5, 4))
        engine = LocalEngine(as_views(views), normalize="rows")
        marks = engine.take(np.arange(0, 400, 20))
        embed_by_landmarks(engine, marks, 3, np.random.default_rng(seed), [NEAR_LOOK])
        assert all(block.state.get("near") is None for block in engine.blocks)
        rows = engine.gather("embedding")
        return rows @ rows.T

    def test_which_they_are_is_drawn(self, monkeypatch):
        monkeypatch.setattr(module, "_EMBEDDED_PER_LANDMARK", 100)
        np.testing.assert_allclose(self.embedded(seed=1), self.embedded(), atol=1e-10)
        monkeypatch.setattr(module, "_EMBEDDED_PER_LANDMARK", 5)
        assert np.abs(self.embedded(seed=1) - self.embedded()).max() > 1e-3

    def test_is_the_same_where_neighbours_are_not_kept(self, monkeypatch):
        monkeypatch.setattr(module, "_EMBEDDED_PER_LANDMARK", 5)
        kept = self.embedded()
        monkeypatch.setattr(module, "_MOST_KEPT_LANDMARKS", 0)
        np.testing.assert_allclose(self.embedded(), kept, atol=1e-12)

    def test_does_not_depend_on_the_blocks(self, monkeypatch):
        monkeypatch.setattr(module, "_EMBEDDED_PER_LANDMARK", 5)
        whole = self.embedded()
        monkeypatch.setattr(LocalEngine, "block_rows", (7, 7))
        np.testing.assert_allclose(self.embedded(), whole, atol=1e-10)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("normalize", ["rows", "columns"])
def test_nearest_of_a_few_samples_are_those_of_all(sparse, normalize):
    engine = LocalEngine(as_views(raw_views(0, 60, (5, 4), sparse=sparse)), normalize=normalize)
    marks, some = np.arange(0, 60, 4), np.array([3, 7, 8, 20, 59] * 4)
    search = Search.of(engine, engine.take(marks), 5, halfway_widths(engine))
    find_nearest(engine, search)
    few = nearest_of(engine.take(some), search)
    assert (few == engine.gather("near")[some]).all()


def noisy():
    """Clusters that single features hardly tell, as in texts: near samples are seldom alike."""
    rng = np.random.default_rng(0)
    y = np.arange(600) % 4
    words = rng.random((4, 400)) ** 4
    views = [rng.poisson(0.1 * words[y] + 0.05 * rng.random(400)).astype(float) for _ in range(2)]
    return views, y


def digits():
    X, y = (array[:900] for array in load_digits(return_X_y=True))
    images = X.reshape(-1, 8, 8)
    return [X, np.hstack([images.sum(axis=1), images.sum(axis=2)])], y


class TestClearestLook:
    @pytest.mark.parametrize(("made", "expected"), [(noisy, 0), (digits, 1)])
    def test_finds_how_far_to_look(self, made, expected):
        views, y = made()
        n_clusters = np.unique(y).size
        engine = LocalEngine(as_views(views), normalize="rows")
        for seed in range(3):
            rng = np.random.default_rng(seed)
            marks = engine.take(np.sort(rng.choice(y.size, y.size // 3, replace=False)))
            searches = [look.search(engine, marks, n_clusters) for look in (FAR_LOOK, NEAR_LOOK)]
            found = clearest_look(engine, searches, n_clusters, np.random.default_rng(seed))
            alone = clearest_look(engine, [found[0]], n_clusters, np.random.default_rng(seed))
            assert found[0] is searches[expected]
            assert found[1] == pytest.approx(alone[1], rel=0.05)  # k-means has another seed

    def test_copies_of_a_few_samples_are_no_clusters(self, monkeypatch):
        rng = np.random.default_rng(0)
        y = np.arange(1200) % 4
        views = [1.3 * rng.normal(size=(4, 10))[y] + rng.normal(size=(1200, 10)) for _ in range(2)]
        rows = np.append(np.arange(1200), np.repeat(rng.choice(1200, 20, replace=False), 12))
        engine = LocalEngine(as_views([X[rows] for X in views]), normalize="rows")
        monkeypatch.setattr("manyview.graph.estimator.EXACT_LIMIT", 50)
        monkeypatch.setattr("manyview.graph.estimator.N_LANDMARKS", 400)
        for seed in range(4):
            graph_start(engine, 4, np.random.default_rng(seed))
            assert score_all(y[rows], engine.gather("labels"))["ari"] > 0.9

    @pytest.mark.parametrize("made", [noisy, digits])
    def test_what_it_finds_serves_better(self, made, monkeypatch):
        views, y = made()
        n_clusters = np.unique(y).size
        engine = LocalEngine(as_views(views), normalize="rows")
        monkeypatch.setattr("manyview.graph.estimator.EXACT_LIMIT", 50)
        monkeypatch.setattr("manyview.graph.estimator.N_LANDMARKS", y.size // 3)

        def quality(*looks):
            monkeypatch.setattr("manyview.graph.estimator.LOOKS", looks)
            graph_start(engine, n_clusters, np.random.default_rng(0))
            return score_all(y, engine.gather("labels"))["nmi_geometric"]

        both = [quality(look) for look in (FAR_LOOK, NEAR_LOOK)]
        assert quality(FAR_LOOK, NEAR_LOOK) >= max(both) - 0.02
        assert max(both) > min(both) + 0.03
