from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import friedmanchisquare

from manyview.experiment import Run, summarise
from manyview.experiment.significance import (
    critical_difference,
    paired_differences,
    rank_methods,
)


def made(scores, protocol="default", preprocessing="none"):
    """Runs of methods with given scores: data set -> method -> one score a seed."""
    return [
        Run(method, data, seed, protocol, {}, preprocessing, {"nmi_geometric": value})
        for data, methods in scores.items()
        for method, values in methods.items()
        for seed, value in enumerate(values)
    ]


def differ(runs):
    return paired_differences(runs, "a", "ari")


def table(n_sets=6, seed=0):
    rng = np.random.default_rng(seed)
    return {
        f"set{s}": {m: rng.random(4) + lift for m, lift in (("a", 0.5), ("b", 0.0), ("c", 0.0))}
        for s in range(n_sets)
    }


class TestRanks:
    def test_the_best_has_rank_one_and_ties_share(self):
        runs = made({"x": {"a": [0.9], "b": [0.5], "c": [0.5]}})
        assert rank_methods(summarise(runs)).ranks == {"a": 1.0, "b": 2.5, "c": 2.5}

    def test_runs_rank_as_their_rows_do(self):
        runs = made(table())
        runs.append(Run("c", "set9", 0, "default", {}, "none", error="needs too much memory"))
        assert rank_methods(runs) == rank_methods(summarise(runs))

    def test_other_objects_than_runs_and_rows_are_rejected(self):
        runs = made(table())
        with pytest.raises(TypeError, match="dict"):
            rank_methods([{"method": "a"}])
        with pytest.raises(TypeError, match="both Row and Run"):
            rank_methods(runs + summarise(runs))

    def test_an_unknown_score_is_named(self):
        runs = made({"x": {"a": [0.9], "b": [0.5]}})
        for compared in (lambda: rank_methods(summarise(runs), "ari"), lambda: differ(runs)):
            with pytest.raises(ValueError, match=r"score='ari'.*nmi_geometric"):
                compared()

    def test_rounding_errors_are_ties(self):
        almost = np.nextafter(1.0, 0.0)
        runs = made({name: {"a": [1.0], "b": [almost]} for name in "vwxyz"})
        assert rank_methods(summarise(runs)).ranks == {"a": 1.5, "b": 1.5}
        (difference,) = paired_differences(runs, "a")
        assert (difference.low, difference.high, difference.wins) == (0.0, 0.0, 0)

    def test_mean_over_data_sets_best_first(self):
        runs = made(
            {
                "x": {"a": [0.1], "b": [0.9]},
                "y": {"a": [0.2], "b": [0.1]},
                "z": {"a": [0], "b": [1]},
            }
        )
        ranking = rank_methods(summarise(runs))
        assert list(ranking.ranks.items()) == [("b", 4 / 3), ("a", 5 / 3)]
        assert np.isnan(ranking.p_value)

    def test_the_p_value_is_that_of_scipy(self):
        scores = table()
        ranking = rank_methods(summarise(made(scores)))
        means = [[np.mean(scores[s][m]) for s in scores] for m in "abc"]
        assert ranking.p_value == pytest.approx(friedmanchisquare(*means).pvalue)
        assert ranking.critical_difference == pytest.approx(critical_difference(3, 6))

    def test_data_sets_without_runs_of_all_methods_are_omitted(self):
        scores = table(3)
        del scores["set1"]["b"]
        assert rank_methods(summarise(made(scores))).data == ("set0", "set2")

    def test_a_method_without_labels_ranks_last(self):
        runs = made({"x": {"a": [0.1], "b": [0.9]}, "y": {"b": [0.3]}})
        runs.append(Run("a", "y", 0, "default", {}, "none", error="needs too much memory"))
        ranking = rank_methods(summarise(runs))
        assert ranking.data == ("x", "y")
        assert ranking.ranks == {"b": 1.0, "a": 2.0}

    @pytest.mark.parametrize(
        ("n_methods", "n_sets", "expected"),
        # q of 2.343, 2.728 and 3.164 in Demsar's table 5(a)
        [(3, 10, 2.343), (5, 20, 2.728), (10, 30, 3.164)],
    )
    def test_critical_difference_by_the_published_quantiles(self, n_methods, n_sets, expected):
        factor = np.sqrt(n_methods * (n_methods + 1) / (6 * n_sets))
        assert critical_difference(n_methods, n_sets) == pytest.approx(expected * factor, rel=1e-3)


