"""The graph of one call: tasks on blocks, and what is done with their results."""

from __future__ import annotations

from itertools import count
from operator import getitem
from typing import Any
from uuid import uuid4

from manyview.engine.block import add_sums

__all__ = ["GraphOfCall"]

_AT_ONCE = 8  # results that are added together
_SMALL = 1 << 20  # bytes of results that the driver may add itself, which saves a task

_CALLS = count()  # whose next is safe where threads ask at once


class GraphOfCall(dict[Any, Any]):
    """Tasks by keys that no other call has."""

    def __init__(self) -> None:
        super().__init__()
        self._call = f"{uuid4().hex}-{next(_CALLS)}"

    def add(self, label: str, tasks: list[Any]) -> list[Any]:
        """Add tasks, and return their keys."""
        name = f"manyview-{label}-{self._call}-{len(self)}"
        keys = [(name, n) for n in range(len(tasks))]
        self.update(zip(keys, tasks, strict=True))
        return keys

    def take_apart(self, results: list[Any], places: range) -> list[list[Any]]:
        """Return the keys of parts of results, so that each is kept and dropped by itself."""
        return [self.add("part", [(getitem, key, place) for key in results]) for place in places]

    def partial_sums(self, results: list[Any], size: float) -> list[Any]:
        """Return the keys of the sums of some results each, in the order of the blocks.

        Parameters
        ----------
        results : list
            Keys of what is added.
        size : float
            Bytes of one of them. If they are large, one sum is left.
        """
        few = _AT_ONCE if size * _AT_ONCE <= _SMALL else 1
        while len(results) > few:
            groups = [results[n : n + _AT_ONCE] for n in range(0, len(results), _AT_ONCE)]
            results = self.add("added", [(add_sums, group) for group in groups])
        return results
