"""Rows in the memory of this process, or on its disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from manyview.engine.block import Block, RowView, Sums, Update, row_norms
from manyview.engine.scaling import Scaling
from manyview.views import Views

__all__ = ["LocalEngine"]

T = TypeVar("T")
Matrix = npt.NDArray[np.floating[Any]]

# A block's rows are read twice by the hot loop, the second time from the cache; shorter blocks
# would spend their time on calls. Measured by benchmarks/hot_loop.py.
_BLOCK_BYTES = 4 << 20
_BLOCK_ROWS = (512, 8192)


class LocalEngine:
    """Row blocks in this process, worked on one after another or by several threads.

    Parameters
    ----------
    views : Views
        Checked views; their arrays are referred to, not copied.
    normalize : {"rows", "columns"} or None
        Unit rows, standardised columns, or neither.
    n_threads : int
        Threads over blocks. With one, dense products use the threads of BLAS instead.
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
        self._views = views
        arrays = [_in_precision(array, self.dtype) for array in views.arrays]
        self.blocks = [
            Block(rows, [RowView(_rows_of(array, rows), None) for array in arrays])
            for rows in _row_slices(views)
        ]
        present = views.present
        self.update_views(lambda view, v, rows: _scale_rows(view, v, rows, normalize, present))
        if scalings is None:
            scalings = [Scaling(width) for width in views.n_features]
            if normalize == "columns":
                scalings = [self._standardising(v) for v in range(len(views))]
        self.scalings = scalings

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold the threads while a fit runs, and BLAS to one thread in each of them."""
        if self._n_threads == 1:
            yield
            return
        with threadpool_limits(1), ThreadPoolExecutor(self._n_threads) as self._pool:
            try:
                yield
            finally:
                del self._pool

    def sum(self, kernel: Callable[..., Sums], *args: Any) -> Sums:
        """Return the sums over blocks of what ``kernel(block, *args)`` returns."""
        return _added(self._map(lambda block: kernel(block, *args)))

    def update(self, kernel: Callable[..., Update], *args: Any) -> Sums:
        """Put the state that ``kernel(block, *args)`` returns into each block; sum the rest.

        Nothing changes before all blocks are done, so that an interrupt leaves them as they were.
        """
        results = list(self._map(lambda block: kernel(block, *args)))
        for block, (state, _) in zip(self.blocks, results, strict=True):
            block.state.update(state)
        return _added(sums for _, sums in results)

    def update_views(self, change: Callable[[RowView, int, slice], RowView]) -> None:
        """Replace every view of every block by ``change(view, v, rows)``."""
        for block in self.blocks:
            block.views = [change(view, v, block.rows) for v, view in enumerate(block.views)]

    def restrict(self, v: int, active: npt.NDArray[np.intp] | None) -> None:
        """Let the blocks hold only some features of view `v`; None brings all of them back."""
        array = _in_precision(self._views.arrays[v], self.dtype)
        for block in self.blocks:
            view = RowView(_rows_of(array, block.rows), block.views[v].scale)
            block.views[v] = view if active is None else view.restrict(active)
        self.scalings[v] = self.scalings[v].restrict(active)

    def restricted_size(self, v: int, features: npt.NDArray[np.bool_]) -> int:
        """Return how many numbers a copy of view `v` with these features only would hold."""
        array = self._views.arrays[v]
        if sp.issparse(array):
            return 2 * int(np.count_nonzero(features[array.indices]))
        return self.n_samples * int(np.count_nonzero(features))

    def scatter(self, name: str, values: npt.NDArray[Any]) -> None:
        """Give each block its rows of an array, as state."""
        for block in self.blocks:
            block.state[name] = values[block.rows]

    def gather(self, name: str) -> npt.NDArray[Any]:
        """Return a state of all blocks as one array."""
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

    def take(self, samples: npt.NDArray[np.intp]) -> list[RowView]:
        """Return some samples' rows of every view."""
        taken = []
        for v, array in enumerate(self._views.arrays):
            scales = [s for s in (block.views[v].scale for block in self.blocks) if s is not None]
            scale = np.concatenate(scales)[samples] if scales else None
            taken.append(RowView(_in_precision(array[samples], self.dtype), scale))
        return taken

    def column_moments(self, v: int) -> tuple[Matrix, Matrix]:
        """Return the mean and the mean square of every column of the scaled view `v`, bias last."""
        scaling = self.scalings[v]
        ones = np.ones((self.n_samples, 1), dtype=self.dtype)
        (pulled,) = self.sum(_pull_rows, v, ones)
        if scaling.width is None or scaling.centre is None:
            (squares,) = self.sum(_squares, v)
        else:
            (squares,) = self.sum(_column_deviations, v, scaling.centre)
            squares = squares * scaling.width**2
        mean = scaling.unfold(pulled)[:, 0] / self.n_samples
        return mean, np.append(squares / self.n_samples, 1.0)

    def _standardising(self, v: int) -> Scaling:
        total, weight = self.sum(_column_sums, v)
        centre = total / max(float(weight), 1.0)
        (squares,) = self.sum(_column_deviations, v, centre)
        deviation = np.sqrt(squares / max(float(weight), 1.0))
        constant = deviation <= 1e-7 * np.abs(centre)  # no more than the rounding of the mean
        width = np.divide(1.0, deviation, where=~constant, out=np.zeros_like(deviation))
        return Scaling(centre.size, centre.astype(self.dtype), width.astype(self.dtype))

    def _map(self, function: Callable[[Block], T]) -> Iterator[T]:
        pool = getattr(self, "_pool", None)
        return map(function, self.blocks) if pool is None else pool.map(function, self.blocks)


