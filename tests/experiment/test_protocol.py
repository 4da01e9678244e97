import numpy as np
import pytest

from manyview.datasets import Dataset, make_views
from manyview.experiment import Method, compare, summarise

EASY = make_views(60, 3, (6, 5), random_state=0)
DATA = Dataset(EASY.views, EASY.y, name="easy")


class Labeller:
    """An estimator whose accuracy its parameter decides."""

    def __init__(self, n_clusters, random_state, right=1.0):
        self.right, self.seed, self.n_clusters = right, random_state, n_clusters

    def fit(self, views):
        if self.right < 0:
            raise ValueError("cannot")
        rng = np.random.default_rng(self.seed)
        wrong = rng.random(views.n_samples) >= self.right
        self.labels_ = np.where(wrong, rng.integers(0, 3, views.n_samples), EASY.y)
        self.n_iter_ = 1
        return self


GRID = tuple({"right": right} for right in (0.2, 0.9, 0.5))


def test_default_and_tuned_are_rows_of_their_own():
    seen = []
    method = Method("labeller", Labeller, {"right": 0.3}, GRID)
    runs = compare([method], [DATA], repeats=4, tune=True, on_run=seen.append)
    assert seen == runs
    assert [run.seed for run in runs] == [0, 1, 2, 3] * 2
    default, tuned = summarise(runs)
    assert (default.tuned, tuned.tuned) == (False, True)
    assert {run.params["right"] for run in runs if run.tuned} == {0.9}
    assert tuned.mean["acc"] > default.mean["acc"]
    assert default.n_runs == 4
    assert default.std["acc"] > 0


def test_a_method_that_fails_is_a_row_with_its_reason():
    broken = Method("broken", Labeller, {"right": -1.0})
    fine = Method("fine", Labeller)
    rows = summarise(compare([broken, fine], [DATA], repeats=2))
    assert rows[0].errors == ("cannot",)
    assert rows[0].n_runs == 0
    assert rows[1].mean["acc"] == 1.0


def test_repeats_and_classes_are_needed():
    with pytest.raises(ValueError, match="repeats=0; expected at least 1"):
        compare([], [DATA], repeats=0)
    with pytest.raises(ValueError, match="data set 'bare' has no classes"):
        compare([], [Dataset(EASY.views, None, name="bare")], repeats=1)
