"""The graph of one call: tasks on blocks, and what is done with their results."""

from __future__ import annotations

from itertools import count
from operator import getitem
from typing import Any
from uuid import uuid4

from manyview.engine.dask_tasks import added

__all__ = ["GraphOfCall"]

_AT_ONCE = 8  # results that a task adds

_CALLS = (f"{uuid4().hex}-{n}" for n in count())


class GraphOfCall(dict[Any, Any]):
    """Tasks by keys that no other call has."""

    def __init__(self) -> None:
        super().__init__()
        self._call = next(_CALLS)

    def add(self, label: str, tasks: list[Any]) -> list[Any]:
        """Add tasks, and return their keys."""
        name = f"manyview-{label}-{self._call}-{len(self)}"
        keys = [(name, n) for n in range(len(tasks))]
        self.update(zip(keys, tasks, strict=True))
        return keys

    def take_apart(self, results: list[Any], places: range) -> list[list[Any]]:
        """Return the keys of parts of results, so that each is kept and dropped by itself."""
        return [self.add("part", [(getitem, key, place) for key in results]) for place in places]

    def total(self, results: list[Any]) -> Any:
        """Return the key of the sum of results: some at a time, in the order of the blocks."""
        while len(results) > 1:
            groups = [results[n : n + _AT_ONCE] for n in range(0, len(results), _AT_ONCE)]
            results = self.add("added", [(added, group) for group in groups])
        return results[0]
