"""The engine for rows in the memory of this process, or on its disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from math import ceil
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview.engine.arrays import Array, namespace, to_numpy
from manyview.engine.base import Engine
from manyview.engine.block import Block, RowView, Sums, Update, add_sums, row_scale, rows_of
from manyview.engine.scaling import Scaling
from manyview.linalg.threads import limited_threads
from manyview.views import Normalize, Views, normalize_by_view

__all__ = ["LocalEngine"]

S = TypeVar("S")
T = TypeVar("T")


class LocalEngine(Engine):
    """Row blocks in this process, processed one after another or by several threads.

    Parameters
    ----------
    views : Views
        Checked views; their arrays are referred to, not copied.
    normalize : {"rows", "columns"} or None, or one of them for each view
        Unit rows, standardised columns, or neither.
    n_threads : int
        Threads over blocks. With one thread or one block, products use the threads of BLAS.
    scalings : list of Scaling, optional
        Column scalings of an earlier fit, for out-of-sample prediction.

    Attributes
    ----------
    blocks : list of Block
    """

    # The hot loop reads a block twice, the second time from the cache; in shorter blocks the
    # overhead of calls dominates. The same sizes suit rows on disk. Measured by
    # benchmarks/hot_loop.py and benchmarks/out_of_core.py.
    block_bytes: ClassVar[int] = 4 << 20
    block_rows: ClassVar[tuple[int, int]] = (512, 8192)
    # Bound for blocks of very wide rows.
    most_bytes: ClassVar[int] = 256 << 20
    # More than two blocks come in multiples of this number. It does not depend on the number of
    # threads, because sums would depend on it too.
    block_multiple: ClassVar[int] = 4

    _n_threads: int
    _pool: ThreadPoolExecutor | None = None  # while a fit runs

    def __init__(
        self,
        views: Views,
        *,
        normalize: Normalize,
        n_threads: int = 1,
        scalings: list[Scaling] | None = None,
    ) -> None:
        by_view = normalize_by_view(normalize, views)
        self.dtype = views.dtype
        self.n_samples = views.n_samples
        self._n_threads = n_threads
        self._arrays = list(views.arrays)
        self._known = views.known or (None,) * views.n_views
        self.blocks = [
            Block(
                rows,
                [
                    RowView(rows_of(array, rows), None, None if known is None else known[rows])
                    for array, known in zip(self._arrays, self._known, strict=True)
                ],
            )
            for rows in self._row_slices()
        ]

        def scaled(block: Block) -> list[RowView]:
            rows = []
            for v, view in enumerate(block.views):
                present = None if views.present is None else views.present[block.rows, v]
                scale = row_scale(view.x, by_view[v], present, self.dtype)
                rows.append(replace(view, scale=scale))
            return rows

        with self.running():
            self._whole = list(self._map(scaled, self.blocks))
            for block, rows in zip(self.blocks, self._whole, strict=True):
                block.views = list(rows)
            self.scalings = scalings or self._found_scalings(views.n_features, by_view)

    def _row_slices(self) -> list[slice]:
        """Return the rows of each block: blocks of nearly equal size that threads can share."""
        widest = max(
            12 * array.nnz / array.shape[0] if sp.issparse(array) else array[:1].nbytes
            for array in self._arrays
        )
        widest = max(widest, 1.0)
        rows = int(np.clip(self.block_bytes / widest, *self.block_rows))
        rows = max(1, min(rows, int(self.most_bytes / widest)))
        count = ceil(self.n_samples / rows)
        if count > 2:
            count = ceil(count / self.block_multiple) * self.block_multiple
        count = min(count, self.n_samples)
        ends = [round(self.n_samples * part / count) for part in range(count + 1)]
        return [slice(begin, end) for begin, end in pairwise(ends)]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keep a pool of threads while a fit runs, with one BLAS thread in each of them."""
        if self._n_threads == 1 or len(self.blocks) == 1:
            yield
            return
        with limited_threads(1), ThreadPoolExecutor(self._n_threads) as self._pool:
            try:
                yield
            finally:
                self._pool = None

    def sum(self, kernel: Callable[..., Sums], *args: Any) -> Sums:
        """Return the sums over blocks of what ``kernel(block, *args)`` returns."""
        args = self._placed(args)
        return add_sums(self._map(lambda block: kernel(block, *args), self.blocks))

    def update(self, kernel: Callable[..., Update], *args: Any) -> Sums:
        """Store the state that ``kernel(block, *args)`` returns in each block; sum the rest.

        Nothing changes before all blocks are done, so an interrupt leaves the old state.
        """
        args = self._placed(args)
        states: list[dict[str, Any]] = []

        def sums_of(results: Iterable[Update]) -> Iterator[Sums]:
            for state, sums in results:
                states.append(state)
                yield sums

        results = self._map(lambda block: kernel(block, *args), self.blocks)
        total = add_sums(sums_of(results))
        self.restore(states)
        return total

    def restrict(self, v: int, active: npt.NDArray[np.intp] | None) -> None:
        """Let the blocks hold only some features of view `v`; None restores all of them."""
        if active is None and self.scalings[v].active is None:
            return
        for block, whole in zip(self.blocks, self._whole, strict=True):
            block.views[v] = whole[v] if active is None else whole[v].restrict(active)
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
        values = self._placed(values)
        for block in self.blocks:
            block.state[name] = values[block.rows, ...]

    def gather(self, name: str) -> Array:
        """Return a state of all blocks as one array, on the device of the samples."""
        parts = [block.state[name] for block in self.blocks]
        return namespace(*parts).concat(parts, axis=0)

    def snapshot(self, *names: str) -> list[dict[str, Any]]:
        """Return some of the blocks' state, for :meth:`restore`.

        Nothing is copied, because kernels replace arrays and do not write into them.
        """
        return [{name: block.state.get(name) for name in names} for block in self.blocks]

    def restore(self, snapshot: list[dict[str, Any]]) -> None:
        """Restore the state of a snapshot."""
        for block, state in zip(self.blocks, snapshot, strict=True):
            block.state.update(state)

    def rescale(self, name: str, factors: Sequence[float]) -> None:
        """Multiply each array of a state that is a list by a number, in place."""
        for block in self.blocks:
            for x, factor in zip(block.state[name], factors, strict=True):
                x *= factor

    def take(self, samples: npt.NDArray[np.intp]) -> list[RowView]:
        """Return the rows of some samples in every view; all samples are not copied."""
        whole = np.array_equal(samples, np.arange(self.n_samples))
        taken = []
        for v, array in enumerate(self._arrays):
            scales = [s for s in (block.views[v].scale for block in self.blocks) if s is not None]
            scale = np.concatenate(scales)[samples] if scales else None
            known = self._known[v]
            if not whole:
                array, known = array[samples], None if known is None else known[samples]
            taken.append(RowView(array, scale, known))
        return taken

    def take_state(self, name: str, samples: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        """Return a state of some samples, in this process."""
        return to_numpy(self.gather(name))[samples]

    def side_by_side(self, function: Callable[[S], T], items: Sequence[S]) -> list[T]:
        """Return ``function(item)`` for each item, computed by the threads of the engine."""
        if self._pool is not None or self._n_threads == 1:
            return list(self._map(function, items))
        with limited_threads(1), ThreadPoolExecutor(self._n_threads) as pool:
            return list(pool.map(function, items))

    def _placed(self, value: Any) -> Any:
        """Return arguments of a kernel on the device of the samples."""
        return value

    def _map(self, function: Callable[[S], T], items: Sequence[S]) -> Iterator[T]:
        if self._pool is None:
            return map(function, items)
        return map_in_order(self._pool, function, items, ahead=2 * self._n_threads)


def map_in_order(
    pool: ThreadPoolExecutor, function: Callable[[S], T], items: Sequence[S], ahead: int
) -> Iterator[T]:
    """Yield ``function(item)`` for each item, in order.

    The pool is at most `ahead` items ahead of the consumer, because results may be as large as a
    factor.
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
