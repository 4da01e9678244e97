"""The command as such: its help, its exit, and what it says where something is missing."""

import re
import sys
from importlib.metadata import entry_points

import pytest

from manyview import __version__
from manyview.cli import main

from .command import assert_refused, plain, run


def test_the_installed_command_is_main() -> None:
    (script,) = entry_points(group="console_scripts", name="manyview")
    assert script.value == "manyview.cli:main"


def test_version() -> None:
    assert run("--version").stdout == f"manyview {__version__}\n"


@pytest.mark.parametrize("args", [[], ["--help"], ["-h"]])
def test_help_lists_the_commands_and_examples(args: list[str]) -> None:
    result = run(*args)
    text = plain(result.stdout)
    assert result.exit_code == 0
    assert "manyview fit news.npz -k 6 --out labels.csv" in text
    assert re.search(r"\bdemo\b.*digits", text)
    assert "completion" not in text


def test_unknown_commands_are_refused() -> None:
    assert_refused(run("fti"), r"No such command 'fti'")
    assert_refused(run("--nope"), r"--nope")


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_its_extra_the_command_says_what_to_install(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("manyview.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.startswith(f"{missing}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == ("the command line needs the extra 'app': pip install 'manyview[app]'\n")


def test_an_interrupt_while_it_is_imported_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupt:
        def find_spec(self, name: str, path: object, target: object = None) -> None:
            if name == "manyview.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "manyview.cli.app")
    monkeypatch.setattr(sys, "meta_path", [Interrupt(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "manyview: interrupted: nothing was done\n"


def test_other_missing_modules_are_not_blamed_on_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "manyview.cli.app")
    monkeypatch.setitem(sys.modules, "manyview.cli.demo", None)
    with pytest.raises(ModuleNotFoundError, match=r"manyview\.cli\.demo"):
        main()
