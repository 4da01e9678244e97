"""Options that several commands have, and checks of options and arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import typer

__all__ = ["Classes", "IdColumn", "at_least", "not_empty", "not_zero"]

Classes = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Column of known classes, for scoring, in a folder's labels file or a .h5mu file.",
        show_default=False,
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Column of sample ids in the files of a folder.",
        show_default="id, or a similar name",
    ),
]


def at_least(least: int, most: float = math.inf) -> Callable[[float | None], Any]:
    """Return a check that a number lies within bounds."""

    # typer's own limits crowd the help, and their message leaves out the value
    def check(value: Any) -> Any:
        if value is not None and not least <= value <= most:
            expected = f"at least {least}" if most == math.inf else f"{least} to {most}"
            raise typer.BadParameter(f"{value}; expected {expected}")
        return value

    return check


def not_zero(value: int | None) -> int | None:
    """Refuse zero, where a negative number counts from the end."""
    if value == 0:
        raise typer.BadParameter("0; expected at least 1, or -1 for all")
    return value


def not_empty(name: str) -> str:
    """Refuse the empty name, which as a path is the folder at hand."""
    if not name:
        raise typer.BadParameter("an empty name; expected a file, a folder or a set")
    return name
