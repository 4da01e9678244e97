"""Comparisons of methods over data sets, parameters and seeds."""

from manyview.experiment.limits import Limits
from manyview.experiment.listener import Listener
from manyview.experiment.methods import METHODS, REFERENCES, Method, method_named
from manyview.experiment.protocol import compare
from manyview.experiment.published import PUBLISHED
from manyview.experiment.results import ResultsFile, read_runs
from manyview.experiment.run import Run
from manyview.experiment.significance import (
    Difference,
    Ranking,
    paired_differences,
    rank_methods,
)
from manyview.experiment.summary import Row, summarise
from manyview.experiment.tasks import Task

__all__ = [
    "METHODS",
    "PUBLISHED",
    "REFERENCES",
    "Difference",
    "Limits",
    "Listener",
    "Method",
    "Ranking",
    "ResultsFile",
    "Row",
    "Run",
    "Task",
    "compare",
    "method_named",
    "paired_differences",
    "rank_methods",
    "read_runs",
    "summarise",
]
