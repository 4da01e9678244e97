import pickle
import sys
from copy import copy
from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from manyview import MMC
from manyview.datasets import make_views
from manyview.engine import Scaling
from manyview.mmc.explain import Combination, combinations_of, strongest
from manyview.mmc.objective import Factors
from manyview.mmc.prediction import CentreReadout, Predictor


@pytest.fixture(scope="module")
def plain():
    """A model of views whose features have names."""
    views, _ = make_views(90, 3, (6, 5), random_state=0)
    frames = [
        pd.DataFrame(view, columns=[f"{name}{at}" for at in range(view.shape[1])])
        for name, view in zip("ab", views, strict=True)
    ]
    return MMC(3, random_state=0).fit(dict(zip(("first", "second"), frames, strict=True)))


@pytest.fixture(scope="module")
def two_views():
    views, _ = make_views(60, 3, (4, 4), random_state=0)
    return MMC(3, random_state=0).fit(list(views))


def made(seed, widths, rank=3):
    rng = np.random.default_rng(seed)
    factors = [rng.standard_normal((width + 1, rank)) for width in widths]
    for factor in factors:
        factor[rng.random(len(factor)) < 0.2] = 0.0
    return factors, rng.standard_normal(rank)


def by_hand(factors, weights, order):
    """Return all combinations with a weight, the largest first."""
    found = []
    for chosen in combinations(range(len(factors)), order):
        for places in product(*(range(len(factors[view]) - 1) for view in chosen)):
            rows = [factor[-1] for factor in factors]
            for view, place in zip(chosen, places, strict=True):
                rows[view] = factors[view][place]
            weight = np.prod([weights, *rows], axis=0).sum()
            if weight:
                found.append((weight, tuple(zip(chosen, places, strict=True))))
    return sorted(found, key=lambda entry: -abs(entry[0]))


def found_in(factors, weights, order, top, **options):
    return strongest(factors, weights, range(len(factors)), order, top, **options)


@given(
    seed=st.integers(0, 10**6),
    widths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    top=st.integers(1, 12),
)
def test_finds_the_largest_entries_of_the_tensor(seed, widths, top):
    factors, weights = made(seed, widths)
    for order in range(1, len(widths) + 1):
        expected = by_hand(factors, weights, order)[:top]
        found = found_in(factors, weights, order, top)
        np.testing.assert_allclose([w for w, _ in found], [w for w, _ in expected], rtol=1e-9)
        assert [places for _, places in found] == [places for _, places in expected]


def test_the_number_of_weights_in_memory_does_not_matter():
    factors, weights = made(1, (40, 30))
    whole = found_in(factors, weights, 2, 25)
    assert len(whole) == 25
    assert found_in(factors, weights, 2, 25, at_once=64) == whole


def test_bounds_prune_features():
    """One loud feature in each view; without bounds there are 10^13 products to compare."""
    rng = np.random.default_rng(0)
    factors = [rng.uniform(0.5, 1.0, (2001, 4)) for _ in range(4)]
    for factor in factors:
        factor[7] *= 100.0
    [(_, places)] = found_in(factors, np.ones(4), 4, 1)
    assert places == ((0, 7), (1, 7), (2, 7), (3, 7))


def added_by(model, entry, read):
    """Return what the product of features alone adds to a reading of the prediction."""
    added = 0.0
    for size in range(len(entry.places) + 1):
        for some in combinations(entry.places, size):
            sample = [np.zeros((1, width)) for width in model.n_features_in_]
            for view, place in some:
                sample[view][0, place] = 1.0
            added += (-1) ** (len(entry.places) - size) * read(model.transform(sample)[0])
    return added


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("penalty", ["l21", "frobenius"])
def test_a_weight_is_what_the_product_adds_to_the_prediction(order, penalty):
    views, _ = make_views(90, 3, (5, 4, 3), random_state=0)
    model = MMC(3, normalize=None, penalty=penalty, random_state=0).fit(list(views))
    found = model.explain(order, top=3)
    assert {entry.cluster for entry in found} == {0, 1, 2}
    for entry in found:
        added = added_by(model, entry, lambda row, k=entry.cluster: row[k])
        assert entry.weight == pytest.approx(added, rel=1e-6, abs=1e-9)


