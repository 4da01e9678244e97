"""Exception and warning classes, and warnings attributed to the caller's line.

A solver that runs out of iterations warns with scikit-learn's ``ConvergenceWarning``.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import joblib
import sklearn
from sklearn.exceptions import ConvergenceWarning

__all__ = ["InterruptWarning", "NotEnoughMemoryError", "ViewWarning"]


class InterruptWarning(ConvergenceWarning):
    """An interrupt ended the iterations; the result is that of the last complete iteration."""


class NotEnoughMemoryError(ValueError, MemoryError):
    """The data or the rank are too large for the method on this machine; raised before the work."""


class ViewWarning(UserWarning):
    """A view, or some of its features, may not help the clustering."""


# scikit-learn wraps the methods of estimators, and joblib runs some of them
_INTERNAL = tuple(
    f"{Path(file).parent}{os.sep}" for file in (__file__, sklearn.__file__, joblib.__file__)
)


def warn_user(message: str, kind: type[Warning] = UserWarning) -> None:
    """Warn with the line of the user's code that called this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INTERNAL):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, kind, stacklevel=level)
