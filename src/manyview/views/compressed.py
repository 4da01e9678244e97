"""Whether the index arrays of a sparse array can be trusted."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["check_compressed"]


def check_compressed(array: Any) -> None:
    """Raise ValueError where a CSR or CSC array points outside itself.

    SciPy's compiled code follows indices unchecked, so that a damaged file, or a map of one that is
    not written whole, could read and write memory that is not the array's.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> check_compressed(sp.csr_array(([1.0, 2.0], [0, 7], [0, 1, 2]), shape=(2, 3)))
    Traceback (most recent call last):
    ...
    ValueError: indices must be < 3
    """
    # check_format looks no further than the last pointer when that one says that nothing is stored
    if (np.diff(array.indptr) < 0).any():
        raise ValueError("the pointers to the rows or columns of a sparse array decrease")
    array.check_format(full_check=True)
