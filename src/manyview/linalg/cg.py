"""Preconditioned conjugate gradients on matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from array_api_compat import array_namespace

__all__ = ["conjugate_gradients"]

Array: TypeAlias = Any


def conjugate_gradients(
    operator: Callable[[Array], Array],
    residual: Array,
    precondition: Callable[[Array], Array],
    *,
    steps: int,
    enough: Callable[[float, float], bool] = lambda gain, total: False,
) -> Array:
    """Return a correction ``X`` that brings ``operator(X)`` towards ``residual``.

    For a system ``H W = E`` and a guess ``W0``, pass ``residual = E - H W0``; ``W0 + X`` is the
    improved guess. The quadratic ``<W, H W>/2 - <W, E>`` falls at every step, so that any number
    of steps is a step of descent.

    Parameters
    ----------
    operator : callable
        Product with the symmetric positive definite H, from a matrix to one of the same shape.
    residual : array
        Right side of the system for the correction.
    precondition : callable
        Product with an approximate inverse of H, symmetric positive semi-definite.
    steps : int
        Most steps taken, one product with H each.
    enough : callable, optional
        Given by how much the last step and all steps lowered twice the quadratic; ends the
        steps by returning True.

    Returns
    -------
    array
        The correction, of the shape of `residual`.

    Examples
    --------
    >>> import numpy as np
    >>> H = np.diag([1.0, 2.0, 4.0])
    >>> conjugate_gradients(lambda X: H @ X, np.ones((3, 1)), lambda X: X, steps=3).round(6).T
    array([[1.  , 0.5 , 0.25]])
    """
    xp = array_namespace(residual)
    correction = 0.0 * residual
    preconditioned = precondition(residual)
    direction = preconditioned
    inner = xp.sum(residual * preconditioned)
    total = 0.0
    if not float(inner) > 0.0:
        return correction
    for _ in range(steps):
        image = operator(direction)
        # both numbers are asked for at once: on a device, asking waits for all that came before
        curvature, energy = float(xp.sum(direction * image)), float(inner)
        if not (energy > 0.0 and curvature > 0.0):  # rounding has used up the residual
            break
        length = energy / curvature
        correction = correction + length * direction
        gain = length * energy
        total += gain
        if enough(gain, total):
            break
        residual = residual - length * image
        preconditioned = precondition(residual)
        previous, inner = inner, xp.sum(residual * preconditioned)
        direction = preconditioned + (inner / previous) * direction
    return correction
