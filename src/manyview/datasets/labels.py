"""Labels of any kind as the classes 0 to K - 1 and their names."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["as_strings", "encode_labels"]


def encode_labels(
    labels: Any, n_samples: int, class_names: Any = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.str_]]:
    """Give every class a number, from 0, and a name.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        Numbers or strings; numbers 0 to K - 1 where ``class_names`` names the K classes.
    n_samples : int
        How many labels there should be.
    class_names : array-like of str of shape (n_classes,), optional
        Names of the classes; by default the labels themselves, in sorted order.

    Returns
    -------
    codes : ndarray of int64 of shape (n_samples,)
        The classes.
    names : ndarray of str of shape (n_classes,)
        Their names.

    Examples
    --------
    >>> encode_labels([2.0, 1.0, 2.0], 3)
    (array([1, 0, 1]), array(['1', '2'], dtype='<U1'))
    """
    array = _as_array(labels)
    if array.ndim != 1 or len(array) != n_samples:
        raise ValueError(
            f"labels have shape {array.shape}; expected one for each of {n_samples} samples"
        )
    if array.dtype.kind not in "biufUS":
        raise ValueError(f"labels hold {array.dtype}; expected numbers or strings")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            n = int(np.flatnonzero(~np.isfinite(array))[0])
            raise ValueError(f"the label of sample {n} is {array[n]}; expected a finite number")
        # MATLAB keeps whole numbers as floats, and 1.0 is a poor name for class 1
        if (np.abs(array) < 2**53).all() and (array == np.rint(array)).all():
            array = array.astype(np.int64)
    if class_names is None:
        classes, codes = np.unique(array, return_inverse=True)
        return codes.astype(np.int64), as_strings(classes)
    names = as_strings(np.asarray(class_names))
    if names.ndim != 1 or not len(names):
        raise ValueError(f"class_names have shape {names.shape}; expected one name a class")
    if array.dtype.kind not in "iu":
        raise ValueError(f"labels hold {array.dtype}; with class_names, expected whole numbers")
    if array.min() < 0 or array.max() >= len(names):
        raise ValueError(
            f"labels run from {array.min()} to {array.max()}; with the names of {len(names)} "
            f"classes, expected 0 to {len(names) - 1}"
        )
    return array.astype(np.int64), names


def as_strings(array: npt.NDArray[Any]) -> npt.NDArray[np.str_]:
    """Return the elements as strings, bytes taken as UTF-8."""
    if array.dtype.kind == "U":
        return array
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8")
    return np.asarray([str(item) for item in array.ravel().tolist()], np.str_).reshape(array.shape)


def _as_array(labels: Any) -> npt.NDArray[Any]:
    array = np.asarray(labels)
    if array.dtype.kind not in "OUT":
        return array
    # NumPy would write a mixture as strings, missing values too
    objects = np.asarray(labels, dtype=object)
    others = [label for label in objects.ravel() if not isinstance(label, str)]
    if not others:
        return objects.astype(np.str_)
    if len(others) < objects.size:
        raise ValueError(
            f"labels mix strings with {others[0]!r}; expected all numbers or all strings"
        )
    return np.asarray(objects.tolist())
