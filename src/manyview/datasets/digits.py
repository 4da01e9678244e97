"""Handwritten digits in four views, computed from the images that scikit-learn contains."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral

import numpy as np
from sklearn.datasets import load_digits

from manyview._typing import Floats
from manyview.datasets.dataset import Classes, Dataset
from manyview.views import as_views

__all__ = ["load_digits_views"]

_SIDE = 8
_CELL, _STEP = 4, 2
_ORIENTATIONS = 8

FeaturesAndNames = tuple[Floats, list[str]]


def load_digits_views(*, n_samples: int | None = None) -> Dataset[Classes]:
    """Load 1797 handwritten digits, images of 8 x 8 pixels, in four views.

    ``pixels`` (64)
        Ink of each pixel, 0 to 16.
    ``fourier`` (34)
        ``log(1 + magnitude)`` of the two-dimensional Fourier transform, which does not depend on
        the position of the strokes. Magnitudes that are equal for every real image occur once.
    ``projections`` (46)
        Ink summed along each row, column, diagonal and antidiagonal.
    ``gradients`` (72)
        Histograms of oriented gradients: in each of 3 x 3 overlapping cells of 4 x 4 pixels,
        the total length of the gradients in each of eight directions.

    Parameters
    ----------
    n_samples : int, optional
        Number of samples, the first ones; by default all. The classes alternate, so that any
        number of samples is about balanced.

    Returns
    -------
    Dataset
        Views in float64 with named features, and the digits as classes.

    Examples
    --------
    >>> from manyview.datasets import load_digits_views
    >>> views, y = load_digits_views()
    >>> views
    Views(1797 samples; pixels: 64 x float64, fourier: 34 x float64,
    projections: 46 x float64, gradients: 72 x float64)
    >>> y[:5]
    array([0, 1, 2, 3, 4])
    """
    images, y = load_digits(return_X_y=True)
    if n_samples is not None:
        if not isinstance(n_samples, Integral) or not 1 <= n_samples <= len(y):
            raise ValueError(f"n_samples={n_samples!r}; expected an integer from 1 to {len(y)}")
        images, y = images[:n_samples], y[:n_samples]
    images = images.reshape(-1, _SIDE, _SIDE).astype(np.float64)
    found = {
        "pixels": _pixels(images),
        "fourier": _fourier(images),
        "projections": _projections(images),
        "gradients": _gradients(images),
    }
    views = as_views({name: features for name, (features, _) in found.items()})
    feature_names = tuple(np.asarray(names, dtype=np.str_) for _, names in found.values())
    class_names = np.asarray([str(digit) for digit in range(10)], dtype=np.str_)
    return Dataset(
        replace(views, feature_names=feature_names), y.astype(np.int64), class_names, "digits"
    )


def _pixels(images: Floats) -> FeaturesAndNames:
    names = [f"row{i}_column{j}" for i in range(_SIDE) for j in range(_SIDE)]
    return images.reshape(len(images), -1), names


def _fourier(images: Floats) -> FeaturesAndNames:
    magnitudes = np.log1p(np.abs(np.fft.rfft2(images)))
    half = _SIDE // 2
    # a real image has |F(u, v)| = |F(-u, -v)|: in the first and last column of the half
    # spectrum the lower rows repeat the upper ones
    kept = [(u, v) for u in range(_SIDE) for v in range(half + 1) if u <= half or 0 < v < half]
    rows, columns = np.transpose(kept)
    return magnitudes[:, rows, columns], [f"frequency{u}_{v}" for u, v in kept]


def _projections(images: Floats) -> FeaturesAndNames:
    i, j = np.indices((_SIDE, _SIDE))
    lines = {"row": i, "column": j, "diagonal": i - j + _SIDE - 1, "antidiagonal": i + j}
    masks, names = [], []
    for direction, line in lines.items():
        for at in range(line.max() + 1):
            masks.append(line == at)
            names.append(f"{direction}{at}")
    return np.tensordot(images, np.asarray(masks, dtype=np.float64), ((1, 2), (1, 2))), names


def _gradients(images: Floats) -> FeaturesAndNames:
    down, right = np.gradient(images, axis=(1, 2))
    length = np.hypot(down, right)
    # bins are centred on multiples of 45 degrees, where the gradients of straight strokes lie, so
    # that rounding errors of the angle do not move them to another bin
    turn = np.arctan2(down, right) / (2 * np.pi) * _ORIENTATIONS
    direction = np.rint(turn).astype(int) % _ORIENTATIONS
    histograms, names = [], []
    starts = range(0, _SIDE - _CELL + 1, _STEP)
    for top in starts:
        for left in starts:
            cell = np.s_[:, top : top + _CELL, left : left + _CELL]
            for d in range(_ORIENTATIONS):
                chosen = np.where(direction[cell] == d, length[cell], 0.0)
                histograms.append(chosen.sum(axis=(1, 2)))
                names.append(f"cell{top}_{left}_angle{360 * d // _ORIENTATIONS}")
    return np.stack(histograms, axis=1), names
