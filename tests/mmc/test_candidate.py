from manyview.mmc.candidate import Candidate


class WithObjective:
    def __init__(self, value):
        self.objective = [value]


def candidate(value, *, collapsed=False):
    return Candidate(WithObjective(value), *[None] * 4, collapsed=collapsed)


def test_a_collapse_is_ranked_last():
    fine, collapsed = candidate(2.0), candidate(0.1, collapsed=True)
    assert fine.beats(collapsed, by=0.0)
    assert not collapsed.beats(fine, by=0.0)


def test_a_start_must_be_better_by_a_part():
    first, second = candidate(2.0), candidate(1.9)
    assert second.beats(first, by=0.0)
    assert not second.beats(first, by=0.1)
