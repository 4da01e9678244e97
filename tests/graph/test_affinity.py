import numpy as np
import pytest
import scipy.sparse as sp

from manyview import MultiViewSpectral, as_views
from manyview.engine import LocalEngine, RowView
from manyview.graph.affinity import (
    Spread,
    column_moments,
    compared_by_distance,
    cosines,
    feature_widths,
    inner_products,
    measure_spread,
    prepare_rows,
    product_kernel,
    products_of_known,
    view_weights,
    winsorised,
)
from manyview.metrics import adjusted_rand

RNG = np.random.default_rng(0)
X = RNG.poisson(0.8, (12, 7)).astype(float)
X[3] = 0.0
SCALE = np.where(np.arange(12) == 5, 0.0, RNG.random(12) + 0.5)  # the view of the sixth is missing
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


def cosines_among(rows, missing=None):
    return cosines(inner_products(rows, rows), rows, rows, missing)


class TestProductKernel:
    def test_of_full_order_is_the_product(self):
        a, b, c = np.random.default_rng(0).uniform(-1, 1, (3, 4, 5))
        np.testing.assert_allclose(product_kernel([a, b, c]), (1 + a) * (1 + b) * (1 + c))

    @pytest.mark.parametrize("order", [1, 2, 3])
    def test_of_lower_order_has_the_terms_of_fewer_views(self, order):
        a, b, c = np.random.default_rng(0).uniform(-1, 1, (3, 4, 5))
        terms = [1 + a + b + c, a * b + a * c + b * c, a * b * c]
        np.testing.assert_allclose(product_kernel([a, b, c], order), sum(terms[:order]))

    @pytest.mark.parametrize("n_views", [1, 2, 3])
    def test_of_opposite_samples_is_zero_up_to_rounding(self, n_views):
        opposite = np.full((2, 2), -1.0 - 1e-15)
        kernel = product_kernel([opposite] * n_views + [np.ones((2, 2))])
        np.testing.assert_allclose(kernel, 0.0, atol=1e-14)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_cosines_are_those_of_scaled_rows(kind, centred):
    rows = prepare_rows(RowView(kind(X), SCALE), COLUMNS if centred else None, WIDTHS)
    found = cosines_among(rows)
    np.testing.assert_allclose(found, by_hand(centred=centred), atol=1e-12)
    assert not found[5].any()


def test_given_rows_are_not_changed():
    before = X.copy()
    prepare_rows(RowView(X, SCALE), COLUMNS, WIDTHS)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_landmark_with_a_missing_view_has_the_mean_cosine(kind):
    rows = prepare_rows(RowView(kind(X), SCALE), None, WIDTHS)
    plain, found = cosines_among(rows), cosines_among(rows, SCALE == 0)
    here = SCALE > 0
    np.testing.assert_allclose(found[:, 5], plain[:, here].mean(axis=1))
    np.testing.assert_array_equal(found[:, here], plain[:, here])
    assert not found[5].any()  # nor does a row without the view prefer a landmark


