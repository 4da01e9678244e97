from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from manyview import MMC
from manyview.datasets import make_views
from manyview.mmc import explain
from manyview.mmc.model import Factors


@pytest.fixture(scope="module")
def plain():
    """A model of views whose features have names."""
    views, _ = make_views(90, 3, (6, 5), random_state=0)
    frames = [
        pd.DataFrame(view, columns=[f"{name}{at}" for at in range(view.shape[1])])
        for name, view in zip("ab", views, strict=True)
    ]
    return MMC(3, random_state=0).fit(dict(zip(("first", "second"), frames, strict=True)))


def made(seed, widths, rank=3, n_clusters=2):
    rng = np.random.default_rng(seed)
    views = tuple(rng.standard_normal((width + 1, rank)) for width in widths)
    for factor in views:
        factor[rng.random(len(factor)) < 0.2] = 0.0
    return Factors(views, rng.standard_normal((n_clusters, rank)))


def by_hand(factors, cluster, views, order):
    """Return all combinations with a weight above zero, largest first."""
    found = []
    for chosen in combinations(views, order):
        for places in product(*(range(len(factors.views[view]) - 1) for view in chosen)):
            rows = [factor[-1] for factor in factors.views]
            for view, place in zip(chosen, places, strict=True):
                rows[view] = factors.views[view][place]
            weight = np.prod([factors.clusters[cluster], *rows], axis=0).sum()
            if weight > 0:
                found.append((weight, chosen, places))
    return sorted(found, reverse=True)


@given(
    seed=st.integers(0, 10**6),
    widths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    top=st.integers(1, 12),
)
def test_what_is_found_are_the_largest_entries_of_the_tensor(seed, widths, top):
    factors = made(seed, widths)
    views = range(len(widths))
    for order in range(1, len(widths) + 1):
        expected = by_hand(factors, 1, views, order)[:top]
        found = explain.strongest(factors, 1, views, order, top)
        np.testing.assert_allclose([w for w, *_ in found], [w for w, *_ in expected], rtol=1e-9)
        assert [parts for _, *parts in found] == [list(parts) for _, *parts in expected]


def test_rows_are_taken_some_at_a_time(monkeypatch):
    factors = made(1, (40, 30))
    whole = explain.strongest(factors, 0, (0, 1), 2, 25)
    monkeypatch.setattr(explain, "_AT_ONCE", 64)
    assert explain.strongest(factors, 0, (0, 1), 2, 25) == whole


def test_bounds_spare_most_of_the_work(monkeypatch):
    # a loud feature in each view: products of the others cannot come near
    rng = np.random.default_rng(0)
    views = [rng.uniform(0.5, 1.0, (200, 4)) for _ in range(3)]
    for factor in views:
        factor[7] *= 100.0
    calls = []
    offer = explain._Best.offer
    monkeypatch.setattr(
        explain._Best, "offer", lambda self, *args: (calls.append(1), offer(self, *args))
    )
    found = explain.strongest(Factors(tuple(views), np.ones((1, 4))), 0, (0, 1, 2), 3, 1)
    assert found[0][2] == (7, 7, 7)
    assert len(calls) == 1


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_weight_is_what_the_product_adds_to_the_prediction(order):
    views, _ = make_views(90, 3, (5, 4, 3), random_state=0)
    model = MMC(3, normalize=None, random_state=0).fit(list(views))
    for entry in model.explain(order, top=3):
        at = [
            (model.view_names_.index(view), int(name.split()[1])) for view, name in entry.features
        ]
        added = 0.0
        for size in range(order + 1):
            for some in combinations(at, size):
                sample = [np.zeros((1, width)) for width in model.n_features_in_]
                for view, place in some:
                    sample[view][0, place] = 1.0
                added += (-1) ** (order - size) * model.transform(sample)[0, entry.cluster]
        assert entry.weight == pytest.approx(added, rel=1e-6, abs=1e-9)


def test_an_orthogonal_indicator_is_read_by_its_centres():
    views, _ = make_views(90, 3, (5, 4), random_state=0)
    model = MMC(3, normalize=None, indicator="orthogonal", random_state=0).fit(list(views))
    (entry, *_) = model.explain(1, top=1)
    [(view, name)] = entry.features
    samples = [np.zeros((2, width)) for width in model.n_features_in_]
    samples[model.view_names_.index(view)][1, int(name.split()[1])] = 1.0
    nothing, single = model.transform(samples)
    readout = model._readout
    expected = (single - nothing) @ readout.rotation @ readout.centres[entry.cluster]
    assert entry.weight == pytest.approx(expected, rel=1e-6)


def test_products_speak_for_clusters_that_show_in_products_only():
    views, _ = make_views(600, 2, (6, 6), structure="interaction", random_state=0)
    model = MMC(2, random_state=0).fit(views)
    alone, together = ([c.weight for c in model.explain(order, top=1)] or [0.0] for order in (1, 2))
    assert min(together) > 2 * max(alone)


def test_features_that_speak_for_a_cluster_are_those_that_are_high_in_it():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    words = rng.poisson(0.3, (120, 30)) + 3.0 * (np.arange(30) // 10 == y[:, None])
    other = rng.poisson(0.3, (120, 15)) + 3.0 * (np.arange(15) // 5 == y[:, None])
    model = MMC(3, random_state=0).fit({"words": words, "other": other})
    for entry in model.explain(top=8):
        group = np.bincount(y[model.labels_ == entry.cluster]).argmax()
        (first, word), (second, feature) = entry.features
        assert (first, second) == ("words", "other")
        assert int(word.split()[1]) // 10 == group
        assert int(feature.split()[1]) // 5 == group


def test_it_comes_by_cluster_and_largest_first(plain):
    found = plain.explain(1, top=4)
    assert [c.cluster for c in found] == sorted(c.cluster for c in found)
    assert {c.cluster for c in found} == {0, 1, 2}
    for cluster in range(3):
        weights = [c.weight for c in found if c.cluster == cluster]
        assert weights == sorted(weights, reverse=True)
        assert 0 < len(weights) <= 4


def test_names_are_those_of_the_views(plain):
    names = dict(zip(plain.view_names_, plain.feature_names_in_, strict=True))
    for entry in plain.explain():
        assert len({view for view, _ in entry.features}) == 2
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
    for entry in model.explain(1, top=400):
        [(view, name)] = entry.features
        assert int(name.split()[1]) not in dropped[model.view_names_.index(view)]


def test_one_view_has_single_features():
    views, _ = make_views(90, 3, (6,), random_state=0)
    model = MMC(3, random_state=0).fit(views)
    assert all(len(c.features) == 1 for c in model.explain())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 0}, "order=0; expected 1 to 2, as a product has at most one feature of each"),
        ({"order": 3}, "order=3; expected 1 to 2"),
        ({"order": 2, "views": ["view0"]}, "order=2; expected 1 to 1"),
        ({"top": 0}, "top=0; expected at least 1"),
        ({"views": ["image"]}, "no view 'image'; the views are view0, view1"),
        ({"views": [2]}, "view=2; expected 0 to 1 or a name: view0, view1"),
        ({"views": []}, "has no view; expected some of"),
    ],
)
def test_what_cannot_be_asked_is_told(options, message):
    views, _ = make_views(60, 3, (4, 4), random_state=0)
    model = MMC(3, random_state=0).fit(list(views))
    with pytest.raises(ValueError, match=message):
        model.explain(**options)


def test_a_model_has_to_be_fitted():
    with pytest.raises(NotFittedError):
        MMC(3).explain()
