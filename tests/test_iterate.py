import pytest
from sklearn.exceptions import ConvergenceWarning

from manyview.exceptions import InterruptWarning
from manyview.iterate import Iterated, iterate, warn_if_early


def halved(x):
    return x / 2, x / 2


def interrupted_at(n):
    """Halve, but for the n-th time."""
    done = []

    def step(x):
        if len(done) == n:
            raise KeyboardInterrupt
        done.append(x)
        return halved(x)

    return step


class TestIterate:
    def test_ends_when_settled(self):
        found = iterate(halved, 8.0, max_iter=9, settled=lambda x, values: x == 2.0)
        assert found == Iterated(2.0, [4.0, 2.0], converged=True)

    def test_ends_when_iterations_run_out(self):
        found = iterate(halved, 8.0, max_iter=3, settled=lambda x, values: False)
        assert found == Iterated(1.0, [4.0, 2.0, 1.0])

    def test_every_iteration_is_told(self):
        told = []
        iterate(
            halved,
            8.0,
            max_iter=2,
            settled=lambda x, values: False,
            on_iteration=lambda *told_of: told.append(told_of),
        )
        assert told == [(1, 4.0), (2, 2.0)]

    def test_an_interrupt_leaves_the_last_whole_iteration(self):
        found = iterate(interrupted_at(2), 8.0, max_iter=9, settled=lambda x, values: False)
        assert found == Iterated(2.0, [4.0, 2.0], interrupted=True)

    def test_an_interrupt_before_anything_is_done_is_passed_on(self):
        with pytest.raises(KeyboardInterrupt):
            iterate(interrupted_at(0), 8.0, max_iter=9, settled=lambda x, values: False)


class TestWarning:
    def test_none_of_what_settled(self):
        warn_if_early(Iterated(1.0, [1.0], converged=True), remedy="wait")

    def test_of_what_ran_out(self):
        with pytest.warns(ConvergenceWarning, match="the misfit was .* max_iter=1 .*; wait"):
            warn_if_early(Iterated(1.0, [1.0]), what="the misfit", remedy="wait")

    def test_of_what_was_interrupted(self):
        with pytest.warns(InterruptWarning, match="interrupted: .* 1 whole iterations"):
            warn_if_early(Iterated(1.0, [1.0], interrupted=True), remedy="wait")