def test_an_orthogonal_indicator_is_explained_by_its_centres():
    rng = np.random.default_rng(0)
    factors, _ = made(0, (5, 4))
    clusters, to_indicator, centres = rng.standard_normal((3, 3, 3))
    scalings = [Scaling(5), Scaling(4)]
    readout = CentreReadout(to_indicator, centres)
    predictor = Predictor(Factors(tuple(factors), clusters), readout, [], None, scalings, False)
    names = SimpleNamespace(view_names_=["a", "b"], feature_names_in_=[None, None])
    found = combinations_of(predictor, names, None, 2, 3, None)
    assert {entry.cluster for entry in found} == {0, 1, 2}
    for k in range(3):
        # a prediction p, mapped to where the centres are, has the product p T centre_k' with one
        expected = by_hand(factors, (to_indicator @ centres[k]) @ clusters, 2)[:3]
        ours = [(entry.weight, entry.places) for entry in found if entry.cluster == k]
        np.testing.assert_allclose([w for w, _ in ours], [w for w, _ in expected])
        assert [places for _, places in ours] == [places for _, places in expected]


def test_products_characterise_clusters_that_show_in_products_only():
    views, _ = make_views(600, 2, (6, 6), structure="interaction", random_state=0)
    model = MMC(2, random_state=0).fit(views)
    assert model.explain(1) == []
    found = model.explain(top=5)
    assert len(found) == 10
    for entry in found:
        assert entry.directions == ("", "")
        assert entry.product == ("high" if entry.weight > 0 else "low")
        assert entry.explains > 0.05
    profile = model.profile()
    for cluster in (0, 1):
        own = [entry for entry in profile if entry.cluster == cluster]
        assert len(own[0].features) == 2


def test_features_that_are_high_in_a_cluster_characterise_it():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    words = rng.poisson(0.3, (120, 30)) + 3.0 * (np.arange(30) // 10 == y[:, None])
    other = rng.poisson(0.3, (120, 15)) + 3.0 * (np.arange(15) // 5 == y[:, None])
    model = MMC(3, random_state=0).fit({"words": words, "other": other})
    found = model.explain(top=8)
    assert {entry.cluster for entry in found} == {0, 1, 2}
    for entry in found:
        group = np.bincount(y[model.labels_ == entry.cluster]).argmax()
        (first, word), (second, feature) = entry.features
        assert (first, second) == ("words", "other")
        assert int(word.split()[1]) // 10 == group
        assert int(feature.split()[1]) // 5 == group


def test_combinations_come_by_cluster_and_largest_first(plain):
    found = plain.explain(1, top=4)
    assert [c.cluster for c in found] == sorted(c.cluster for c in found)
    assert {c.cluster for c in found} == {0, 1, 2}
    for cluster in range(3):
        weights = [c.weight for c in found if c.cluster == cluster]
        assert weights == sorted(weights, key=abs, reverse=True)
        assert 0 < len(weights) <= 4


def test_names_are_those_of_the_views(plain):
    names = dict(zip(plain.view_names_, plain.feature_names_in_, strict=True))
    found = plain.explain()
    assert found
    for entry in found:
        assert len({view for view, _ in entry.features}) == 2
        assert entry.features == tuple(
            (plain.view_names_[v], plain.feature_names_in_[v][i]) for v, i in entry.places
        )
        assert all(feature in names[view] for view, feature in entry.features)


def test_views_can_be_chosen_by_name_or_place(plain):
    name = plain.view_names_[1]
    chosen = plain.explain(1, views=[name])
    assert (
        chosen
        == plain.explain(1, views=[1])
        == plain.explain(views=[1, 1])
        == plain.explain(views=name)
    )
    assert {view for c in chosen for view, _ in c.features} == {name}


def test_dropped_features_do_not_take_part():
    views, _ = make_views(200, 3, (6, 300), random_state=0)
    noise = np.random.default_rng(0).standard_normal((200, 50))
    model = MMC(3, gamma=0.3, random_state=0).fit([*views, noise])
    dropped = [set(np.flatnonzero(~f[:-1].any(axis=1))) for f in model.view_factors_]
    assert any(dropped)
    found = model.explain(1, top=400)
    assert found
    for entry in found:
        [(view, place)] = entry.places
        assert place not in dropped[view]


def test_one_view_has_single_features():
    views, _ = make_views(90, 3, (6,), random_state=0)
    model = MMC(3, random_state=0).fit(views)
    found = model.explain()
    assert found
    assert all(len(c.features) == 1 for c in found)


@pytest.mark.parametrize("options", [{"order": 1}, {"gamma": 0.2, "patience": None}])
def test_without_products_single_features_are_returned(options):
    views, _ = make_views(90, 3, (6,), random_state=0)
    noise = np.random.default_rng(0).standard_normal((90, 30))
    model = MMC(3, random_state=0, **options).fit([*views, noise])
    # by its order, or as the penalty has dropped a view
    assert ("order" in options) == model.view_factors_[1][:-1].any()
    assert model.explain(2) == []
    assert model.explain() == model.explain(1) != []


def test_a_zero_model_has_no_combinations():
    views, _ = make_views(90, 3, (5, 4), random_state=0)
    with pytest.warns(ConvergenceWarning, match="gamma"):
        model = MMC(3, gamma=1e6, random_state=0).fit(list(views))
    assert model.explain() == model.explain(1) == []
    with pytest.raises(ValueError, match="order=3"):
        model.explain(3)


def test_parameters_that_are_set_later_do_not_matter(plain):
    before = plain.explain()
    later = copy(plain).set_params(n_clusters=7, order=1, indicator="orthogonal")
    assert later.explain() == before


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"order": 0}, ValueError, "order=0"),
        ({"order": 3}, ValueError, "order=3"),
        ({"order": 2, "views": ["view0"]}, ValueError, "order=2"),
        ({"order": 1.5}, TypeError, "order=1.5"),
        ({"order": True}, TypeError, "order=True"),
        ({"top": 0}, ValueError, "top=0"),
        ({"top": 2.0}, TypeError, "top=2.0"),
        ({"views": ["image"]}, ValueError, "'image'.*view0, view1"),
        ({"views": [2]}, ValueError, "view=2"),
        ({"views": 1.5}, TypeError, "views=1.5"),
        ({"views": []}, ValueError, r"views=\[\]"),
    ],
)
def test_invalid_arguments_are_rejected(two_views, options, kind, message):
    with pytest.raises(kind, match=message):
        two_views.explain(**options)


