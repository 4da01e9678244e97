"""The engine interface, and the choice of an engine for given views.

An engine keeps the samples as blocks of rows, wherever they are. It has two main verbs: sum a
kernel over the blocks, and update the state of the blocks with a kernel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, TypeVar

import array_api_compat
import numpy as np
import numpy.typing as npt

from manyview._typing import Matrix
from manyview.engine.arrays import (
    Array,
    as_dtype,
    column_sums,
    is_sparse,
    namespace,
    rows_of_entries,
    times,
    to_numpy,
)
from manyview.engine.block import Block, RowView, State, Sums, Update, add_sums
from manyview.engine.scaling import Scaling
from manyview.views import Normalize, Views, normalize_by_view, with_logs
from manyview.views.checks import ROUNDING_OF_MEAN

__all__ = ["Engine", "column_squares", "engine_for", "in_units"]

S = TypeVar("S")
T = TypeVar("T")


def in_units(engine: Engine, views: Views, normalize: list[str | None]) -> Engine:
    """Return an engine with the rows of `views` as they are, and the labels of `engine`."""
    if "log" not in normalize:
        return engine
    raw = engine_for(views, normalize=None)
    with raw.running():
        raw.scatter(State.LABELS, to_numpy(engine.gather(State.LABELS)))
    return raw


def engine_for(
    views: Views,
    *,
    normalize: Normalize,
    n_threads: int = 1,
    scalings: list[Scaling] | None = None,
) -> Engine:
    """Return the engine for the place where the views are.

    Parameters
    ----------
    views : Views
        Checked views: NumPy and SciPy arrays, torch tensors, or Dask arrays.
    normalize : {"rows", "columns", "log"} or None, or one of them for each view
        Unit rows, standardised columns, unit rows of the logarithms of counts, or neither.
    n_threads : int
        Threads over blocks in this process.
    scalings : list of Scaling, optional
        Column scalings of an earlier fit, for out-of-sample prediction.

    Returns
    -------
    Engine
    """
    views, by_view = with_logs(views, normalize_by_view(normalize, views))
    options: dict[str, Any] = {"normalize": by_view, "scalings": scalings}
    if views.place == "torch":
        from manyview.engine.torch import TorchEngine

        return TorchEngine(views, n_threads=n_threads, **options)
    if views.place == "dask":
        from manyview.engine.dask import DaskEngine

        return DaskEngine(views, **options)
    from manyview.engine.local import LocalEngine

    return LocalEngine(views, n_threads=n_threads, **options)


class Engine(ABC):
    """Blocks of rows, wherever they are.

    Attributes
    ----------
    n_samples : int
    dtype : dtype
        Precision of all state and factors.
    scalings : list of Scaling
        One for each view.
    chunk : int
        Rows of a block that are compared with landmarks at a time.
    """

    n_samples: int
    dtype: np.dtype[Any]
    scalings: list[Scaling]
    chunk: int = 256

    @abstractmethod
    def running(self) -> AbstractContextManager[None]:
        """Hold resources of a fit, such as threads."""

    @abstractmethod
    def sum(self, kernel: Callable[..., Sums], *args: Any) -> Sums:
        """Return the sums over blocks of what ``kernel(block, *args)`` returns."""

    def sum_wide(self, kernel: Callable[..., Sums], *args: Any) -> Sums:
        """Do as :meth:`sum`, for a kernel that makes arrays as wide as the views.

        Of the state it may read the labels only.
        """
        return self.sum(kernel, *args)

    @abstractmethod
    def update(self, kernel: Callable[..., Update], *args: Any) -> Sums:
        """Store the state that ``kernel(block, *args)`` returns in each block; sum the rest.

        Nothing changes before all blocks are done, so an interrupt leaves the old state.
        """

    @abstractmethod
    def restrict(self, v: int, active: npt.NDArray[np.intp] | None) -> None:
        """Let the blocks hold only some features of view `v`; None restores all of them."""

    def unrestrict(self) -> None:
        """Restore all features of all views."""
        for v in range(len(self.scalings)):
            self.restrict(v, None)

    @abstractmethod
    def restricted_size(self, v: int, features: npt.NDArray[np.bool_]) -> int:
        """Return how many numbers a copy of view `v` with these features only would hold."""

    @abstractmethod
    def scatter(self, name: str, values: npt.NDArray[Any]) -> None:
        """Give each block its rows of an array, as state."""

    @abstractmethod
    def gather(self, name: str) -> Array:
        """Return a state of all blocks as one array, on the device of the samples."""

    @abstractmethod
    def take(self, samples: npt.NDArray[np.intp]) -> list[RowView]:
        """Return the rows of some samples in every view, in this process."""

    @abstractmethod
    def take_state(self, name: str, samples: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        """Return a state of some samples, in this process."""

    @abstractmethod
    def snapshot(self, *names: str) -> list[dict[str, Any]]:
        """Return some of the blocks' state, for :meth:`restore`.

        Nothing is copied, because kernels replace arrays and do not write into them.
        """

    @abstractmethod
    def restore(self, snapshot: list[dict[str, Any]]) -> None:
        """Restore the state of a snapshot."""

    def side_by_side(self, function: Callable[[S], T], items: Sequence[S]) -> list[T]:
        """Return ``function(item)`` for each item, computed by the threads of the engine.

        `function` must not call the engine: it would wait for a thread that it holds.
        """
        return list(map(function, items))

    def rescale(self, name: str, factors: Sequence[float]) -> None:
        """Multiply each array of a state that is a list by a number.

        Arrays may be changed in place, so snapshots of that state are no longer valid.
        """
        self.update(_rescale_kernel, name, factors)

    def asarray(self, values: npt.NDArray[Any]) -> Array:
        """Return NumPy values on the device where factors are computed."""
        return values

    def forget(self, *names: str) -> None:
        """Delete some of the blocks' state."""
        self.update(_forget_kernel, names)

    @cached_property
    def moments(self) -> list[tuple[Matrix, Matrix]]:
        """Mean and mean square of every column of each scaled view, bias last.

        They are computed on first use, which must precede :meth:`restrict`.
        """
        if any(scaling.active is not None for scaling in self.scalings):
            raise RuntimeError("moments must be computed before features are restricted")
        return [self._column_moments(v) for v in range(len(self.scalings))]

    def _column_moments(self, v: int) -> tuple[Matrix, Matrix]:
        scaling = self.scalings[v]
        centre, width = scaling.columns or (None, np.float64(1.0))
        pulled, squares = self.sum(_moments_kernel, v, centre, self.dtype)
        squares = to_numpy(squares) * width**2
        mean = to_numpy(scaling.unfold(pulled))[:, 0] / self.n_samples
        return mean, np.append(squares / self.n_samples, 1.0)

    def _found_scalings(self, widths: list[int], normalize: list[str | None]) -> list[Scaling]:
        """Return the column scaling of each view that the samples imply."""
        return [
            self.standardising(v) if normalize[v] == "columns" else Scaling(width)
            for v, width in enumerate(widths)
        ]

    def standardising(self, v: int) -> Scaling:
        """Return the scaling that gives the columns of view `v` mean 0 and variance 1."""
        total, weight, known = self.sum(_column_sums, v)
        centre = to_numpy(total) / max(float(weight), 1.0)
        (squares,) = self.sum(_column_deviations, v, centre)
        deviation = np.sqrt(to_numpy(squares) / np.maximum(to_numpy(known), 1.0))
        # constant up to rounding, or too small for its square to be represented
        tiny = float(np.finfo(self.dtype).tiny)
        constant = (deviation <= ROUNDING_OF_MEAN * np.abs(centre)) | (deviation**2 < tiny)
        width = np.divide(1.0, deviation, where=~constant, out=np.zeros_like(deviation))
        return Scaling(centre.size, centre.astype(self.dtype), width.astype(self.dtype))


