"""Checks of options that are numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import typer

__all__ = ["at_least"]


def at_least(least: int, most: float = math.inf) -> Callable[[float | None], Any]:
    """Return a check that a number lies within bounds."""

    # typer's own limits crowd the help, and their message leaves out the value
    def check(value: Any) -> Any:
        if value is not None and not least <= value <= most:
            expected = f"at least {least}" if most == math.inf else f"{least} to {most}"
            raise typer.BadParameter(f"{value}; expected {expected}")
        return value

    return check
