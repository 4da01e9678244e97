"""Kernel ridge regression through landmarks, with leave-one-out predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg

from manyview._typing import Matrix
from manyview.engine import Block
from manyview.engine.arrays import Array, namespace
from manyview.graph.neighbours import Comparison, chunks_of, kernels_of

__all__ = [
    "Prediction",
    "Ridge",
    "coefficients_of",
    "mean_prediction",
    "predicted_rows",
    "relative_error",
    "shares",
]


class Prediction(NamedTuple):
    """Predicted rows of F, their error relative to its variance, and the number of the ridge."""

    rows: Matrix
    error: float
    ridge: int = 0


def relative_error(predicted: Matrix, F: Matrix) -> float:
    """Return the squared error of predictions relative to the variance of F; 0 if F is constant."""
    total = float(np.sum((F - F.mean(axis=0)) ** 2))
    if total <= 1e-12 * float(np.sum(F**2)):
        return 0.0
    return float(np.sum((predicted - F) ** 2)) / total


def shares(predictions: Sequence[Prediction]) -> list[float]:
    """Return the weight of each prediction: the part of F that it explains, summing to one."""
    explained = [max(1.0 - found.error, 1e-3) for found in predictions]
    return [part / sum(explained) for part in explained]


def mean_prediction(predictions: Sequence[Prediction], F: Matrix) -> Prediction:
    """Return the mean of predictions, weighted by what they explain."""
    pairs = zip(shares(predictions), predictions, strict=True)
    rows = reduce(add, (share * found.rows for share, found in pairs))
    return Prediction(rows, relative_error(rows, F))


@dataclass
class Ridge:
    """Kernel ridge regression through landmarks, with its leave-one-out predictions.

    ``basis`` (samples x rank) has the left singular vectors of Nyström's features, ``values`` their
    squared singular values, and ``to_landmarks`` turns coefficients of the basis into those of the
    landmarks. ``leverages`` (samples x ridges) are the diagonals of the hat matrices.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> ridge = Ridge.of(1.0 + x @ x.T, np.arange(4), ridges=(1e-9,))
    >>> ridge.leave_one_out(2.0 * x).rows.round(3).ravel() + 0.0
    array([0., 2., 4., 6.])
    """

    basis: Matrix
    values: Matrix
    to_landmarks: Matrix
    ridges: npt.NDArray[np.float64]
    leverages: Matrix

    @classmethod
    def of(
        cls, kernel: Matrix, landmarks: npt.NDArray[np.intp], ridges: tuple[float, ...]
    ) -> Ridge:
        """Return the regression, given the kernel of the samples with some of them."""
        values, vectors = scipy.linalg.eigh(
            kernel[landmarks].astype(np.float64), check_finite=False, overwrite_a=True
        )
        kept = values > 1e-6 * max(float(values[-1]), np.finfo(np.float64).tiny)
        whitening = vectors[:, kept] / np.sqrt(values[kept])
        features = kernel @ whitening.astype(kernel.dtype)
        values, vectors = scipy.linalg.eigh(
            (features.T @ features).astype(np.float64), check_finite=False, overwrite_a=True
        )
        kept = values > 1e-8 * max(float(values[-1]), np.finfo(np.float64).tiny)
        rotation, values = vectors[:, kept] / np.sqrt(values[kept]), values[kept]
        basis = features @ rotation.astype(kernel.dtype)
        scaled = np.array(ridges) * float(values.sum()) / kernel.shape[0]
        leverages = (basis**2) @ (values[:, None] / (values[:, None] + scaled)).astype(basis.dtype)
        leverages = np.minimum(leverages.astype(np.float64), 1.0 - 1e-6)
        return cls(basis, values, whitening @ rotation, scaled, leverages)

    def leave_one_out(self, F: Matrix, near: int | None = None) -> Prediction:
        """Return leave-one-out predictions with the best ridge, or the best of those `near` one."""
        numbers = range(self.ridges.size)
        if near is not None:
            numbers = range(max(near - 1, 0), min(near + 2, self.ridges.size))
        aligned = self.basis.T @ F.astype(self.basis.dtype)
        best = None
        for number in numbers:
            leverage = self.leverages[:, number, None]
            fitted = self.basis @ (self._shrunk(number) * aligned).astype(self.basis.dtype)
            rows = (fitted - leverage * F) / (1.0 - leverage)
            error = relative_error(rows, F)
            if best is None or error < best.error:
                best = Prediction(rows, error, number)
        if best is None:
            raise ValueError("expected at least one ridge")
        return best

    def leading(self, count: int) -> Matrix:
        """Return the samples' coordinates in the leading directions of the kernel's features."""
        return np.asarray(self.basis[:, -count:] * np.sqrt(self.values[-count:]))

    def coefficients(self, F: Matrix, ridge: int) -> Matrix:
        """Return what the kernel with the landmarks is multiplied by to predict other samples."""
        return np.asarray(self.to_landmarks @ (self._shrunk(ridge) * (self.basis.T @ F)))

    def _shrunk(self, ridge: int) -> Matrix:
        return np.asarray(self.values / (self.values + self.ridges[ridge]))[:, None]


def coefficients_of(regressions: Sequence[Ridge], F: Matrix, dtype: np.dtype[Any]) -> list[Matrix]:
    """Return the coefficients of all regressions, by which :func:`predicted_rows` predicts F."""
    found = [ridge.leave_one_out(F) for ridge in regressions]
    return [
        (share * ridge.coefficients(F, prediction.ridge)).astype(dtype)
        for share, prediction, ridge in zip(shares(found), found, regressions, strict=True)
    ]


def predicted_rows(block: Block, comparison: Comparison, coefficients: list[Array]) -> Array:
    """Return the predictions for the rows of a block."""
    parts = []
    # a few rows at a time: their kernels may take more memory than the views
    for chunk in chunks_of(block, comparison):
        kernels = kernels_of(block, chunk, comparison)
        pairs = zip(kernels, coefficients, strict=True)
        parts.append(reduce(add, (kernel @ rows for kernel, rows in pairs)))
    return namespace(*parts).concat(parts, axis=0)
