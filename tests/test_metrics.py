from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference

from manyview.metrics import (
    _matched,
    _matched_sparsely,
    adjusted_rand,
    clustering_accuracy,
    normalized_mutual_info,
    pairwise_f,
    purity,
    score_all,
)

KEYS = ["acc", "nmi_geometric", "nmi_arithmetic", "nmi_max", "ari", "purity", "pairwise_f"]


@st.composite
def labellings(draw, max_samples=12, max_labels=4):
    """Two labellings of the same samples, not necessarily with as many labels."""
    n = draw(st.integers(1, max_samples))
    label = st.integers(0, max_labels - 1)
    return tuple(np.array(draw(st.lists(label, min_size=n, max_size=n))) for _ in range(2))


def accuracy_over_permutations(y_true, y_pred):
    size = max(y_true.max(), y_pred.max()) + 1
    return max(
        float(np.mean(np.array(renaming)[y_pred] == y_true))
        for renaming in permutations(range(size))
    )


def pairwise_f_over_pairs(y_true, y_pred):
    pairs = list(combinations(range(len(y_true)), 2))
    true = {pair for pair in pairs if y_true[pair[0]] == y_true[pair[1]]}
    pred = {pair for pair in pairs if y_pred[pair[0]] == y_pred[pair[1]]}
    return 2 * len(true & pred) / (len(true) + len(pred)) if true or pred else 1.0


def purity_by_definition(y_true, y_pred):
    clusters = [y_true[y_pred == cluster] for cluster in np.unique(y_pred)]
    return sum(np.unique(c, return_counts=True)[1].max() for c in clusters) / len(y_true)


@given(labellings())
def test_accuracy_is_the_best_over_all_matchings(labels):
    assert clustering_accuracy(*labels) == pytest.approx(accuracy_over_permutations(*labels))


@given(labellings())
def test_pairwise_f_counts_pairs(labels):
    assert pairwise_f(*labels) == pytest.approx(pairwise_f_over_pairs(*labels))


@given(labellings())
def test_purity_is_the_share_of_the_commonest_class(labels):
    assert purity(*labels) == pytest.approx(purity_by_definition(*labels))


@settings(max_examples=20)
@given(labellings(max_samples=40, max_labels=6))
def test_agrees_with_scikit_learn(labels):
    assert adjusted_rand(*labels) == pytest.approx(reference.adjusted_rand_score(*labels))
    for average in ("arithmetic", "geometric", "max", "min"):
        expected = reference.normalized_mutual_info_score(*labels, average_method=average)
        assert normalized_mutual_info(*labels, average=average) == pytest.approx(expected)


@settings(max_examples=20)
@given(labellings(), st.permutations([-7, 0, 3, 11]), st.permutations(["a", "b", "c", "d"]))
def test_renaming_labels_changes_nothing(labels, numbers, words):
    y_true, y_pred = labels
    renamed = score_all(np.array(words)[y_true], np.array(numbers)[y_pred])
    assert renamed == pytest.approx(score_all(y_true, y_pred))


@settings(max_examples=20)
@given(labellings(), st.randoms(use_true_random=False))
def test_the_order_of_samples_changes_nothing(labels, random):
    order = list(range(len(labels[0])))
    random.shuffle(order)
    shuffled = score_all(labels[0][order], labels[1][order])
    assert shuffled == pytest.approx(score_all(*labels))


@settings(max_examples=20)
@given(labellings())
def test_all_but_purity_are_symmetric(labels):
    there, back = score_all(*labels), score_all(*labels[::-1])
    del there["purity"], back["purity"]
    assert there == pytest.approx(back)


@settings(max_examples=20)
@given(labellings())
def test_a_labelling_agrees_with_itself(labels):
    scores = score_all(labels[0], labels[0])
    assert list(scores) == KEYS
    assert scores == pytest.approx(dict.fromkeys(KEYS, 1.0))
    assert max(scores.values()) <= 1.0


@given(labellings())
def test_accuracy_is_at_most_purity(labels):
    assert clustering_accuracy(*labels) <= purity(*labels) + 1e-12


@settings(max_examples=20)
@given(labellings())
def test_normalisers_are_ordered_as_the_averages_are(labels):
    scores = [
        normalized_mutual_info(*labels, average=average)
        for average in ("max", "arithmetic", "geometric", "min")
    ]
    assert scores == sorted(scores) or np.allclose(np.diff(scores).clip(max=0), 0, atol=1e-12)


def test_geometric_is_the_default_normaliser():
    y_true, y_pred = [0, 0, 1, 1], [0, 1, 2, 3]
    assert normalized_mutual_info(y_true, y_pred) == pytest.approx(np.sqrt(0.5))
    assert score_all(y_true, y_pred)["nmi_geometric"] == pytest.approx(np.sqrt(0.5))


def test_one_cluster():
    scores = score_all([0, 0, 0, 1, 2, 2], [0] * 6)
    assert scores["acc"] == scores["purity"] == 0.5
    assert scores["nmi_geometric"] == scores["nmi_arithmetic"] == scores["nmi_max"] == 0.0
    assert scores["ari"] == 0.0
    assert scores["pairwise_f"] == pytest.approx(2 * 4 / (4 + 15))


def test_all_singletons():
    scores = score_all([0, 0, 0, 1, 1, 1], range(6))
    assert scores["acc"] == pytest.approx(2 / 6)
    assert scores["purity"] == 1.0
    assert scores["pairwise_f"] == scores["ari"] == 0.0
    assert score_all(range(6), list("fedcba")) == pytest.approx(dict.fromkeys(KEYS, 1.0))


def test_one_sample():
    assert score_all(["only"], [-1]) == dict.fromkeys(KEYS, 1.0)