class TestDistances:
    """Standardised rows d apart have ``1 - d^2 / 2`` in place of the cosine, at least -1."""

    def among(self, missing=None):
        rows = prepare_rows(RowView(X, SCALE), COLUMNS, WIDTHS, by_distance=True)
        return cosines_among(rows, missing)

    def test_take_the_place_of_cosines(self):
        rows = ((X - COLUMNS[0]) * COLUMNS[1] * WIDTHS)[SCALE > 0]
        squares = np.sum((rows[:, None] - rows) ** 2, axis=2)
        expected = np.maximum(1.0 - 0.5 * squares, -1.0)
        assert (expected > -1.0).sum() > rows.shape[0]  # not only those of a row with itself
        found = self.among()[np.ix_(SCALE > 0, SCALE > 0)]
        np.testing.assert_allclose(found, expected, atol=1e-12)

    def test_a_missing_view_prefers_no_landmark_and_is_near_on_average(self):
        found, here = self.among(SCALE == 0), SCALE > 0
        assert not found[5].any()
        np.testing.assert_allclose(found[:, 5], found[:, here].mean(axis=1))

    def test_rows_of_missing_views_may_hold_anything(self):
        broken = np.where(SCALE[:, None] == 0, 1e300, X)
        rows = prepare_rows(RowView(broken, SCALE), COLUMNS, WIDTHS, by_distance=True)
        np.testing.assert_array_equal(cosines_among(rows, SCALE == 0), self.among(SCALE == 0))

    def test_are_those_of_dense_standardised_views(self):
        views = as_views([X, X, sp.csr_array(X)], warn=False)
        engine = LocalEngine(views, normalize=["columns", "rows", "columns"])
        assert compared_by_distance(engine, engine.take(np.arange(12))) == [True, False, False]

    @pytest.mark.parametrize("n_constant", [0, 50])
    def test_do_not_depend_on_the_number_of_features(self, rows, n_constant):
        wide = np.hstack([rows] * 3 + [np.ones((60, n_constant))])
        found = []
        for given in (rows, wide):
            engine = LocalEngine(as_views([given]), normalize="columns")
            (view,), (widths,) = engine.take(np.arange(60)), feature_widths(engine, [True])
            found.append(prepare_rows(view, engine.scalings[0].columns, widths, by_distance=True))
        first, second = map(cosines_among, found)
        np.testing.assert_allclose(first, second, atol=1e-12)
        assert found[0].squares.mean() == pytest.approx(1.0)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_column_moments_are_those_of_unit_rows(kind, centred):
    means, squares = column_moments(
        prepare_rows(RowView(kind(X), SCALE), COLUMNS if centred else None, WIDTHS)
    )
    rows = unit_rows(centred=centred)
    np.testing.assert_allclose(means, rows.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(squares, np.mean(rows**2, axis=0), atol=1e-12)


def spread_in(rows, normalize=None):
    engine = LocalEngine(as_views([rows], warn=False), normalize=normalize)
    (view,) = engine.take(np.arange(rows.shape[0]))
    (widths,) = feature_widths(engine, [False])
    return measure_spread(view, engine.scalings[0].columns, widths)


def by_definition(rows):
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.std((rows @ rows.T)[np.triu_indices(rows.shape[0], 1)])


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((60, 7)) * rng.uniform(0.1, 5.0, 7) + 0.3


class TestSpread:
    @pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
    def test_deviation_is_that_of_cosines_between_different_rows(self, rows, convert):
        assert spread_in(convert(rows)).deviation == pytest.approx(by_definition(rows))

    @pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
    def test_features_are_scaled_first(self, rows, convert):
        scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
        assert spread_in(convert(rows), "columns").deviation == pytest.approx(by_definition(scaled))

    def test_the_scale_of_a_view_does_not_matter(self, rows):
        assert spread_in(1e3 * rows) == pytest.approx(spread_in(rows))

    def test_rows_with_a_missing_view_are_left_out(self, rows):
        missing = np.arange(60) % 3 == 0
        views = as_views([rows, rows], present=np.c_[~missing, np.ones(60, bool)])
        engine = LocalEngine(views, normalize=None)
        view, _ = engine.take(np.arange(60))
        found = measure_spread(view, None, np.ones(7))
        assert found.deviation == pytest.approx(by_definition(rows[~missing]))

    def test_some_of_many_rows_are_enough(self):
        many = np.random.default_rng(0).standard_normal((1500, 7))
        assert spread_in(many).deviation != pytest.approx(by_definition(many))
        assert spread_in(many).deviation == pytest.approx(by_definition(many), rel=0.02)

    @pytest.mark.parametrize("n", [1, 2])
    def test_one_or_two_rows_have_no_spread(self, rows, n):
        assert spread_in(rows[:n])[:2] == pytest.approx((0.0, 0.0), abs=1e-12)

    def test_equal_rows_have_no_spread(self):
        assert spread_in(np.ones((20, 3))).deviation == pytest.approx(0.0, abs=1e-12)


class TestWinsorising:
    def test_excess_shrinks_and_keeps_its_order(self):
        values = np.linspace(-1.0, 1.0, 101)
        found = winsorised(values.copy(), 0.5, 0.2)
        np.testing.assert_allclose(found[values <= 0.5], values[values <= 0.5])
        assert (np.diff(found) > 0).all()
        assert 0.5 < found[-1] < 0.75

    def test_cosines_of_few_features_are_left_alone(self, rows):
        assert spread_in(rows[:, :3]).bound > 1.0

    def test_rare_pairs_that_share_a_name_are_winsorised(self):
        names = sp.csr_array(np.eye(100)[np.random.default_rng(0).integers(100, size=400)])
        spread = spread_in(names)
        assert spread.bound < 0.5
        assert spread.deviation < 0.75 * by_definition(names.toarray() + 1e-12)


class TestCoherence:
    """Part of the cosines' variance that is due to correlations between features."""

    @pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
    @pytest.mark.parametrize("normalize", [None, "rows", "columns"])
    @pytest.mark.parametrize("d", [1, 3, 40, 300])
    def test_noise_has_none(self, d, normalize, convert):
        rows = np.random.default_rng(0).standard_normal((400, d))
        assert spread_in(convert(rows), normalize).coherence < 0.05

    def test_rare_counts_have_none(self):
        rows = np.random.default_rng(0).poisson(0.1, (400, 200)).astype(float)
        assert spread_in(sp.csr_array(rows)).coherence < 0.05

    @pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
    @pytest.mark.parametrize("normalize", [None, "columns"])
    def test_clusters_have_some(self, normalize, convert):
        rng = np.random.default_rng(0)
        rows = (
            rng.standard_normal((400, 30)) + 1.5 * rng.standard_normal((4, 30))[np.arange(400) % 4]
        )
        assert spread_in(convert(rows), normalize).coherence > 0.5

    def test_shuffling_every_feature_removes_it(self):
        rng = np.random.default_rng(0)
        rows = np.abs(rng.standard_normal((400, 3)) @ rng.standard_normal((3, 50)))
        assert spread_in(rows).coherence > 0.8
        assert spread_in(rng.permuted(rows, axis=0)).coherence < 0.25


class TestViewWeights:
    def test_uninformative_views_shrink_to_the_narrowest_informative_one(self):
        views = [Spread(0.1, 0.9), Spread(0.05, 0.5), Spread(0.5, 0.0), Spread(0.25, 0.0)]
        assert view_weights(views) == pytest.approx([1.0, 1.0, 0.1, 0.2])

    def test_a_somewhat_informative_view_shrinks_less(self):
        assert view_weights([Spread(0.1, 0.9), Spread(0.5, 0.125)]) == pytest.approx([1.0, 0.5])

    def test_a_wide_informative_view_stays(self):
        assert view_weights([Spread(0.01, 0.9), Spread(0.9, 0.3)]) == [1.0, 1.0]

    def test_a_narrow_uninformative_view_stays(self):
        assert view_weights([Spread(0.1, 0.9), Spread(0.02, 0.0)]) == [1.0, 1.0]

    def test_the_most_informative_of_poor_views_stays(self):
        assert view_weights([Spread(0.1, 0.1), Spread(0.5, 0.0)]) == pytest.approx([1.0, 0.2])

    @pytest.mark.parametrize("coherence", [0.0, 0.02])
    def test_all_stay_if_none_is_informative(self, coherence):
        assert view_weights([Spread(0.1, coherence), Spread(0.5, 0.0)]) == [1.0, 1.0]

    def test_constant_and_single_views_stay(self):
        assert view_weights([Spread(0.0, 0.0), Spread(0.5, 0.9)]) == [1.0, 1.0]
        assert view_weights([Spread(0.3, 0.0)]) == [1.0]


def patients():
    """240 patients in four groups that show in sixty genes and thirty proteins."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=240)
    views = [rng.standard_normal((240, d)) for d in (60, 30)]
    for view in views:
        view[:, :20] += np.kron(np.eye(4), np.full(5, 1.5))[y]  # five features for each group
    return views, y, rng


def test_two_columns_of_noise_do_not_dominate():
    views, y, rng = patients()
    views = [*views, rng.standard_normal((240, 2))]
    labels = MultiViewSpectral(4, normalize="columns", random_state=0).fit_predict(views)
    assert adjusted_rand(y, labels) > 0.8


def test_four_clinical_values_do_not_dominate():
    views, y, rng = patients()
    clinical = np.c_[rng.standard_normal((240, 3)), rng.integers(2, size=240)]
    clinical[:, 0] += 1.25 * (y == 1)
    clinical[:, 1] += 5.0 * (y == 0)
    model = MultiViewSpectral(4, normalize="columns", random_state=0)
    assert adjusted_rand(y, model.fit_predict([*views, clinical])) > 0.9


@pytest.mark.parametrize("widths", [(3,), (20,), (50, 5)])
def test_noise_beside_counts_does_not_dominate(widths):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    counts = [rng.poisson(rng.gamma(0.5, size=(3, 200))[y]).astype(float) for _ in range(2)]
    noise = [rng.standard_normal((300, width)) for width in widths]
    labels = MultiViewSpectral(3, random_state=0).fit_predict([*counts, *noise])
    assert adjusted_rand(y, labels) > 0.9


def test_words_that_few_samples_share_do_not_dominate():
    """Three words each of eighty names: most cosines are 0, and a few are 1."""
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=500)
    means = [rng.standard_normal((10, d)) for d in (60, 40)]
    shapes = [1.0 + mean[y] + 1.5 * rng.standard_normal((500, mean.shape[1])) for mean in means]
    names = np.kron(np.eye(80), np.ones(3))[rng.integers(80, size=500)]
    labels = MultiViewSpectral(10, random_state=0).fit_predict([*shapes, names])
    assert adjusted_rand(y, labels) > 0.9


class TestUnknownEntries:
    """Rows are compared by the features that both have."""

    known = np.random.default_rng(1).random((40, 6)) < 0.7
    values = np.random.default_rng(2).standard_normal((40, 6)) * np.arange(1.0, 7.0)

    def prepared(self, values, known, *, by_distance):
        held = np.where(known, values, 0.0)
        filled = np.where(known, values, held.sum(axis=0) / np.maximum(known.sum(axis=0), 1))
        columns = (np.zeros(6), np.ones(6)) if by_distance else None
        return prepare_rows(RowView(filled, None, known), columns, np.ones(6), by_distance)

    @pytest.mark.parametrize("by_distance", [False, True])
    def test_imply_the_distance_by_these_scaled_up_by_variance(self, by_distance):
        rows = self.prepared(self.values, self.known, by_distance=by_distance)
        found = products_of_known(inner_products(rows, rows), rows, rows)
        held = np.where(self.known, rows.x, np.nan)
        variances = np.nanvar(held, axis=0)
        both = self.known[:, None] & self.known
        squares = np.where(both, (rows.x[:, None] - rows.x) ** 2, 0.0).sum(axis=2)
        share = (both @ variances) / variances.sum()
        squares = np.where(
            share > 0, squares / np.where(share > 0, share, 1.0), 2 * variances.sum()
        )
        lengths = rows.squares if by_distance else np.ones(40)
        expected = 0.5 * (lengths[:, None] + lengths - squares)
        expected = expected if by_distance else np.maximum(expected, -1.0)
        np.testing.assert_allclose(found, expected, atol=1e-9)

    def test_are_not_needed_where_all_is_known(self):
        rows = self.prepared(self.values, np.ones_like(self.known), by_distance=False)
        products = inner_products(rows, rows)
        np.testing.assert_allclose(products_of_known(products.copy(), rows, rows), products)
        plain = prepare_rows(RowView(self.values, None), None, np.ones(6))
        assert products_of_known(products, plain, plain) is products

    def test_of_cosines_stay_in_their_range_however_few_are_known(self):
        known = np.random.default_rng(3).random((40, 6)) < 0.2
        rows = self.prepared(self.values, known, by_distance=False)
        found = products_of_known(inner_products(rows, rows), rows, rows)
        assert found.min() == -1.0
        assert found.max() <= 1.0 + 1e-12

    @pytest.mark.parametrize("by_distance", [False, True])
    def test_of_constant_features_are_those_of_equal_rows(self, by_distance):
        values = np.tile(np.arange(1.0, 7.0), (40, 1))
        rows = self.prepared(values, self.known, by_distance=by_distance)
        found = products_of_known(inner_products(rows, rows), rows, rows)
        np.testing.assert_allclose(found, inner_products(rows, rows))
