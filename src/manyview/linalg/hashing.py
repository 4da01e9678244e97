"""Random numbers that belong to rows, wherever the rows are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["uniform_of_rows"]


def uniform_of_rows(rows: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.float64]:
    """Return a number in [0, 1) for each row, which depends on the row and the seed only.

    However rows are put into blocks, each gets the same number: the finaliser of SplitMix64 on
    the row's place in a sequence whose start the seed decides.

    Examples
    --------
    >>> import numpy as np
    >>> whole = uniform_of_rows(np.arange(6, dtype=np.uint64), seed=1)
    >>> bool((uniform_of_rows(np.arange(3, 6, dtype=np.uint64), seed=1) == whole[3:]).all())
    True
    """
    start = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    with np.errstate(over="ignore"):
        x = rows * np.uint64(0x9E3779B97F4A7C15) + start
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    numbers: npt.NDArray[np.float64] = (x >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return numbers
