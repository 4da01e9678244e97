"""What manyview warns of and raises by classes of its own, for users who filter or catch it.

Beside these there is scikit-learn's ``ConvergenceWarning``, where a solver ran out of iterations.
"""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning

__all__ = ["InterruptWarning", "NotEnoughMemoryError", "ViewWarning"]


class InterruptWarning(ConvergenceWarning):
    """An interrupt ended the iterations; the result is what the last whole one reached."""


class NotEnoughMemoryError(ValueError, MemoryError):
    """Samples or rank are too large for the method on this machine; refused before it starts."""


class ViewWarning(UserWarning):
    """A view, or some of its features, may not do what they are there for."""
