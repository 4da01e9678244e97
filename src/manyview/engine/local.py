"""Rows in the memory of this process, or on its disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from math import ceil
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview.engine.arrays import Array, to_numpy
from manyview.engine.base import Engine
from manyview.engine.block import Block, RowView, Sums, Update, add_sums, rows_of, scale_rows
from manyview.engine.scaling import Scaling
from manyview.linalg.threads import limited_threads
from manyview.views import Views

__all__ = ["LocalEngine"]

S = TypeVar("S")
T = TypeVar("T")

# A block's rows are read twice by the hot loop, the second time from the cache; shorter blocks
# would spend their time on calls. Measured by benchmarks/hot_loop.py. Rows on disk are best read
# by the same blocks: the system reads ahead, and asking it to (madvise) made it slower or changed
# nothing. Measured by benchmarks/out_of_core.py.
_BLOCK_BYTES = 4 << 20
_BLOCK_ROWS = (512, 8192)
_MOST_BYTES = 256 << 20  # of a block of rows that are very wide
_SHARED = 4  # beyond two, blocks are a multiple of this; of the threads, sums would depend on them


class LocalEngine(Engine):
    """Row blocks in this process, worked on one after another or by several threads.

    Parameters
    ----------
    views : Views
        Checked views; their arrays are referred to, not copied.
    normalize : {"rows", "columns"} or None
        Unit rows, standardised columns, or neither.
    n_threads : int
        Threads over blocks. With one of either, products use the threads of BLAS instead.
    scalings : list of Scaling, optional
        Column scalings found by an earlier fit, for samples that it did not see.

    Attributes
    ----------
    blocks : list of Block
    scalings : list of Scaling
        One a view.
    dtype : dtype
        Precision of all state and factors.
    """

    def __init__(
        self,
        views: Views,
        *,
        normalize: str | None,
        n_threads: int = 1,
        scalings: list[Scaling] | None = None,
    ) -> None:
        self.dtype = views.dtype
        self.n_samples = views.n_samples
        self._n_threads = n_threads
        self._arrays = list(views.arrays)
        self.blocks = [
            Block(rows, [RowView(rows_of(array, rows), None) for array in self._arrays])
            for rows in _row_slices(views)
        ]

        def scaled(block: Block) -> list[RowView]:
            return [
                scale_rows(view, v, block.rows, normalize, views.present, self.dtype)
                for v, view in enumerate(block.views)
            ]

        with self.running():
            for block, rows in zip(self.blocks, self._map(scaled), strict=True):
                block.views = rows
            self.scalings = scalings or self._found_scalings(views.n_features, normalize)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold the threads while a fit runs, and BLAS to one thread in each of them."""
        if self._n_threads == 1 or len(self.blocks) == 1:
            yield
            return
        with limited_threads(1), ThreadPoolExecutor(self._n_threads) as self._pool:
            try:
                yield
            finally:
                del self._pool

    def sum(self, kernel: Callable[..., Sums], *args: Any) -> Sums:
        """Return the sums over blocks of what ``kernel(block, *args)`` returns."""
        return add_sums(self._map(lambda block: kernel(block, *args)))

    def update(self, kernel: Callable[..., Update], *args: Any) -> Sums:
        """Put the state that ``kernel(block, *args)`` returns into each block; sum the rest.

        Nothing changes before all blocks are done, so that an interrupt leaves them as they were.
        """
        states: list[dict[str, Any]] = []

        def sums_of(results: Iterable[Update]) -> Iterator[Sums]:
            for state, sums in results:
                states.append(state)
                yield sums

        total = add_sums(sums_of(self._map(lambda block: kernel(block, *args))))
        self.restore(states)
        return total

    def restrict(self, v: int, active: npt.NDArray[np.intp] | None) -> None:
        """Let the blocks hold only some features of view `v`; None brings all of them back."""
        if active is None and self.scalings[v].active is None:
            return
        for block in self.blocks:
            view = RowView(rows_of(self._arrays[v], block.rows), block.views[v].scale)
            block.views[v] = view if active is None else view.restrict(active)
        self.scalings[v] = self.scalings[v].restrict(active)

    def restricted_size(self, v: int, features: npt.NDArray[np.bool_]) -> int:
        """Return how many numbers a copy of view `v` with these features only would hold."""
        array = self._arrays[v]
        if sp.issparse(array):
            parts = (features[rows_of(array, block.rows).indices] for block in self.blocks)
            return 2 * sum(int(np.count_nonzero(part)) for part in parts)
        return self.n_samples * int(np.count_nonzero(features))

    def scatter(self, name: str, values: npt.NDArray[Any]) -> None:
        """Give each block its rows of an array, as state."""
        for block in self.blocks:
            block.state[name] = values[block.rows]

    def gather(self, name: str) -> Array:
        """Return a state of all blocks as one array, where the samples are."""
        return np.concatenate([block.state[name] for block in self.blocks])

    def snapshot(self, *names: str) -> list[dict[str, Any]]:
        """Return some of the blocks' state, to be put back by :meth:`restore`.

        Kernels replace arrays and do not write into them, so that nothing is copied.
        """
        return [{name: block.state.get(name) for name in names} for block in self.blocks]

    def restore(self, snapshot: list[dict[str, Any]]) -> None:
        """Put back the state of a snapshot."""
        for block, state in zip(self.blocks, snapshot, strict=True):
            block.state.update(state)

    def rescale(self, name: str, factors: Sequence[float]) -> None:
        """Multiply each array of a state that is a list by a number, where it is."""
        for block in self.blocks:
            for x, times in zip(block.state[name], factors, strict=True):
                x *= times

    def take(self, samples: npt.NDArray[np.intp]) -> list[RowView]:
        """Return some samples' rows of every view; of all, the views themselves."""
        whole = np.array_equal(samples, np.arange(self.n_samples))
        taken = []
        for v, array in enumerate(self._arrays):
            scales = [s for s in (block.views[v].scale for block in self.blocks) if s is not None]
            scale = np.concatenate(scales)[samples] if scales else None
            taken.append(RowView(array if whole else array[samples], scale))
        return taken

    def take_state(self, name: str, samples: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        """Return some samples' rows of a state, in this process."""
        return to_numpy(self.gather(name))[samples]

    def side_by_side(self, function: Callable[[S], T], items: Sequence[S]) -> list[T]:
        """Return what `function` makes of each item, by the threads that work on blocks."""
        return list(self._in_turn(function, items))

    def _map(self, function: Callable[[Block], T]) -> Iterator[T]:
        return self._in_turn(function, self.blocks)

    def _in_turn(self, function: Callable[[S], T], items: Sequence[S]) -> Iterator[T]:
        pool = getattr(self, "_pool", None)
        if pool is None:
            return map(function, items)
        return _in_turn(pool, function, items, ahead=2 * self._n_threads)


def _in_turn(
    pool: ThreadPoolExecutor, function: Callable[[S], T], items: Sequence[S], ahead: int
) -> Iterator[T]:
    """Yield what the pool makes of each item, in order.

    It is never more than some items ahead of who asks: sums as large as a factor would pile up.
    """
    waiting: deque[Future[T]] = deque()
    try:
        for item in items:
            if len(waiting) == ahead:
                yield waiting.popleft().result()
            waiting.append(pool.submit(function, item))
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def _row_slices(views: Views) -> list[slice]:
    widest = max(
        12 * array.nnz / array.shape[0] if sp.issparse(array) else array[:1].nbytes
        for array in views.arrays
    )
    rows = int(np.clip(_BLOCK_BYTES / max(widest, 1.0), *_BLOCK_ROWS))
    rows = max(1, min(rows, int(_MOST_BYTES / max(widest, 1.0))))
    # as many blocks as threads can share, all of a size: at the end none is left alone with one
    count = ceil(views.n_samples / rows)
    count = min(ceil(count / _SHARED) * _SHARED if count > 2 else count, views.n_samples)
    ends = [round(views.n_samples * part / count) for part in range(count + 1)]
    return [slice(begin, end) for begin, end in pairwise(ends)]
