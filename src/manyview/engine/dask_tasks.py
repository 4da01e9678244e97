"""What a task does with a block of rows, wherever it runs: pure functions of what it is given.

A chunk of the caller's is one block to Dask and is worked on a few megabytes at a time, as rows in
this process are, so that large chunks neither leave the cache nor need room for large temporaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview.engine.allocator import keep_freed_memory
from manyview.engine.block import Block, RowView, Sums, add_sums, rows_of, scale_rows
from manyview.engine.recycled import recycled_here

__all__ = [
    "Part",
    "Plan",
    "Step",
    "Written",
    "restricted",
    "scaled",
    "stored",
    "taken",
    "taken_state",
    "worked",
]

NO_VIEW: Any = None

_TEMPORARY_BYTES = 1 << 20
_CACHE_BYTES = 4 << 20
_PIECE_ROWS = (512, 8192)


@dataclass(frozen=True)
class Step:
    """A kernel, what it is given beside the block, and whether it renews the block's state."""

    kernel: Callable[..., Any]
    args: tuple[Any, ...]
    updates: bool


@dataclass(frozen=True)
class Written:
    """An array of a state: its name, and its place where the state is a list of arrays."""

    name: str
    index: int

    def of(self, state: dict[str, Any]) -> npt.NDArray[Any]:
        """Return that array."""
        value = state[self.name]
        return np.asarray(value[self.index] if isinstance(value, list | tuple) else value)


@dataclass(frozen=True)
class Plan:
    """What all tasks of a call have in common.

    Attributes
    ----------
    steps : tuple of Step
        Kernels, one after another on the same rows. The sums are those of the last.
    n_views : int
        Number of views of a block.
    views : tuple of int
        Views that the kernels look at; others are not read.
    names : tuple of (str, int or None)
        States that the kernels read: an array, a list of some arrays, or with -1 None.
    factors : tuple of float
        What the arrays of these states are multiplied by, one after another.
    written : tuple of Written
        Arrays that the block's state is renewed with.
    row_bytes : float
        Size of a row of the widest state: temporaries of the kernels are about as wide.
    sums_bytes : float
        Size of what is added over blocks.
    """

    steps: tuple[Step, ...]
    n_views: int
    views: tuple[int, ...]
    names: tuple[tuple[str, int | None], ...]
    factors: tuple[float, ...]
    written: tuple[Written, ...]
    row_bytes: float
    sums_bytes: float

    def __dask_tokenize__(self) -> object:
        # each plan is of one call: to look at its content would cost more than to send it
        return uuid4().hex

    @property
    def sums(self) -> bool:
        """Whether there is something to add over blocks."""
        return self.sums_bytes > 0

    def state_of(self, arrays: Iterable[npt.NDArray[Any]]) -> dict[str, Any]:
        """Return arrays by the names of their states."""
        rest = iter(arrays)
        state: dict[str, Any] = {}
        for name, count in self.names:
            if count is None:
                state[name] = next(rest)
            else:
                state[name] = None if count < 0 else [next(rest) for _ in range(count)]
        return state


@dataclass(frozen=True)
class Part:
    """Which samples a block holds, and the precision of the work."""

    start: int
    stop: int
    dtype: np.dtype[Any]

    def __dask_tokenize__(self) -> object:
        return self.start, self.stop, self.dtype.str

    @property
    def rows(self) -> slice:
        """The samples."""
        return slice(self.start, self.stop)


def worked(plan: Plan, part: Part, sources: list[Any], scales: list[Any], arrays: list[Any]) -> Any:
    """Return the sums of a block and the arrays of its renewed state, or the only one of these.

    Parameters
    ----------
    plan : Plan
    part : Part
    sources : list
        Of each view that is looked at, what :func:`opened` takes.
    scales : list of ndarray or None
        Of each of these views, the factors of its rows.
    arrays : list of ndarray
        Of each state that is read, its arrays.
    """
    keep_freed_memory()
    recycled = recycled_here()
    arrays_of_views = [opened(source, part.dtype) for source in sources]
    size = part.stop - part.start
    pieces = list(_pieces(size, arrays_of_views, plan.row_bytes, plan.sums_bytes))
    most = pieces[0].stop
    views = [_Pieces(x, most) for x in arrays_of_views]
    factors = [None if scale is None else _Pieces(scale, most) for scale in scales]
    states = [_Pieces(x, most, times) for x, times in zip(arrays, plan.factors, strict=True)]
    written: list[npt.NDArray[Any]] = []

    def sums_of_pieces() -> Iterator[Sums]:
        for piece in pieces:
            block = _block(plan, part, piece, views, factors, states)
            sums: Sums = ()
            for step in plan.steps:
                result = step.kernel(block, *step.args)
                if step.updates:
                    state, sums = result
                    block.state.update(state)
                else:
                    sums = result
            results = [which.of(block.state) for which in plan.written]
            if not written:
                written.extend(recycled.empty((size, *x.shape[1:]), x.dtype) for x in results)
            for whole, result in zip(written, results, strict=True):
                whole[piece] = result
            yield sums

    total = add_sums(sums_of_pieces())
    if not plan.sums and len(written) == 1:
        return written[0]
    return (total, *written) if written else total


