import numpy as np
import pytest
import scipy.sparse as sp

from manyview import MMC, as_views
from manyview.engine import LocalEngine, RowView
from manyview.graph.affinity import (
    Spread,
    bent,
    column_moments,
    cosines_of,
    evened,
    prepared,
    spread_of,
)
from manyview.graph.neighbours import halfway_widths
from manyview.metrics import adjusted_rand

RNG = np.random.default_rng(0)
X = RNG.poisson(0.8, (12, 7)).astype(float)
X[3] = 0.0
SCALE = np.where(np.arange(12) == 5, 0.0, RNG.random(12) + 0.5)  # the sixth lacks the view
COLUMNS = (X.mean(axis=0), RNG.random(7) + 0.5)
WIDTHS = RNG.random(7) + 0.5


def unit_rows(*, centred):
    centre, width = COLUMNS if centred else (np.zeros(7), np.ones(7))
    rows = (X - centre) * width * WIDTHS
    lengths = np.linalg.norm(rows, axis=1)
    rows = rows / np.where(lengths > 0, lengths, 1.0)[:, None]
    rows[SCALE == 0] = 0.0
    return rows


def by_hand(*, centred):
    rows = unit_rows(centred=centred)
    return rows @ rows.T


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_those_of_rows_that_are_scaled(kind, centred):
    rows = prepared(RowView(kind(X), SCALE), COLUMNS if centred else None, WIDTHS)
    found = cosines_of(rows, rows)
    np.testing.assert_allclose(found, by_hand(centred=centred), atol=1e-12)
    assert not found[5].any()


