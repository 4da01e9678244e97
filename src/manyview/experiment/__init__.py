"""Comparisons of methods over data sets, parameters and seeds."""

from manyview.experiment.methods import (
    METHODS,
    OTHER_METHODS,
    PUBLISHED,
    REFERENCES,
    Method,
    method_named,
)
from manyview.experiment.protocol import compare
from manyview.experiment.results import ResultsFile, Run, read_runs
from manyview.experiment.significance import Difference, Ranking, paired_differences, rank_methods
from manyview.experiment.summary import Row, summarise
from manyview.experiment.workers import Limits, Listener, Task

__all__ = [
    "METHODS",
    "OTHER_METHODS",
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
