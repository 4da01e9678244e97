"""The polar factor of a tall matrix through its small Gram matrix."""

from __future__ import annotations

import numpy as np

from manyview._typing import Matrix

__all__ = ["inverse_square_root"]


def inverse_square_root(gram: Matrix, *, rtol: float = 1e-12) -> tuple[Matrix, Matrix]:
    """Return ``G^(-1/2)`` on the range of a Gram matrix, and a basis of its null space.

    For a tall matrix T with ``G = T'T`` of full rank, ``T G^(-1/2)`` is the polar factor of T,
    the orthonormal matrix nearest to it, without a decomposition of T itself.

    Parameters
    ----------
    gram : ndarray of shape (k, k)
        Symmetric positive semi-definite matrix.
    rtol : float
        Eigenvalues below this part of the largest count as zero.

    Returns
    -------
    root : ndarray of shape (k, k)
        Pseudo-inverse square root.
    null : ndarray of shape (k, z)
        Orthonormal basis of the null space; ``z`` is 0 at full rank.

    Examples
    --------
    >>> import numpy as np
    >>> root, null = inverse_square_root(np.diag([4.0, 0.0]))
    >>> root, null.shape
    (array([[0.5, 0. ],
           [0. , 0. ]]), (2, 1))
    """
    eigenvalues, vectors = np.linalg.eigh(gram)
    kept = eigenvalues > rtol * max(float(eigenvalues[-1]), np.finfo(np.float64).tiny)
    basis = vectors[:, kept]
    root: Matrix = (basis / np.sqrt(eigenvalues[kept])) @ basis.T
    return root, vectors[:, ~kept]
