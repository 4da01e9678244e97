import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.utils import estimator_checks

from manyview import MMC, MultiViewSpectral, as_views
from manyview.datasets import make_views
from manyview.exceptions import ViewWarning
from manyview.experiment import compare, method_named
from manyview.graph.settings import GraphSettings
from manyview.mmc.initial import LabelInitialisation
from tests.engine.places import PLACES, fetched

DATA = make_views(150, 3, (8, 6), separation=6.0, random_state=0)
VIEWS = [np.asarray(X) for X in DATA.views]
SOME = GraphSettings(n_compared=50, compared_per_cluster=0)
both = pytest.mark.parametrize("landmarks", [None, 50], ids=["all", "some"])


def fitted(views=VIEWS, **options):
    return MultiViewSpectral(3, **({"random_state": 0} | options)).fit(views)


class TestFit:
    @both
    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    def test_finds_clear_clusters(self, landmarks, normalize):
        model = fitted(landmarks=landmarks, normalize=normalize)
        assert adjusted_rand_score(DATA.y, model.labels_) > 0.95
        assert (model.n_views_, model.n_features_in_) == (2, [8, 6])

    @both
    def test_embedding_has_unit_rows(self, landmarks):
        embedding = fitted(landmarks=landmarks).embedding_
        assert embedding.shape == (150, 5)
        np.testing.assert_allclose(np.linalg.norm(embedding, axis=1), 1.0)

    def test_affinity_is_a_sparse_symmetric_graph(self):
        affinity = fitted().affinity_
        assert sp.issparse(affinity)
        assert affinity.shape == (150, 150)
        assert abs(affinity - affinity.T).max() == 0.0
        assert affinity.min() == 0.0
        assert not affinity.diagonal().any()

    def test_landmarks_leave_no_affinity(self):
        assert fitted(landmarks=50).affinity_ is None

    def test_many_samples_use_landmarks(self, monkeypatch):
        monkeypatch.setattr(MultiViewSpectral, "_graph_settings", SOME)
        model = fitted()
        assert model.affinity_ is None
        np.testing.assert_array_equal(model.labels_, fitted(landmarks=50).labels_)

    def test_as_many_landmarks_as_samples_change_nothing(self):
        np.testing.assert_array_equal(fitted(landmarks=150).labels_, fitted().labels_)

    def test_neighbourhood_is_relative_to_half_of_an_average_cluster(self):
        for neighbourhood, count in ((1.0, 25), (0.4, 10), (0.01, 5)):
            affinity = fitted(neighbourhood=neighbourhood, graph="product").affinity_
            assert count <= np.diff(affinity.indptr).min() <= np.diff(affinity.indptr).mean()
            assert np.diff(affinity.indptr).mean() <= 2 * count

    @pytest.mark.parametrize("graph", ["all", "product", "sum"])
    def test_default_neighbourhood_is_the_mean_of_a_far_and_a_near_one(self, graph):
        both_sizes, far, near = (
            fitted(neighbourhood=size, graph=graph).affinity_ for size in (None, 1.0, 1 / 16)
        )
        assert abs(both_sizes - (far + near) / 2).max() < 1e-12

    def test_all_links_are_those_of_the_product_and_twice_those_of_the_views(self):
        every, product, views = (fitted(graph=g).affinity_ for g in ("all", "product", "sum"))
        assert abs(every - (product + 2.0 * views)).max() < 1e-12

    @both
    def test_is_reproducible(self, landmarks):
        model = fitted(landmarks=landmarks, n_jobs=1)
        again = clone(model).set_params(n_jobs=2).fit(VIEWS)
        np.testing.assert_array_equal(model.labels_, again.labels_)
        np.testing.assert_allclose(model.embedding_, again.embedding_, atol=1e-9)

    def test_one_cluster(self):
        assert not MultiViewSpectral(1).fit_predict(VIEWS).any()

    def test_verbose_prints_the_unexplained_variance(self, capsys):
        fitted(verbose=1)
        assert "unexplained variance" in capsys.readouterr().err

    def test_new_samples_cannot_be_predicted(self):
        assert not hasattr(fitted(), "predict")


class TestGraph:
    """Which graph is for which views."""

    def test_a_view_of_noise_needs_single_views(self):
        noise = np.random.default_rng(0).standard_normal((150, 8))
        for graph in ("all", "sum"):
            model = fitted([*VIEWS, noise], graph=graph)
            assert adjusted_rand_score(DATA.y, model.labels_) > 0.95

    def test_clusters_in_products_need_the_product(self):
        views, y = make_views(600, 2, (6, 6), structure="interaction", random_state=0)
        scores = {
            graph: adjusted_rand_score(
                y, MultiViewSpectral(2, graph=graph, random_state=0).fit_predict(views)
            )
            for graph in ("product", "sum")
        }
        assert scores["product"] > 0.9
        assert scores["sum"] < 0.2

    def test_of_a_single_view_does_not_matter(self):
        every, product, views = (fitted(VIEWS[:1], graph=g) for g in ("all", "product", "sum"))
        np.testing.assert_array_equal(every.labels_, product.labels_)
        np.testing.assert_array_equal(every.labels_, views.labels_)


