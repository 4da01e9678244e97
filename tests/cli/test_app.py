"""Help, version and imports of the command."""

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from manyview import __version__, _version
from manyview.cli import main

from .command import assert_rejected, plain, run


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


def test_unknown_commands_are_rejected() -> None:
    assert_rejected(run("fti"), r"No such command 'fti'")
    assert_rejected(run("--nope"), r"--nope")


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_a_missing_extra_is_named(
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
    assert "pip install 'manyview[app]'" in shown.err


def test_an_interrupt_during_the_import_is_one_line(
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
    monkeypatch.setitem(sys.modules, "manyview.cli.console", None)
    with pytest.raises(ModuleNotFoundError, match=r"manyview\.cli\.console"):
        main()


UNUSED_BY_FIT = """
import sys
from typer.testing import CliRunner
from manyview.cli.app import app

assert CliRunner().invoke(app, ["fit", "digits", "-k", "10", "--out", "-"]).exit_code == 0
unused = "manyview.experiment manyview.plotting manyview.report manyview.paper matplotlib plotly"
print([name for name in unused.split() if name in sys.modules])
"""


def test_fit_imports_no_comparison_plots_or_report() -> None:
    # in a new process, as other tests import them
    command = [sys.executable, "-c", UNUSED_BY_FIT]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


HELP = """
import sys
sys.modules["manyview"] = package = type(sys)("manyview")
package.__path__ = [sys.argv.pop()]
sys.argv[1:] = ["--help"]
from manyview.cli import main
try:
    main()
finally:
    heavy = "numpy scipy sklearn manyview.views manyview.datasets"
    print([name for name in heavy.split() if name in sys.modules], file=sys.stderr)
"""


def test_help_needs_no_numerical_library() -> None:
    # with an empty package, as its own imports are not those of the command
    folder = str(Path(_version.__file__).parent)
    command = [sys.executable, "-c", HELP, folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Usage" in done.stdout
    assert done.stderr == "[]\n"
