"""Names as a legend or an axis shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["names_of", "shown"]

_LONGEST = 40
_NO_WIDTH = "\N{ZERO WIDTH SPACE}"


def shown(name: object) -> str:
    r"""Return a name as a figure takes it: dollars stand for themselves, one line, not too long.

    Examples
    --------
    >>> print(shown("$ and\n$"))
    \$ and \$
    """
    text = " ".join(str(name).split())
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"
    # a legend leaves out names that begin with an underscore
    return (_NO_WIDTH if text.startswith("_") else "") + text.replace("$", r"\$")


def names_of(y: npt.NDArray[Any], class_names: Sequence[str] | None) -> dict[Any, str]:
    """Return a name for each class that occurs, in order of the classes.

    Examples
    --------
    >>> list(names_of(np.array([1, 0, 1]), ["cat", "dog"]).values())
    ['cat', 'dog']
    """
    values = np.unique(y)
    if class_names is None:
        return {value: str(value) for value in values}
    if values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= len(class_names):
        raise ValueError(
            f"class_names has {len(class_names)} names, y the classes {values.tolist()}; "
            "expected class_names[k] for every class k"
        )
    return {value: str(class_names[value]) for value in values}
