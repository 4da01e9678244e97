"""Two samples that go ahead: what a kernel reads and writes is found by running it on them here.

So a task is given the views and the state that its kernels look at and no others, a block's state
is kept array by array, and what a kernel leaves as it is does not become a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from manyview.engine.block import Block, RowView, Sums
from manyview.engine.dask_tasks import Step, Written

__all__ = ["N_AHEAD", "Ahead", "Origin", "arrays_of"]

N_AHEAD = 2


class _Looked(list[RowView]):
    """Views that remember which of them were looked at."""

    def __init__(self, views: list[RowView]) -> None:
        super().__init__(views)
        self.seen: set[int] = set()

    def __getitem__(self, v: Any) -> Any:
        self.seen.update(range(len(self))[v] if isinstance(v, slice) else [range(len(self))[v]])
        return super().__getitem__(v)

    def __iter__(self) -> Iterator[RowView]:
        self.seen.update(range(len(self)))
        return super().__iter__()


class _Read(dict[str, Any]):
    """State that remembers which of it was read."""

    def __init__(self, state: dict[str, Any]) -> None:
        super().__init__(state)
        self.seen: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.seen.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.seen.add(name)
        return super().get(name, default)


@dataclass(frozen=True)
class Origin:
    """An array that steps have made, or one from before them that they hand on as it is."""

    array: Written
    new: bool


@dataclass(frozen=True)
class Ahead:
    """Steps that wait to be taken by all blocks, and where they bring the samples that go ahead.

    Attributes
    ----------
    rows : slice
        The samples that go ahead, of the first block.
    views : list of RowView
        Their rows.
    before, state : dict
        Their state before and after the steps.
    steps : tuple of Step
        What waits.
    views_read : frozenset of int
        Views that the steps look at.
    names_read : frozenset of str
        States from before the steps that they read.
    written : frozenset of str
        States that they renew.
    sums : tuple
        What the last step returned to be added.
    """

    rows: slice
    views: list[RowView]
    before: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    views_read: frozenset[int] = frozenset()
    names_read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    sums: Sums = ()

    def take(self, kernel: Callable[..., Any], args: tuple[Any, ...], *, updates: bool) -> Ahead:
        """Return where one more step brings them."""
        views, state = _Looked(self.views), _Read(self.state)
        result = kernel(Block(self.rows, views, state), *args)
        renewed, sums = result if updates else ({}, result)
        return replace(
            self,
            state={**self.state, **renewed},
            steps=(*self.steps, Step(kernel, args, updates)),
            views_read=self.views_read | views.seen,
            names_read=self.names_read | (state.seen - self.written),
            written=self.written | set(renewed),
            sums=sums,
        )

    @property
    def row_bytes(self) -> float:
        """Size of a row of the widest state."""
        arrays = [*_arrays(self.before), *_arrays(self.state)]
        return max((x.nbytes / max(len(x), 1) for _, x in arrays), default=1.0)

    def arrived(self) -> Ahead:
        """Return them with nothing that waits: all blocks have taken the steps."""
        return Ahead(self.rows, self.views, self.state, self.state)

    def with_state(self, **renewed: Any) -> Ahead:
        """Return them, with nothing that waits, in another state."""
        state = {**self.state, **renewed}
        return Ahead(self.rows, self.views, state, state)

    def renewed(self) -> dict[Written, Origin]:
        """Return where each array of the states that the steps renew comes from."""
        origins = {id(x): Origin(which, new=False) for which, x in _arrays(self.before)}
        renewed = {}
        for which, x in _arrays({name: self.state[name] for name in sorted(self.written)}):
            renewed[which] = origins.setdefault(id(x), Origin(which, new=True))
        return renewed


def _arrays(state: dict[str, Any]) -> Iterator[tuple[Written, Any]]:
    for name, value in state.items():
        for n, array in enumerate(arrays_of(value)):
            yield Written(name, n), array


def arrays_of(value: Any) -> list[Any]:
    """Return the arrays of a state: one, those of a list, or none."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
