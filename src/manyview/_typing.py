"""Type aliases for NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Floats", "Matrix", "Strings"]

Matrix = npt.NDArray[np.floating[Any]]
Floats = npt.NDArray[np.float64]
Strings = npt.NDArray[np.str_]
