"""Runs the command in tests and reads its output."""

import csv
import io
import re
from pathlib import Path
from typing import Any, NoReturn

import pytest
from typer.testing import CliRunner, Result

from manyview.cli.app import app

N_SAMPLES, N_CLUSTERS = 120, 4


def run(*args: object, columns: int = 100) -> Result:
    result = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, [str(arg) for arg in args])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def run_fit(data: Path, out: object, *options: object, k: int = N_CLUSTERS) -> Result:
    return run("fit", data, "-k", k, "--out", out, *options)


def plain(text: str) -> str:
    """Text without colours, which continuous integration may force."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def clusters_in(text: str) -> list[int]:
    header, *rows = csv.reader(io.StringIO(text))
    assert header[:2] == ["sample", "cluster"]
    assert [int(row[0]) for row in rows] == list(range(len(rows)))
    return [int(row[1]) for row in rows]


def assert_rejected(result: Result, message: str) -> None:
    assert result.exit_code == 2
    assert result.stdout == ""
    last = result.stderr.splitlines()[-1]
    assert last.startswith("manyview: error: ")
    assert re.search(message, last)
    assert "Traceback" not in result.stderr


def must_not_run(*args: Any, **options: Any) -> NoReturn:
    pytest.fail("the work began")
