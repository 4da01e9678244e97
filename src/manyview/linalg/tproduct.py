"""The t-product of tensors: matrix products of slices after a Fourier transform across slices.

A tensor is an array of shape (V, n, m), slices first. Its transform is the list of slices 0 to
V // 2; the others are conjugates of these. Slices that are their own conjugate are real.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.fft
import scipy.linalg

__all__ = [
    "from_fourier",
    "slice_multiplicity",
    "t_product",
    "threshold_singular_values",
    "to_fourier",
]

Tensor = npt.NDArray[np.floating[Any]]
Slice = npt.NDArray[Any]


def to_fourier(tensor: Tensor) -> list[Slice]:
    """Return the slices 0 to V // 2 of the Fourier transform across slices."""
    # transforms of one and two slices are real, and need no complex copy
    if tensor.shape[0] == 1:
        return [np.array(tensor[0])]
    if tensor.shape[0] == 2:
        return [tensor[0] + tensor[1], tensor[0] - tensor[1]]
    transformed = scipy.fft.rfft(tensor, axis=0)  # numpy.fft may not keep single precision
    counts = slice_multiplicity(tensor.shape[0])
    return [
        np.ascontiguousarray(part.real) if count == 1 else part
        for part, count in zip(transformed, counts, strict=True)
    ]


def from_fourier(slices: Sequence[Slice], depth: int) -> Tensor:
    """Return the tensor of `depth` slices whose transform is `slices`."""
    tensor: Tensor
    if depth == 1:
        return np.array(slices[0])[None]
    if depth == 2:
        tensor = np.stack([slices[0] + slices[1], slices[0] - slices[1]])
        tensor *= 0.5
        return tensor
    tensor = scipy.fft.irfft(np.stack(slices), n=depth, axis=0)
    return tensor


def slice_multiplicity(depth: int) -> list[int]:
    """Return 1 for each transformed slice that is its own conjugate, 2 for the others."""
    return [1 if 2 * k % depth == 0 else 2 for k in range(depth // 2 + 1)]


def t_product(left: Tensor, right: Tensor) -> Tensor:
    """Return the t-product, whose slice k is ``sum_j left[j] @ right[(k - j) mod V]``.

    Examples
    --------
    >>> shift = np.array([[[0.0]], [[1.0]]])
    >>> t_product(shift, np.array([[[5.0]], [[7.0]]])).ravel()
    array([7., 5.])
    """
    pairs = zip(to_fourier(left), to_fourier(right), strict=True)
    return from_fourier([a @ b for a, b in pairs], left.shape[0])


def threshold_singular_values(matrix: Slice, by: float) -> tuple[Slice, float]:
    """Return a matrix with every singular value lowered by `by`, down to 0, and their sum.

    This is the proximal operator of the nuclear norm. It uses the eigenvalues of ``M^H M`` above
    ``by^2``, whose rounding error is that of the largest one. Therefore an SVD takes over for `by`
    below 1e-5 of the norm, and where the eigensolver fails. In single precision `by` should be
    above 1e-2 of the norm.
    """
    if not np.isfinite(matrix).all():
        raise ValueError("the matrix holds NaN or infinity; expected finite numbers")
    if by > 1e-5 * float(np.linalg.norm(matrix)):
        square = matrix.conj().T @ matrix
        try:
            squares, right = scipy.linalg.eigh(
                square, driver="evd", overwrite_a=True, check_finite=False
            )
        except scipy.linalg.LinAlgError:
            return _threshold_by_svd(matrix, by)
        first = int(np.searchsorted(squares, by**2, side="right"))
        values, right = np.sqrt(squares[first:]), right[:, first:]
        lowered = (matrix @ right) * (1.0 - by / values) @ right.conj().T
        return lowered, float(np.sum(values - by))
    return _threshold_by_svd(matrix, by)


def _threshold_by_svd(matrix: Slice, by: float) -> tuple[Slice, float]:
    # gesvd: the faster gesdd can fail on finite matrices of less than full rank
    left, values, right = scipy.linalg.svd(matrix, full_matrices=False, lapack_driver="gesvd")
    values = np.maximum(values - by, 0.0)
    return (left * values) @ right, float(values.sum())
