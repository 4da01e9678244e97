import pytest

from manyview.mmc import candidate as module
from manyview.mmc.candidate import Candidate, Setup, best_of


class WithObjective:
    def __init__(self, value, *, interrupted=False):
        self.objective = [value]
        self.interrupted = interrupted


def candidate(value, *, collapsed=False, interrupted=False):
    fitted = WithObjective(value, interrupted=interrupted)
    return Candidate(fitted, *[None] * 4, collapsed=collapsed)


def shared(engine):
    return Setup(engine, problem=None, rng=None, bar=None, file=None)


def test_a_collapse_is_ranked_last():
    fine, collapsed = candidate(2.0), candidate(0.1, collapsed=True)
    assert fine.beats(collapsed, by=0.0)
    assert not collapsed.beats(fine, by=0.0)


def test_a_start_must_be_better_by_a_part():
    first, second = candidate(2.0), candidate(1.9)
    assert second.beats(first, by=0.0)
    assert not second.beats(first, by=0.1)


class TestBestOf:
    @pytest.fixture
    def best(self, case, monkeypatch):
        """The best of given candidates, whether interrupted, and how many were carried through."""
        monkeypatch.setattr(module, "carried_through", lambda setup, first, start: first)

        def best(*candidates, by=0.0):
            made = []

            def first(start):
                made.append(start)
                if candidates[start] is None:
                    raise KeyboardInterrupt
                return candidates[start]

            found = best_of(shared(case().engine), first, len(candidates), by=by)
            return *found, len(made)

        return best

    def test_is_the_lowest(self, best):
        starts = [candidate(2.0), candidate(0.1, collapsed=True), candidate(1.9), candidate(1.95)]
        assert best(*starts) == (starts[2], False, 4)
        assert best(*starts, by=0.1) == (starts[0], False, 4)

    def test_an_interrupt_in_a_start_ends_with_the_best_so_far(self, best):
        low, high = candidate(1.0), candidate(2.0)
        assert best(high, low, None, candidate(0.5)) == (low, True, 3)

    @pytest.mark.parametrize("value", [0.5, 1.5])
    def test_an_interrupt_in_the_sweeps_is_the_last_start(self, best, value):
        starts = [candidate(1.0), candidate(value, interrupted=True), candidate(0.1)]
        assert best(*starts) == (starts[value < 1.0], True, 2)
        assert best(*starts[1:]) == (starts[1], True, 1)

    def test_an_interrupt_in_the_first_start_is_passed_on(self, best):
        with pytest.raises(KeyboardInterrupt):
            best(None, candidate(1.0))

    def test_every_start_has_all_features(self, case, monkeypatch):
        engine = case().engine
        seen = []

        def restricting(setup, first, start):
            seen.append([scaling.active for scaling in setup.engine.scalings])
            setup.engine.restrict(0, [0, 1])
            return candidate(1.0)

        monkeypatch.setattr(module, "carried_through", restricting)
        best_of(shared(engine), lambda start: None, 2, by=0.0)
        assert seen == [[None, None]] * 2