def _row_slices(views: Views) -> list[slice]:
    widest = max(
        12 * array.nnz / array.shape[0] if sp.issparse(array) else array[:1].nbytes
        for array in views.arrays
    )
    rows = int(np.clip(_BLOCK_BYTES / max(widest, 1.0), *_BLOCK_ROWS))
    return [slice(n, min(n + rows, views.n_samples)) for n in range(0, views.n_samples, rows)]


def _rows_of(array: Any, rows: slice) -> Any:
    if not sp.issparse(array):
        return array[rows]
    # a slice of a CSR array is a copy, and its constructor copies parts that are short beside
    # the whole: attributes are set instead
    pointers = array.indptr[rows.start : rows.stop + 1]
    part = slice(pointers[0], pointers[-1])
    block = sp.csr_array((rows.stop - rows.start, array.shape[1]), dtype=array.dtype)
    block.data, block.indices = array.data[part], array.indices[part]
    block.indptr = pointers - pointers[0]
    return block


def _in_precision(array: Any, dtype: np.dtype[Any]) -> Any:
    if not sp.issparse(array) or array.dtype == dtype:
        return array
    parts = (array.data.astype(dtype), array.indices, array.indptr)
    return sp.csr_array(parts, shape=array.shape)


def _scale_rows(
    view: RowView,
    v: int,
    rows: slice,
    normalize: str | None,
    present: npt.NDArray[np.bool_] | None,
) -> RowView:
    scale = None
    if normalize == "rows":
        norms = row_norms(view.x)
        scale = np.divide(1.0, norms, where=norms > 0, out=np.ones_like(norms))
    if present is not None:
        here = present[rows, v]
        scale = here.astype(np.float64) if scale is None else scale * here
    if scale is None:
        return view
    dtype = np.result_type(np.float32, view.x.dtype)
    return RowView(view.x, np.minimum(scale, np.finfo(dtype).max).astype(dtype))


def _weights(view: RowView) -> npt.NDArray[np.float64]:
    if view.scale is None:
        return np.ones(view.x.shape[0])
    return view.scale.astype(np.float64)


def _pull_rows(block: Block, v: int, rows: Matrix) -> Sums:
    return (block.views[v].pull(rows[block.rows]),)


def _squares(block: Block, v: int) -> Sums:
    view = block.views[v]
    weights = _weights(view)
    # rows are scaled before they are squared: their squares alone may overflow
    if sp.issparse(view.x):
        scaled = view.x.data * weights[_row_of(view.x)]
        return (np.bincount(view.x.indices, weights=scaled**2, minlength=view.x.shape[1]),)
    scaled = view.x * weights[:, None]
    return (np.einsum("ij,ij->j", scaled, scaled),)


def _column_sums(block: Block, v: int) -> Sums:
    view = block.views[v]
    weights = _weights(view)
    return view.x.T @ weights, np.sum(weights)


def _column_deviations(block: Block, v: int, centre: Matrix) -> Sums:
    view = block.views[v]
    weights = _weights(view)
    if not sp.issparse(view.x):
        return ((np.square(view.x - centre)).T @ weights,)
    # the entries that are stored, and the zeros that are not
    stored = sp.csr_array((weights[_row_of(view.x)], view.x.indices, view.x.indptr), view.x.shape)
    shifted = np.square(view.x.data - centre[view.x.indices])
    deviations = np.bincount(view.x.indices, weights=shifted * stored.data, minlength=centre.size)
    return (deviations + centre**2 * (np.sum(weights) - stored.sum(axis=0)),)


def _row_of(x: Any) -> npt.NDArray[np.intp]:
    return np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))


def _added(results: Iterable[Sums]) -> Sums:
    # always in the order of the blocks, so that threads do not change the sum
    total: list[Any] = []
    owned = False
    for sums in results:
        if not total:
            total = list(sums)
        elif not owned:
            total = [a + b for a, b in zip(total, sums, strict=True)]
            owned = True
        else:
            for v, more in enumerate(sums):
                total[v] += more
    return tuple(total)