def _rescale_kernel(block: Block, name: str, factors: Sequence[float]) -> Update:
    return {name: [x * f for x, f in zip(block.state[name], factors, strict=True)]}, ()


def _forget_kernel(block: Block, names: tuple[str, ...]) -> Update:
    return dict.fromkeys(names), ()


def _moments_kernel(block: Block, v: int, centre: Array | None, dtype: np.dtype[Any]) -> Sums:
    view = block.views[v]
    ones = _weights(RowView(view.x, None))
    pulled = view.pull(as_dtype(ones, dtype)[:, None])
    squares = column_squares(view) if centre is None else _column_deviations(block, v, centre)
    return pulled, *squares


def column_squares(view: RowView) -> Sums:
    """Return the sum of squares of every column of the scaled rows."""
    weights = _weights(view)
    # rows are scaled before they are squared, because raw squares may overflow
    if is_sparse(view.x):
        return (column_sums(view.x, times(view.x, weights, None).data ** 2),)
    xp = namespace(weights)
    parts = (part.x * weights[rows, None] for rows, part in view.parts(weights.dtype))
    return add_sums((xp.sum(scaled * scaled, axis=0),) for scaled in parts)


def _column_sums(block: Block, v: int) -> Sums:
    """Return the sums of the columns, that of the weights, and that of known entries' weights."""
    view = block.views[v]
    weights = _weights(view)
    total = namespace(weights).sum(weights)
    if is_sparse(view.x):
        return column_sums(view.x, times(view.x, weights, None).data), total, total
    known = total if view.known is None else as_dtype(view.known, np.float64).T @ weights
    return as_dtype(view.x, np.float64).T @ weights, total, known


def _column_deviations(block: Block, v: int, centre: Array) -> Sums:
    view = block.views[v]
    weights = _weights(view)
    if not is_sparse(view.x):
        parts = view.parts(weights.dtype)
        return add_sums((((part.x - centre) ** 2).T @ weights[rows, ...],) for rows, part in parts)
    # deviations of stored entries, and of the zeros that are not stored
    x, stored = view.x, weights[rows_of_entries(view.x)]
    deviations = column_sums(x, (x.data - centre[x.indices]) ** 2 * stored)
    return (deviations + centre**2 * (weights.sum() - column_sums(x, stored)),)


def _weights(view: RowView) -> Array:
    """Return the scale of each row in double precision."""
    if view.scale is not None:
        return as_dtype(view.scale, np.float64)
    entries = view.x.data if is_sparse(view.x) else view.x
    xp, device = namespace(entries), array_api_compat.device(entries)
    return xp.ones(view.x.shape[0], dtype=xp.float64, device=device)