def test_what_is_given_stays():
    before = X.copy()
    prepared(RowView(X, SCALE), COLUMNS, WIDTHS)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_landmark_that_lacks_the_view_is_as_near_as_others_are_on_average(kind):
    rows = prepared(RowView(kind(X), SCALE), None, WIDTHS)
    plain, found = cosines_of(rows, rows), cosines_of(rows, rows, SCALE == 0)
    here = SCALE > 0
    np.testing.assert_allclose(found[:, 5], plain[:, here].mean(axis=1))
    np.testing.assert_array_equal(found[:, here], plain[:, here])
    assert not found[5].any()  # a row that lacks it tells no landmark from another


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_moments_are_of_columns_of_unit_rows(kind, centred):
    means, squares = column_moments(
        prepared(RowView(kind(X), SCALE), COLUMNS if centred else None, WIDTHS)
    )
    rows = unit_rows(centred=centred)
    np.testing.assert_allclose(means, rows.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(squares, np.mean(rows**2, axis=0), atol=1e-12)


def spread_in(X_TEST_SPREAD, normalize=None):
    engine = LocalEngine(as_views([X_TEST_SPREAD], warn=False), normalize=normalize)
    (view,) = engine.take(np.arange(X_TEST_SPREAD.shape[0]))
    (widths,) = halfway_widths(engine)
    return spread_of(view, engine.scalings[0].columns, widths)


def by_definition(X_TEST_SPREAD):
    X_TEST_SPREAD = X_TEST_SPREAD / np.sqrt(np.sqrt(np.mean(X_TEST_SPREAD**2, axis=0)))
    X_TEST_SPREAD = X_TEST_SPREAD / np.linalg.norm(X_TEST_SPREAD, axis=1, keepdims=True)
    return np.std((X_TEST_SPREAD @ X_TEST_SPREAD.T)[np.triu_indices(X_TEST_SPREAD.shape[0], 1)])


@pytest.fixture
def X_TEST_SPREAD():
    rng = np.random.default_rng(0)
    return rng.standard_normal((60, 7)) * rng.uniform(0.1, 5.0, 7) + 0.3


class TestSpread:
    @pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
    def test_is_the_deviation_of_cosines_of_different_rows(self, X_TEST_SPREAD, convert):
        assert spread_in(convert(X_TEST_SPREAD)).deviation == pytest.approx(
            by_definition(X_TEST_SPREAD)
        )

    @pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
    def test_is_of_features_as_they_are_scaled(self, X_TEST_SPREAD, convert):
        scaled = (X_TEST_SPREAD - X_TEST_SPREAD.mean(axis=0)) / X_TEST_SPREAD.std(axis=0)
        assert spread_in(convert(X_TEST_SPREAD), "columns").deviation == pytest.approx(
            by_definition(scaled)
        )

    def test_does_not_know_the_scale_of_a_view(self, X_TEST_SPREAD):
        assert spread_in(1e3 * X_TEST_SPREAD) == pytest.approx(spread_in(X_TEST_SPREAD))

    def test_leaves_out_rows_that_lack_the_view(self, X_TEST_SPREAD):
        lacking = np.arange(60) % 3 == 0
        # of the engine's moments, which are of all rows, as zeros
        widths = np.mean(np.where(lacking[:, None], 0.0, X_TEST_SPREAD) ** 2, axis=0) ** -0.25
        rows = (X_TEST_SPREAD * widths)[~lacking]
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        expected = np.std((rows @ rows.T)[np.triu_indices(rows.shape[0], 1)])
        views = as_views([X_TEST_SPREAD, X_TEST_SPREAD], present=np.c_[~lacking, np.ones(60, bool)])
        engine = LocalEngine(views, normalize=None)
        view, _ = engine.take(np.arange(60))
        found = spread_of(view, None, halfway_widths(engine)[0])
        assert found.deviation == pytest.approx(expected)

    def test_of_many_rows_is_that_of_some(self, X_TEST_SPREAD):
        many = np.random.default_rng(0).standard_normal((1500, 7))
        assert spread_in(many).deviation != pytest.approx(by_definition(many))
        assert spread_in(many).deviation == pytest.approx(by_definition(many), rel=0.02)

    @pytest.mark.parametrize("n", [1, 2])
    def test_of_hardly_any_rows_is_none(self, X_TEST_SPREAD, n):
        assert spread_in(X_TEST_SPREAD[:n])[:2] == pytest.approx((0.0, 0.0), abs=1e-12)

    def test_of_rows_that_are_equal_is_none(self):
        assert spread_in(np.ones((20, 3))).deviation == pytest.approx(0.0, abs=1e-12)


class TestBent:
    def test_what_is_beyond_counts_less_and_keeps_its_order(self):
        cosines = np.linspace(-1.0, 1.0, 101)
        found = bent(cosines.copy(), 0.5)
        np.testing.assert_allclose(found[cosines <= 0.5], cosines[cosines <= 0.5])
        assert (np.diff(found) > 0).all()
        assert 0.5 < found[-1] < 0.75

    def test_few_features_have_nothing_beyond(self, X_TEST_SPREAD):
        assert spread_in(X_TEST_SPREAD[:, :3]).bound > 1.0

    def test_the_rare_pairs_that_share_a_name_are_beyond(self):
        names = sp.csr_array(np.eye(100)[np.random.default_rng(0).integers(100, size=400)])
        spread = spread_in(names)
        assert spread.bound < 0.5
        assert spread.deviation < 0.75 * by_definition(names.toarray() + 1e-12)


class TestTogether:
    """The part of the cosines' variance that is there because features go together."""

    @pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
    @pytest.mark.parametrize("normalize", [None, "rows", "columns"])
    @pytest.mark.parametrize("d", [1, 3, 40, 300])
    def test_noise_has_none(self, d, normalize, convert):
        X_TEST_SPREAD = np.random.default_rng(0).standard_normal((400, d))
        assert spread_in(convert(X_TEST_SPREAD), normalize).together < 0.05

    def test_nor_have_rare_counts(self):
        X_TEST_SPREAD = np.random.default_rng(0).poisson(0.1, (400, 200)).astype(float)
        assert spread_in(sp.csr_array(X_TEST_SPREAD)).together < 0.05

    @pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
    @pytest.mark.parametrize("normalize", [None, "columns"])
    def test_clusters_have(self, normalize, convert):
        rng = np.random.default_rng(0)
        X_TEST_SPREAD = (
            rng.standard_normal((400, 30)) + 1.5 * rng.standard_normal((4, 30))[np.arange(400) % 4]
        )
        assert spread_in(convert(X_TEST_SPREAD), normalize).together > 0.5

    def test_is_lost_where_every_feature_is_shuffled(self):
        rng = np.random.default_rng(0)
        X_TEST_SPREAD = np.abs(rng.standard_normal((400, 3)) @ rng.standard_normal((3, 50)))
        assert spread_in(X_TEST_SPREAD).together > 0.8
        assert spread_in(rng.permuted(X_TEST_SPREAD, axis=0)).together < 0.25


class TestEvened:
    def test_a_view_that_says_nothing_comes_down_to_the_narrowest_that_does(self):
        views = [Spread(0.1, 0.9), Spread(0.05, 0.5), Spread(0.5, 0.0), Spread(0.25, 0.0)]
        assert evened(views) == pytest.approx([1.0, 1.0, 0.1, 0.2])

    def test_one_that_says_something_comes_down_less_far(self):
        assert evened([Spread(0.1, 0.9), Spread(0.5, 0.125)]) == pytest.approx([1.0, 0.5])

    def test_the_widest_stays_if_it_says_something(self):
        assert evened([Spread(0.01, 0.9), Spread(0.9, 0.3)]) == [1.0, 1.0]

    def test_a_narrow_view_stays_whatever_it_says(self):
        assert evened([Spread(0.1, 0.9), Spread(0.02, 0.0)]) == [1.0, 1.0]

    def test_where_little_is_said_the_best_is_trusted(self):
        assert evened([Spread(0.1, 0.1), Spread(0.5, 0.0)]) == pytest.approx([1.0, 0.2])

    @pytest.mark.parametrize("together", [0.0, 0.02])
    def test_where_nothing_is_said_all_stay(self, together):
        assert evened([Spread(0.1, together), Spread(0.5, 0.0)]) == [1.0, 1.0]

    def test_views_that_are_constant_or_alone_stay(self):
        assert evened([Spread(0.0, 0.0), Spread(0.5, 0.9)]) == [1.0, 1.0]
        assert evened([Spread(0.3, 0.0)]) == [1.0]


def patients():
    """240 in four groups: sixty genes and thirty proteins that show them."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=240)
    views = [rng.standard_normal((240, d)) for d in (60, 30)]
    for view in views:
        view[:, :20] += np.kron(np.eye(4), np.full(5, 1.5))[y]  # five features a group
    return views, y, rng


def test_two_columns_of_noise_do_not_decide():
    views, y, rng = patients()
    model = MMC(4, normalize="columns", random_state=0)
    model.fit([*views, rng.standard_normal((240, 2))])
    assert adjusted_rand(y, model.labels_) > 0.8


def test_four_columns_that_know_one_group_do_not_decide():
    views, y, rng = patients()
    clinical = np.c_[rng.standard_normal((240, 3)), rng.integers(2, size=240)]
    clinical[:, 0] += 1.25 * (y == 1)
    clinical[:, 1] += 5.0 * (y == 0)
    model = MMC(4, normalize="columns", random_state=0).fit([*views, clinical])
    assert adjusted_rand(y, model.labels_) > 0.9


@pytest.mark.parametrize("widths", [(3,), (20,), (50, 5)])
def test_noise_of_both_signs_beside_counts_does_not_decide(widths):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    counts = [rng.poisson(rng.gamma(0.5, size=(3, 200))[y]).astype(float) for _ in range(2)]
    noise = [rng.standard_normal((300, width)) for width in widths]
    assert adjusted_rand(y, MMC(3, random_state=0).fit([*counts, *noise]).labels_) > 0.9


def test_words_that_few_samples_share_do_not_decide():
    """Three words each of eighty names: most cosines are 0, and a few are 1."""
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=500)
    means = [rng.standard_normal((10, d)) for d in (60, 40)]
    shapes = [1.0 + mean[y] + 1.5 * rng.standard_normal((500, mean.shape[1])) for mean in means]
    names = np.kron(np.eye(80), np.ones(3))[rng.integers(80, size=500)]
    assert adjusted_rand(y, MMC(10, random_state=0).fit([*shapes, names]).labels_) > 0.9
