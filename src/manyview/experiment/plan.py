"""Which runs a comparison consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from manyview.datasets import Dataset
from manyview.experiment.fingerprint import fingerprint
from manyview.experiment.methods import Method
from manyview.experiment.run import Key, Protocol, Run
from manyview.experiment.tasks import Task

__all__ = ["PREPROCESSINGS", "TUNING_SEED", "Cell", "Plan", "cells_of"]

TUNING_SEED = 1000
PREPROCESSINGS = ("default", "none", "rows", "columns")


@dataclass(frozen=True)
class Cell:
    """A method, known by its name, on a data set with a preprocessing.

    Attributes
    ----------
    name : str
        Of the method.
    method : Method
    data, fingerprint : str
        Name of the data set, and what stands for its content.
    n_samples : int
        Of the data set.
    preprocessing : {"default", "none", "rows", "columns"}
    """

    name: str
    method: Method = field(compare=False)
    data: str
    fingerprint: str
    n_samples: int
    preprocessing: str

    def tasks(
        self, protocol: Protocol, setting: Mapping[str, Any], seeds: tuple[int, ...]
    ) -> list[Task]:
        """Return the fits of the method with a setting: one per seed, or one that all share."""
        params = {**self.method.defaults, **setting}
        if self.preprocessing != "default":
            params["normalize"] = None if self.preprocessing == "none" else self.preprocessing
        groups = [seeds] if self.method.shares_fit else [(seed,) for seed in seeds]
        return [
            Task(self.method, self.data, self.fingerprint, self.n_samples, protocol, params, group)
            for group in groups
        ]


def cells_of(
    methods: Sequence[Method], datasets: Sequence[Dataset], preprocessings: Sequence[str]
) -> tuple[Cell, ...]:
    """Return every method on every data set with every preprocessing, none of them twice."""
    prints = {dataset.name: fingerprint(dataset) for dataset in datasets}
    cells = (
        Cell(
            method.name,
            method,
            dataset.name,
            prints[dataset.name],
            dataset.views.n_samples,
            _meant(method, preprocessing),
        )
        for dataset in datasets
        for method in methods
        for preprocessing in preprocessings
    )
    return tuple(dict.fromkeys(cells))


def _meant(method: Method, preprocessing: str) -> str:
    """Return ``"default"`` also where what is asked for is what the method does by itself."""
    own = method.default_preprocessing or "none"
    return "default" if preprocessing == own else preprocessing


@dataclass(frozen=True)
class Plan:
    """The runs of cells with the seeds that are reported, and with those by which they are tuned.

    Attributes
    ----------
    cells : tuple of Cell
    repeats : int
        Number of seeds that are reported.
    tuning_repeats : int
        Number of seeds on which labels choose a setting of the grid; 0 where they choose none.
    """

    cells: tuple[Cell, ...]
    repeats: int
    tuning_repeats: int

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that are reported."""
        return tuple(range(self.repeats))

    @property
    def tuning_seeds(self) -> tuple[int, ...]:
        """The seeds on which settings are chosen, none of which is reported."""
        first = max(TUNING_SEED, self.repeats)
        return tuple(range(first, first + self.tuning_repeats))

    @property
    def tunable(self) -> list[Cell]:
        """The cells that also have tuned runs."""
        return [cell for cell in self.cells if self.tuning_repeats and cell.method.grid]

    def default(self, cell: Cell) -> list[Task]:
        """Return the runs of a cell that see no label."""
        return cell.tasks("default", {}, self.seeds)

    def selection(self, cell: Cell, setting: Mapping[str, Any]) -> list[Task]:
        """Return the runs by which a setting is judged."""
        return cell.tasks("selection", setting, self.tuning_seeds)

    def tuned(self, cell: Cell, setting: Mapping[str, Any]) -> list[Task]:
        """Return the runs of a cell with the setting that labels chose."""
        return cell.tasks("tuned", setting, self.seeds)

    def tasks(self) -> list[Task]:
        """Return all that can be told beforehand: what is tuned hangs on the selection."""
        tasks = [task for cell in self.cells for task in self.default(cell)]
        for cell in self.tunable:
            for setting in cell.method.grid:
                tasks += self.selection(cell, setting)
        return tasks

    def chosen(self, cell: Cell, runs: Mapping[Key, Run]) -> Mapping[str, Any] | None:
        """Return the setting of the grid with the best mean accuracy in the runs of selection.

        None where not one of them ended with labels: there is nothing to choose by.
        """
        grid = cell.method.grid
        judged = [
            [runs[run.key] for task in self.selection(cell, setting) for run in task.runs()]
            for setting in grid
        ]
        if not any(run.scores for found in judged for run in found):
            return None
        accuracy = [np.mean([run.scores.get("acc", 0.0) for run in found]) for found in judged]
        return grid[int(np.argmax(accuracy))]
