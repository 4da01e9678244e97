"""Comparisons of methods over data sets, parameters and seeds."""

from manyview.experiment.limits import Limits
from manyview.experiment.methods import METHODS, REFERENCES, Method, method_named
from manyview.experiment.protocol import Listener, compare
from manyview.experiment.published import PUBLISHED
from manyview.experiment.results import ResultsFile, read_runs
from manyview.experiment.run import Run
from manyview.experiment.summary import Row, summarise

__all__ = [
    "METHODS",
    "PUBLISHED",
    "REFERENCES",
    "Limits",
    "Listener",
    "Method",
    "ResultsFile",
    "Row",
    "Run",
    "compare",
    "method_named",
    "read_runs",
    "summarise",
]
