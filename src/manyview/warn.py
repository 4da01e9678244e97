"""Warnings that name the user's line, however deep the code that has something to say."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import joblib
import sklearn

__all__ = ["warn_user"]

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
