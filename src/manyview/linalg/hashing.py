"""Random numbers that belong to rows, wherever the rows are."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace, is_torch_array

__all__ = ["uniform_of_rows"]

Array: TypeAlias = Any


def uniform_of_rows(rows: Array, seed: int) -> Array:
    """Return a number in [0, 1) for each row, which depends on the row and the seed only.

    However rows are put into blocks, each gets the same number: the finaliser of SplitMix64 on
    the row's place in a sequence whose start the seed decides. Rows are unsigned integers of 64
    bits, or signed ones as a tensor.

    Examples
    --------
    >>> import numpy as np
    >>> whole = uniform_of_rows(np.arange(6, dtype=np.uint64), seed=1)
    >>> bool((uniform_of_rows(np.arange(3, 6, dtype=np.uint64), seed=1) == whole[3:]).all())
    True
    """
    start = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
    xp = array_namespace(rows)
    with np.errstate(over="ignore"):
        x = rows * _constant(0x9E3779B97F4A7C15, rows) + _constant(start, rows)
        x = (x ^ _shifted(x, 30)) * _constant(0xBF58476D1CE4E5B9, rows)
        x = (x ^ _shifted(x, 27)) * _constant(0x94D049BB133111EB, rows)
    x = x ^ _shifted(x, 31)
    return xp.astype(_shifted(x, 11), xp.float64) * 2.0**-53


def _constant(value: int, like: Array) -> Array:
    """Return 64 bits as the type of an array takes them; of tensors, signed."""
    if is_torch_array(like):
        return value - 2**64 if value >= 2**63 else value
    if isinstance(like, np.ndarray):
        return np.uint64(value)
    return array_namespace(like).asarray(value, dtype=like.dtype)


def _shifted(x: Array, bits: int) -> Array:
    """Return bits shifted to the right, with zeros from the left."""
    shifted = x >> _constant(bits, x)
    # signed integers are filled with their sign
    return shifted & (2 ** (64 - bits) - 1) if is_torch_array(x) else shifted
