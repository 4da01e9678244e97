"""Exception and warning classes, and warnings attributed to the caller's line.

What manyview warns of and raises by classes of its own, for users who filter or catch it.

Beside these there is scikit-learn's ``ConvergenceWarning``, where a solver ran out of iterations.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import joblib
import sklearn
from sklearn.exceptions import ConvergenceWarning

__all__ = ["InterruptWarning", "NotEnoughMemoryError", "ViewWarning", "warn_user"]


class InterruptWarning(ConvergenceWarning):
    """An interrupt ended the iterations; the result is what the last whole one reached."""


class NotEnoughMemoryError(ValueError, MemoryError):
    """Samples or rank are too large for the method on this machine; refused before it starts."""


class ViewWarning(UserWarning):
    """A view, or some of its features, may not do what they are there for."""


# scikit-learn wraps methods of estimators, and fits some by joblib
_OURS = tuple(
    f"{Path(file).parent}{os.sep}" for file in (__file__, sklearn.__file__, joblib.__file__)
)


def warn_user(message: str, kind: type[Warning] = UserWarning) -> None:
    """Warn, as from the line outside of this package that brought it about.

    Parameters
    ----------
    message : str
        What there is to say.
    kind : type of Warning
        Its category.
    """
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, kind, stacklevel=level)