@pytest.mark.parametrize("init", ["graph", "kmeans"])
@both
def test_labels_of_the_graph_are_those_from_which_iterations_start(landmarks, init, monkeypatch):
    """``indicator="discrete"`` moves labels; it begins with those of the graph, if asked to."""
    if landmarks:
        monkeypatch.setattr(MMC, "_graph_settings", SOME)
    initial, begin = [], LabelInitialisation.begin

    def recorded(self, engine, *args):
        first = begin(self, engine, *args)
        initial.append(engine.gather("labels").copy())
        return first

    monkeypatch.setattr(LabelInitialisation, "begin", recorded)
    views = make_views(150, 3, (8, 6), separation=1.5, random_state=0).views
    options = {"normalize": "rows", "random_state": 0}
    MMC(3, init=init, indicator="discrete", **options).fit(views)
    found = MultiViewSpectral(3, landmarks=landmarks, **options).fit(views)
    assert np.array_equal(found.labels_, initial.pop()) == (init == "graph")


@both
def test_missing_views(landmarks):
    present = np.random.default_rng(0).random((150, 2)) < 0.7
    present[~present.any(axis=1)] = True
    model = fitted(as_views(VIEWS, present=present), landmarks=landmarks)
    assert adjusted_rand_score(DATA.y, model.labels_) > 0.9


class TestEngines:
    @both
    @pytest.mark.parametrize("place", PLACES)
    @pytest.mark.parametrize("sparse", [False, True])
    def test_agree(self, place, landmarks, sparse):
        views = [sp.csr_array(X) for X in VIEWS] if sparse else VIEWS
        found = fitted([PLACES[place](X) for X in views], landmarks=landmarks)
        expected = fitted(views, landmarks=landmarks)
        np.testing.assert_array_equal(fetched(found.labels_), expected.labels_)
        assert found.embedding_.shape == expected.embedding_.shape
        # eigenvectors of nearly equal eigenvalues may be rotated
        rows, wanted = fetched(found.embedding_), expected.embedding_
        np.testing.assert_allclose(rows @ rows.T, wanted @ wanted.T, atol=1e-5)

    @both
    def test_results_are_where_the_views_are(self, landmarks):
        for place in ("torch", "dask"):
            pytest.importorskip(place)
            views = [PLACES[place](X) for X in VIEWS]
            model = fitted(views, landmarks=landmarks)
            assert type(model.labels_) is type(views[0])
            assert type(model.embedding_) is type(views[0])

    @both
    def test_memory_maps(self, tmp_path, landmarks):
        maps = []
        for v, X in enumerate(VIEWS):
            np.save(tmp_path / f"{v}.npy", X)
            maps.append(np.load(tmp_path / f"{v}.npy", mmap_mode="r"))
        found, expected = fitted(maps, landmarks=landmarks), fitted(landmarks=landmarks)
        np.testing.assert_array_equal(found.labels_, expected.labels_)


class TestInput:
    @pytest.mark.parametrize(
        ("options", "name"),
        [
            ({"neighbourhood": 0.0}, "neighbourhood"),
            ({"neighbourhood": "near"}, "neighbourhood"),
            ({"graph": "both"}, "graph"),
            ({"graph": None}, "graph"),
            ({"landmarks": 0}, "landmarks"),
            ({"landmarks": 2.5}, "landmarks"),
            ({"normalize": "both"}, "normalize"),
            ({"n_jobs": 0}, "n_jobs"),
        ],
    )
    def test_bad_parameters_are_named(self, options, name):
        with pytest.raises(ValueError, match=f"'{name}'"):
            fitted(**options)

    def test_more_clusters_than_samples(self):
        with pytest.raises(ValueError, match="n_clusters"):
            fitted([X[:2] for X in VIEWS])

    def test_cells_may_be_unknown(self):
        rng = np.random.default_rng(0)
        views = [np.where(rng.random(X.shape) < 0.2, np.nan, X) for X in VIEWS]
        assert adjusted_rand_score(DATA.y, fitted(views).labels_) > 0.9

    def test_a_constant_view_is_reported(self):
        with pytest.warns(ViewWarning, match="'view1'"):
            model = fitted([VIEWS[0], np.ones((150, 4))])
        assert adjusted_rand_score(DATA.y, model.labels_) > 0.9

    def test_a_failed_fit_keeps_the_earlier_result(self):
        model = fitted()
        labels = model.labels_
        with pytest.raises(ValueError, match="n_clusters"):
            model.fit([X[:2] for X in VIEWS])
        assert model.labels_ is labels
        assert model.n_features_in_ == [8, 6]


def test_takes_part_in_comparisons():
    runs = compare([method_named("multiviewspectral")], [DATA], repeats=2)
    assert [run.method for run in runs] == ["MultiViewSpectral"] * 2
    assert all(run.scores["acc"] == 1.0 for run in runs)


NOT_APPLICABLE = {
    "check_n_features_in": "n_features_in_ is a list, one number per view",
    "check_n_features_in_after_fitting": "n_features_in_ is a list, one number per view",
    "check_complex_data": "expects scikit-learn's message; ours names the view",
    "check_estimators_empty_data_messages": "expects scikit-learn's message; ours names the view",
    "check_dtype_object": "expects scikit-learn's message; ours names the view",
    "check_array_api_input": "runs only where SCIPY_ARRAY_API is set",
}


class OneView(MultiViewSpectral):
    """MultiViewSpectral for a single X, as scikit-learn's checks call it."""

    def fit(self, X, y=None):
        return super().fit([X])

    def fit_predict(self, X, y=None):
        return self.fit(X).labels_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


def _checks():
    for check in estimator_checks._yield_all_checks(OneView(n_clusters=2), legacy=True):
        name = getattr(check, "func", check).__name__
        if name not in NOT_APPLICABLE:
            yield pytest.param(check, id=name)


@pytest.mark.filterwarnings("ignore:every sample of view:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("check", list(_checks()))
def test_scikit_learn_check(check):
    check("OneView", OneView(n_clusters=2, random_state=0))