@given(st.data())
def test_empty_cells_do_not_change_the_matching(data):
    n, *sizes = (data.draw(st.integers(1, most)) for most in (60, 25, 25))
    label = [st.integers(0, size - 1) for size in sizes]
    given = (data.draw(st.lists(each, min_size=n, max_size=n)) for each in label)
    true, pred = (np.unique(labels, return_inverse=True)[1] for labels in given)
    assert _matched_sparsely(true, pred) == _matched(true, pred)


@pytest.mark.parametrize("n_classes", [3, 700, pytest.param(4000, marks=pytest.mark.slow)])
def test_large_tables_match_as_small_ones_do(n_classes):
    rng = np.random.default_rng(0)
    true, other = rng.integers(0, n_classes, (2, 5000))
    kept = rng.random(5000) < 0.6
    for pred in (other, np.where(kept, true, other), rng.integers(0, 900, 5000)):
        codes = [np.unique(labels, return_inverse=True)[1] for labels in (true, pred)]
        assert _matched_sparsely(*codes) == _matched(*codes)
        assert clustering_accuracy(true, pred) == _matched(*codes) / 5000


def test_many_samples_and_clusters_need_no_square_table():
    n = 200_000
    ids = np.random.default_rng(0).permutation(n)
    assert clustering_accuracy(np.arange(n), ids) == 1.0
    assert clustering_accuracy(np.arange(n), ids // 2) == 0.5
    assert clustering_accuracy(ids % 3, np.arange(n)) == 3 / n
    assert pairwise_f(np.arange(n), np.arange(n) // 2) == 0.0
    assert purity(np.arange(n) // 2, np.arange(n)) == 1.0


@pytest.mark.parametrize(
    "labels",
    [
        np.array([1, 1, -5, 2]),
        np.array([1.5, 1.5, -0.25, np.inf]),
        np.array(["x", "x", "", "z"]),
        np.array([b"x", b"x", b"y", b"z"]),
        np.array(["2020-01-01", "2020-01-01", "2021-01-01", "2022-01-01"], dtype="M8[D]"),
        np.array(["x", "x", 3, ("t", 1)], dtype=object),
        ["x", "x", "y", "z"],
        (1, 1, "1", 2),
        [True, True, 2, 3],
        pd.Series(["x", "x", "y", "z"], index=[9, 9, 1, 0]),
        pd.Series(["x", "x", "y", "z"], dtype="string"),
        pd.Series(["x", "x", "y", "z"], dtype="category"),
        pd.Series([4, 4, 5, 6], dtype="Int64"),
        pd.Categorical(["x", "x", "y", "z"], categories=["z", "q", "y", "x"]),
        pd.Index([4, 4, 5, 6]),
        np.ma.array([4, 4, 5, 6]),
    ],
    ids=lambda labels: f"{type(labels).__name__}-{getattr(labels, 'dtype', '')}",
)
def test_labels_of_any_type(labels):
    assert score_all(labels, [0, 0, 1, 2]) == pytest.approx(dict.fromkeys(KEYS, 1.0))
    assert score_all([0, 0, 1, 2], labels) == pytest.approx(dict.fromkeys(KEYS, 1.0))


def test_boolean_labels():
    assert score_all(np.array([True, False, True]), [0, 1, 0]) == dict.fromkeys(KEYS, 1.0)


@pytest.mark.parametrize(
    "score",
    [clustering_accuracy, normalized_mutual_info, adjusted_rand, purity, pairwise_f, score_all],
)
def test_every_score_validates_labels(score):
    with pytest.raises(ValueError, match="y_true has 3 labels, y_pred has 2"):
        score([0, 1, 1], [0, 1])


@pytest.mark.parametrize("score", [score_all])
class TestErrors:
    def test_lengths_differ(self, score):
        with pytest.raises(ValueError, match="y_true has 3 labels, y_pred has 2"):
            score([0, 1, 1], [0, 1])

    def test_not_one_dimension(self, score):
        with pytest.raises(ValueError, match=r"y_pred .* shape \(2, 1\)"):
            score([0, 1], [[0], [1]])
        with pytest.raises(ValueError, match="y_true has 0"):
            score(3, [0, 1])

    def test_empty(self, score):
        with pytest.raises(ValueError, match="y_true is empty"):
            score([], [])

    def test_ragged(self, score):
        with pytest.raises(ValueError, match="y_true is ragged"):
            score([[0], [1, 2]], [0, 1])

    @pytest.mark.parametrize(
        "labels",
        [
            [0.0, np.nan],
            ["a", np.nan],
            ["a", None],
            pd.Series(["a", pd.NA], dtype="string"),
            pd.Series([1, None], dtype="Int64"),
            pd.Categorical(["a", None]),
            np.array(["2020-01-01", "NaT"], dtype="M8[D]"),
            np.ma.array([0, 1], mask=[False, True]),
        ],
    )
    def test_missing_labels(self, score, labels):
        with pytest.raises(ValueError, match=r"y_pred .* position 1"):
            score([0, 1], labels)

    def test_labels_that_cannot_be_compared(self, score):
        labels = np.empty(2, dtype=object)
        labels[:] = [{}, {}]
        with pytest.raises(TypeError, match="y_pred"):
            score([0, 1], labels)


def test_unknown_normaliser():
    with pytest.raises(ValueError, match="average='mean'"):
        normalized_mutual_info([0], [0], average="mean")


@settings(max_examples=20)
@given(labellings(max_samples=30, max_labels=8))
def test_scores_stay_in_range(labels):
    scores = score_all(*labels)
    assert all(0.0 <= scores[key] <= 1.0 for key in KEYS if key != "ari")
    assert -1.0 <= scores["ari"] <= 1.0