def test_a_model_has_to_be_fitted():
    with pytest.raises(NotFittedError):
        MMC(3).explain()


@pytest.fixture(scope="module", params=["rows", "columns"])
def blood(request):
    """Two clusters, one with low values in both views, among features of noise."""
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], 100)
    lipids = rng.normal(50.0, 5.0, (200, 3))
    lipids[:, 0] = rng.normal(np.where(group, 169.0, 91.0), 12.0)
    inflammation = rng.normal(50.0, 5.0, (200, 3))
    inflammation[:, 0] = rng.normal(np.where(group, 5.0, 1.0), 0.5)
    views = {
        "lipids": pd.DataFrame(lipids, columns=["ldl", "noise a", "noise b"]),
        "blood": pd.DataFrame(inflammation, columns=["crp", "noise c", "noise d"]),
    }
    model = MMC(2, normalize=request.param, random_state=0).fit(views)
    low = int(model.labels_[0])
    assert (model.labels_ == np.where(group, 1 - low, low)).all()
    return model, views, low


@pytest.mark.parametrize("order", [1, 2, None])
def test_directions_tell_low_values_from_high_ones(blood, order):
    model, views, low = blood
    found = model.explain(order)
    for cluster in (0, 1):
        entries = [entry for entry in found if entry.cluster == cluster]
        names = {name for entry in entries for _, name in entry.features}
        assert names == {"ldl", "crp"}
        members = model.labels_ == cluster
        for entry in entries:
            assert set(entry.directions) == {"low" if cluster == low else "high"}
            for (view, name), difference in zip(entry.features, entry.differences, strict=True):
                column = views[view][name]
                expected = (column[members].mean(), column[~members].mean(), column.mean())
                np.testing.assert_allclose(difference[1:4], expected)
                effect = (expected[0] - expected[1]) / column.std(ddof=0)
                assert difference.effect == pytest.approx(effect)


def test_explanations_print_in_the_units_of_the_views(blood):
    model, views, low = blood
    mean = views["lipids"]["ldl"].groupby(model.labels_).mean()
    part = repr(model.explain(1)).split(f"cluster {low}")[1].split("cluster")[0]
    assert f"lipids 'ldl' low ({mean[low]:.0f} against {mean[1 - low]:.0f}); weight" in part
    assert "blood 'crp' low (1 against 5); weight" in part
    text = repr(model.profile())
    assert f"cluster {low}: 100 samples (50.0%)" in text
    assert "blood 'crp' low (1 against 5); explains 9" in text


