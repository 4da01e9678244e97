"""The files of a folder of tables and figures, named after data sets."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any

from manyview.atomic import whole_file

__all__ = ["Files"]


class Files:
    """What is written into a folder, each file whole or not at all.

    Attributes
    ----------
    written : list of Path
        The files, in order.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.written: list[Path] = []

    def text(self, name: str, text: str) -> None:
        """Write a file of text."""
        with whole_file(self._place(name)) as file:
            file.write(text.encode())

    def csv(self, name: str, heads: Sequence[str], lines: Iterable[Sequence[object]]) -> None:
        """Write a table, a head for each of its columns."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(heads)
        writer.writerows(lines)
        self.text(name, text.getvalue())

    def figure(self, name: str, draw: Callable[[], Any]) -> None:
        """Draw a figure and write it."""
        from matplotlib import pyplot

        figure = draw().figure
        with whole_file(self._place(name)) as file:
            figure.savefig(file, format="png", dpi=150, bbox_inches="tight")
        pyplot.close(figure)

    def _place(self, name: str) -> Path:
        """Return the path of a name that may hold anything, as names of data sets do."""
        safe = Path(re.sub(r"[^\w.-]+", "_", name))
        numbers = chain([""], (f"-{number}" for number in count(2)))
        names = (f"{safe.stem[:80]}{number}{safe.suffix}" for number in numbers)
        path = next(path for path in map(self._folder.joinpath, names) if path not in self.written)
        self.written.append(path)
        return path
