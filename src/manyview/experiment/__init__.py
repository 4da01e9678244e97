"""Comparisons of methods over data sets, parameters and seeds."""

from manyview.experiment.methods import METHODS, Method, method_named
from manyview.experiment.protocol import Run, compare
from manyview.experiment.published import PUBLISHED
from manyview.experiment.summary import Row, summarise

__all__ = ["METHODS", "PUBLISHED", "Method", "Row", "Run", "compare", "method_named", "summarise"]
