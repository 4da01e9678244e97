"""What manyview warns of, for users who silence a warning or make it an error.

Beside these there is scikit-learn's ``ConvergenceWarning``, where a solver ran out of iterations.
"""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning

__all__ = ["InterruptWarning", "ViewWarning"]


class InterruptWarning(ConvergenceWarning):
    """An interrupt ended the iterations; the result is what the last whole one reached."""


class ViewWarning(UserWarning):
    """A view, or some of its features, may not do what they are there for."""
