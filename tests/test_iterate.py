import sys
from contextlib import suppress

import pytest
from sklearn.exceptions import ConvergenceWarning

from manyview.exceptions import InterruptWarning
from manyview.iterate import Iterated, ProgressBar, iterate, warn_if_early


def halved(x):
    return x / 2, x / 2


def interrupted_at(n):
    """Return a step that halves, and is interrupted after n calls."""
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

    def test_every_iteration_is_reported(self):
        reported = []
        iterate(
            halved,
            8.0,
            max_iter=2,
            settled=lambda x, values: False,
            on_iteration=lambda *values: reported.append(values),
        )
        assert reported == [(1, 4.0), (2, 2.0)]

    def test_an_interrupt_keeps_the_last_complete_iteration(self):
        found = iterate(interrupted_at(2), 8.0, max_iter=9, settled=lambda x, values: False)
        assert found == Iterated(2.0, [4.0, 2.0], interrupted=True)

    def test_an_early_interrupt_is_raised_again(self):
        with pytest.raises(KeyboardInterrupt):
            iterate(interrupted_at(0), 8.0, max_iter=9, settled=lambda x, values: False)


class TestWarning:
    def test_none_if_converged(self):
        warn_if_early(Iterated(1.0, [1.0], converged=True), remedy="wait")

    def test_if_iterations_run_out(self):
        with pytest.warns(ConvergenceWarning, match=r"the misfit .* max_iter=1 .* wait"):
            warn_if_early(Iterated(1.0, [1.0]), what="the misfit", remedy="wait")

    def test_if_interrupted(self):
        with pytest.warns(InterruptWarning, match="1 whole iterations"):
            warn_if_early(Iterated(1.0, [1.0], interrupted=True), remedy="wait")


def test_a_line_for_each_tenth_in_a_log(capsys):
    with ProgressBar("work", total=100, shown=True) as bar:
        for done in range(1, 101):
            bar.step(done, f"value {done}")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert lines[0].startswith("work [------------------------] 1/100 value 1")
    assert lines[-1] == "work [########################] 100/100 value 100"


def test_one_line_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with ProgressBar("work", total=3, shown=True) as bar:
        bar.step(1, "a")
        bar.step(2, "b")
    written = capsys.readouterr().err
    assert written.count("\r") == 3
    assert written.count("\n") == 1


def test_nothing_is_shown_by_default(capsys):
    with ProgressBar("work", total=3, shown=False) as bar:
        bar.step(1, "a")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("interrupted", "end"),
    [
        (False, "work [########################] done, value 4"),
        (True, "work [------------------------] 4/100 value 4"),
    ],
)
def test_work_that_ends_early_is_complete_unless_it_was_interrupted(capsys, interrupted, end):
    with ProgressBar("work", total=100, shown=True) as bar:
        for done in range(1, 5):
            bar.step(done, f"value {done}")
        bar.interrupted = interrupted
    first, last = capsys.readouterr().err.splitlines()
    assert first.endswith("1/100 value 1")
    assert last == end


def test_a_terminal_shows_the_stage_until_the_next_step(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with ProgressBar("work", total=2, shown=True) as bar:
        bar.stage("neighbours")
        assert capsys.readouterr().err == "\rwork [------------------------] neighbours\x1b[K"
        bar.clear()
        assert capsys.readouterr().err == "\r\x1b[K"
        bar.step(2, "a")
        assert "neighbours" not in capsys.readouterr().err


def test_work_that_fails_in_a_stage_leaves_an_empty_line(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with suppress(RuntimeError), ProgressBar("work", total=2, shown=True) as bar:
        bar.stage("neighbours")
        raise RuntimeError
    assert capsys.readouterr().err.endswith("\r\x1b[K")


def test_a_log_has_no_stages(capsys):
    with ProgressBar("work", total=1, shown=True) as bar:
        bar.stage("neighbours")
        bar.step(1, "a")
    assert capsys.readouterr().err == "work [########################] 1/1 a\n"


def test_a_line_is_no_longer_than_the_terminal_is_wide(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    with ProgressBar("work", total=3, shown=True) as bar:
        bar.step(1, "a long word")
        bar.interrupted = True
    lines = capsys.readouterr().err.split("\x1b[K")
    assert lines == 2 * ["\r" + "work [########----------------"[:29]] + ["\n"]


def test_without_standard_error_nothing_is_shown(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with ProgressBar("work", total=3, shown=True) as bar:
        bar.step(1, "a")


def test_failed_work_is_not_called_ended(capsys):
    with suppress(RuntimeError), ProgressBar("work", total=3, shown=True) as bar:
        bar.step(1, "a")
        raise RuntimeError
    assert capsys.readouterr().err == "work [########----------------] 1/3 a\n"


def test_every_step_is_logged_and_nothing_printed(caplog, capsys):
    with caplog.at_level("DEBUG", "manyview"), ProgressBar("work", total=2, shown=False) as bar:
        bar.step(1, "a")
        bar.step(2, "b")
    assert caplog.messages == ["work 1/2 a", "work 2/2 b"]
    assert capsys.readouterr() == ("", "")
