import sys
from contextlib import suppress

from manyview.progress import ProgressBar


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
    assert written.count("\r") == 2
    assert written.count("\n") == 1


def test_nothing_unless_asked_for(capsys):
    with ProgressBar("work", total=3, shown=False) as bar:
        bar.step(1, "a")
    assert capsys.readouterr().err == ""


def test_the_last_step_is_told_where_the_work_ends_early(capsys):
    with ProgressBar("work", total=100, shown=True) as bar:
        for done in range(1, 5):
            bar.step(done, f"value {done}")
    first, last = capsys.readouterr().err.splitlines()
    assert first.endswith("1/100 value 1")
    assert last.endswith("4/100 value 4, ended")


def test_a_line_is_no_longer_than_the_terminal_is_wide(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    with ProgressBar("work", total=3, shown=True) as bar:
        bar.step(1, "a long word")
    written = capsys.readouterr().err
    assert written == "\r" + "work [########----------------"[:29] + "\x1b[K\n"


def test_a_process_may_lack_standard_error(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with ProgressBar("work", total=3, shown=True) as bar:
        bar.step(1, "a")


def test_work_that_fails_has_not_ended(capsys):
    with suppress(RuntimeError), ProgressBar("work", total=3, shown=True) as bar:
        bar.step(1, "a")
        raise RuntimeError
    assert capsys.readouterr().err == "work [########----------------] 1/3 a\n"