def test_names_are_escaped_in_html():
    rng = np.random.default_rng(0)
    names = ["<script>", "a & b"]
    view = pd.DataFrame(rng.normal(np.repeat([0.0, 9.0], 30)[:, None], 1.0, (60, 2)), columns=names)
    model = MMC(2, random_state=0).fit({"<i>": view})
    for found in (model.explain(), model.profile()):
        html = found._repr_html_()
        assert "<script>" not in html
        assert "<i>" not in html
        assert "&lt;i&gt;" in html
        assert "&lt;script&gt;" in html
        assert "a &amp; b" in html


def test_frames_have_a_row_for_each_combination(blood):
    model, _, low = blood
    found = model.explain(2)
    frame = found.to_frame()
    assert len(frame) == len(found)
    assert frame.weight.tolist() == [entry.weight for entry in found]
    assert frame.direction_2.tolist() == [entry.directions[1] for entry in found]
    profile = model.profile(top=1).to_frame()
    assert profile["size"].tolist() == [100] * len(profile)
    assert (profile.share == 0.5).all()
    assert set(profile[profile.cluster == low].direction_1) == {"low"}
    assert model.explain(1, top=1, views="blood").to_frame().feature_1.tolist() == ["crp"] * 2


def test_frames_need_pandas(blood, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_frame needs pandas"):
        blood[0].explain().to_frame()


def test_products_that_add_nothing_are_not_in_the_profile(blood):
    assert all(len(entry.features) == 1 for entry in blood[0].profile())


@pytest.mark.parametrize("rule", [np.logical_and, np.logical_or])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_profile_says_whether_one_of_two_features_is_enough(rule, sign):
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 400)) < 0.5
    labels = rule(a, b).astype(int)
    views = [5.0 * X[:, None] + rng.normal(0.0, 0.3, (400, 1)) for X in (a, sign * b)]
    model = MMC(2, init=labels, indicator="discrete", normalize="columns", random_state=0)
    model.fit(views)
    np.testing.assert_array_equal(model.labels_, labels)
    lines = [line for line in repr(model.profile()).split("\n") if "adds" in line]
    ends = ["either is enough", "both together"]  # of the samples without, and with both
    for line, end in zip(lines, ends if rule is np.logical_and else ends[::-1], strict=True):
        assert line.endswith(end)


def test_what_explains_most_comes_first_in_a_profile(plain):
    profile = plain.profile(top=4)
    for cluster in range(3):
        explained = [entry.explains for entry in profile if entry.cluster == cluster]
        assert explained == sorted(explained, reverse=True)
        alone = [e for e in profile if e.cluster == cluster and len(e.features) == 1]
        assert 0 < len(alone) <= 4
    assert profile.sizes == np.bincount(plain.labels_).tolist()
    assert pickle.loads(pickle.dumps(profile)).sizes == profile.sizes


def test_weights_of_a_profile_are_those_of_explain(plain):
    known = {(e.cluster, e.places): e.weight for n in (1, 2) for e in plain.explain(n, top=30)}
    shared = [e for e in plain.profile() if (e.cluster, e.places) in known]
    assert shared
    for entry in shared:
        assert entry.weight == pytest.approx(known[entry.cluster, entry.places])


def test_a_profile_of_a_zero_model_describes_the_labels():
    views, _ = make_views(90, 3, (5, 4), random_state=0)
    with pytest.warns(ConvergenceWarning, match="gamma"):
        model = MMC(3, gamma=1e6, random_state=0).fit(list(views))
    profile = model.profile()
    assert sum(profile.sizes) == 90
    assert all(entry.weight == 0.0 for entry in profile)
    assert repr(model.explain()) == "no combinations"


def test_a_cluster_without_differences_says_so():
    profile = MMC(1, random_state=0).fit([np.random.default_rng(0).random((30, 3))]).profile()
    assert repr(profile) == "cluster 0: 30 samples (100.0%)\n  no feature distinguishes it"
    assert "no feature" in profile._repr_html_()


def test_top_of_a_profile_is_checked(plain):
    with pytest.raises(ValueError, match="top=0"):
        plain.profile(top=0)
    with pytest.raises(NotFittedError):
        MMC(3).profile()


def test_fields_without_values_have_defaults():
    entry = Combination(0, 0.5, (("a", "b"),), ((0, 0),))
    assert entry.directions == ()
    assert str(entry) == "cluster 0: a 'b'; weight 0.5"