def _pieces(
    size: int, views: list[Any], row_bytes: float = 1.0, sums_bytes: float = 0.0
) -> Iterator[slice]:
    rows = _piece_rows(views, row_bytes, sums_bytes)
    for begin in range(0, size, rows):
        yield slice(begin, min(begin + rows, size))


def _piece_rows(views: list[Any], row_bytes: float, sums_bytes: float) -> int:
    """Return how many rows are worked on at a time."""
    narrowest = min(
        (_CACHE_BYTES / max(x[:1].nbytes, 1) for x in views if not sp.issparse(x)), default=np.inf
    )
    rows = min(_TEMPORARY_BYTES / row_bytes, narrowest)
    # sums are added once a piece: they must not outweigh the work on its rows
    return int(np.clip(max(rows, sums_bytes / 1024), *_PIECE_ROWS))


def _block(
    plan: Plan,
    part: Part,
    piece: slice,
    rows_of_views: list[_Pieces],
    scales: list[_Pieces | None],
    states: list[_Pieces],
) -> Block:
    views = [NO_VIEW] * plan.n_views
    for v, rows, scale in zip(plan.views, rows_of_views, scales, strict=True):
        views[v] = RowView(rows.of(piece), None if scale is None else scale.of(piece))
    state = plan.state_of(rows.of(piece) for rows in states)
    return Block(slice(part.start + piece.start, part.start + piece.stop), views, state)


class _Pieces:
    """Rows of a block, some at a time: times a number, and where products are fast.

    Arrays that came over the network begin anywhere in memory, and NumPy would copy them whole, and
    slowly, at each product. Their rows are copied into one place instead, which stays in the cache,
    and so are rows that are multiplied.
    """

    def __init__(self, x: Any, most: int, times: float = 1.0) -> None:
        self._x, self._times = x, times
        self._place = None
        if not sp.issparse(x) and (times != 1.0 or not x.flags.aligned):
            self._place = np.empty((most, *x.shape[1:]), x.dtype)

    def of(self, piece: slice) -> Any:
        """Return the rows of a piece, good until the next one is asked for.

        They cannot be written into: other tasks may share them.
        """
        if sp.issparse(self._x):
            return rows_of(self._x, piece)
        rows = self._x[piece]
        if self._place is not None:
            place = self._place[: piece.stop - piece.start]
            if self._times == 1.0:
                np.copyto(place, rows)
            else:
                np.multiply(rows, self._times, out=place, casting="same_kind")
            rows = place[:]
        rows.flags.writeable = False
        return rows


def opened(source: list[Any], dtype: np.dtype[Any]) -> Any:
    """Return the raw rows of a view: columns side by side, sparse ones as clean CSR.

    A source is a list of columns, each an array or a recipe with what it is made from.
    """
    columns = [maker(given) if callable(maker) else maker for maker, given in source]
    if not any(sp.issparse(x) for x in columns):
        arrays = [np.asarray(x) for x in columns]
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=1)
    x = sp.csr_array(columns[0] if len(columns) == 1 else sp.hstack(columns, format="csr"))
    if x.dtype != dtype:
        x = x.astype(dtype)
    if not x.has_canonical_format:
        x = x.copy()
        x.sum_duplicates()
    return x


def scaled(
    part: Part, source: list[Any], normalize: str | None, here: npt.NDArray[np.bool_] | None
) -> Any:
    """Return the factors of the rows of a view."""
    x = opened(source, part.dtype)
    found = np.empty(x.shape[0], part.dtype)
    for piece in _pieces(x.shape[0], [x]):
        view = RowView(rows_of(x, piece), None)
        present = None if here is None else here[:, None]
        found[piece] = scale_rows(view, 0, piece, normalize, present, part.dtype).scale
    return found


def restricted(part: Part, source: list[Any], active: npt.NDArray[np.intp]) -> Any:
    """Return a copy of the rows of a view that holds the features `active` only."""
    return RowView(opened(source, part.dtype), None).restrict(active).x


def stored(part: Part, source: list[Any]) -> Sums:
    """Return how many entries each feature of a sparse view stores."""
    x = opened(source, part.dtype)
    return (np.bincount(x.indices, minlength=x.shape[1]),)


def taken(part: Part, sources: list[Any], scales: list[Any], rows: npt.NDArray[np.intp]) -> Any:
    """Return some rows of some views, and their factors."""
    views = [opened(source, part.dtype)[rows] for source in sources]
    return views, [None if scale is None else scale[rows] for scale in scales]


def taken_state(array: npt.NDArray[Any], rows: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    """Return some rows of a state."""
    return np.asarray(array[rows])