class TestDifferences:
    def test_a_clear_difference_excludes_zero(self):
        above_b, above_c = paired_differences(made(table()), "a")
        assert (above_b.other, above_c.other) == ("b", "c")
        for difference in (above_b, above_c):
            assert 0 < difference.low < difference.mean < difference.high
            assert difference.n_sets == 6

    def test_the_other_way_round_has_the_other_sign(self):
        runs = [run for run in made(table()) if run.method in "ab"]
        (one,) = paired_differences(runs, "a")
        (two,) = paired_differences(runs, "b")
        assert one.mean == pytest.approx(-two.mean)
        assert one.wins + two.wins == 6

    def test_equal_methods_do_not_differ(self):
        values = np.random.default_rng(0).random((4, 5))
        scores = {f"set{s}": {"a": row, "b": row} for s, row in enumerate(values)}
        (difference,) = paired_differences(made(scores), "a")
        assert difference.low == difference.mean == difference.high == 0.0
        assert difference.wins == 0

    def test_pairs_are_of_the_same_seed(self):
        # the difference is 0.1 for every seed, however much the seeds differ
        seeds = np.random.default_rng(0).random(30)
        scores = {"x": {"a": seeds + 0.1, "b": seeds}}
        (difference,) = paired_differences(made(scores), "a")
        assert difference.low == pytest.approx(0.1)
        assert difference.high == pytest.approx(0.1)

    def test_a_data_set_that_is_drawn_twice_draws_its_seeds_twice(self):
        values = np.random.default_rng(0).standard_normal((2, 5))
        values -= values.mean(axis=1, keepdims=True)
        runs = made({n: {"a": v, "b": 0 * v} for n, v in zip("xy", values, strict=True)})
        (found,) = paired_differences(runs, "a", n_resamples=20_000, level=0.3173)
        # the data sets do not differ, and the mean of two draws has half of their variance
        within = np.mean(values.var(axis=1)) / values.shape[1]
        assert (found.high - found.low) / 2 == pytest.approx(np.sqrt(within / 2), rel=0.1)

    def test_rows_have_no_seeds_and_are_rejected(self):
        with pytest.raises(TypeError, match="Row"):
            paired_differences(summarise(made(table())), "a")

    def test_an_unknown_method_is_named(self):
        with pytest.raises(ValueError, match=r"'d'.*a, b, c"):
            paired_differences(made(table()), "d")


@pytest.mark.parametrize("other", [{"protocol": "tuned"}, {"preprocessing": "rows"}])
def test_protocols_and_preprocessings_are_not_mixed(other):
    runs = made(table()) + made(table(), **other)
    with pytest.raises(ValueError, match=r"protocol|preprocessing"):
        paired_differences(runs, "a")
    with pytest.raises(ValueError, match=r"protocol|preprocessing"):
        rank_methods(summarise(runs))


def test_nothing_to_compare():
    with pytest.raises(ValueError, match="no runs to compare"):
        rank_methods([])


def test_settings_are_not_mixed():
    runs = made({"x": {"a": [0.9], "b": [0.5]}})
    runs.append(replace(runs[0], params={"rank": 5}))
    for compared in (lambda: rank_methods(summarise(runs)), lambda: paired_differences(runs, "a")):
        with pytest.raises(ValueError, match="params"):
            compared()
