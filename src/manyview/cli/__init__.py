"""The command ``manyview``: a thin layer over the public API."""

from __future__ import annotations

import sys

__all__ = ["main"]

_EXTRA = ("typer", "click", "rich")


def main() -> None:
    """Run the command, or name the extra to install if it is missing."""
    try:
        from manyview.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        print(
            "the command line needs the extra 'app': pip install 'manyview[app]'", file=sys.stderr
        )
        sys.exit(1)
    except KeyboardInterrupt:
        print("manyview: interrupted: nothing was done", file=sys.stderr)
        sys.exit(130)  # as manyview.cli.console.INTERRUPTED
    app()
