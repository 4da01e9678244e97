"""The commands that measure: what they say of themselves."""

import sys

import pytest

# only `python -m pytest`, in the root of the project, finds the measurements
NOT_HERE = "benchmarks cannot be imported: run python -m pytest in the root of the project"
COMMANDS = [
    pytest.importorskip(f"benchmarks.{name}", reason=NOT_HERE) for name in ("__main__", "cluster")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_the_parts(command, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--help"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "[PART ...]" in shown
    assert "[]" not in shown
    assert all(part in shown for part in command.PARTS)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_part_is_refused(command, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "haste"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert "no such part: haste" in capsys.readouterr().err
