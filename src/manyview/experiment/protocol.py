"""Methods x data sets x seeds, in two protocols that are never mixed in one row.

*Default*: one set of parameters, no label seen. *Tuned with labels*, as the papers do: the setting
of a grid with the best mean accuracy on some seeds, reported on others.
"""

from __future__ import annotations

from collections.abc import Sequence

from manyview.datasets import Dataset
from manyview.experiment.checks import check_datasets, check_methods, check_options
from manyview.experiment.ledger import Ledger
from manyview.experiment.limits import Limits
from manyview.experiment.listener import Listener
from manyview.experiment.methods import Method
from manyview.experiment.outcome import Ending
from manyview.experiment.plan import Cell, Plan, cells_of
from manyview.experiment.results import ResultsFile
from manyview.experiment.run import Run

__all__ = ["compare"]


def compare(
    methods: Sequence[Method],
    datasets: Sequence[Dataset],
    *,
    repeats: int = 20,
    tune: bool = False,
    tuning_repeats: int = 3,
    preprocessings: Sequence[str] = ("default",),
    n_jobs: int | None = None,
    n_threads: int = 1,
    limits: Limits | None = None,
    results: ResultsFile | None = None,
    listener: Listener | None = None,
) -> list[Run]:
    """Fit every method to every data set, with seeds 0 to `repeats` - 1.

    Parameters
    ----------
    methods : sequence of Method
    datasets : sequence of Dataset
        With their classes, and names that differ.
    repeats : int
        Number of seeds of the reported runs.
    tune : bool
        Also report each method with the setting of its grid that labels choose.
    tuning_repeats : int
        Number of seeds, other than the reported ones, on which the setting is chosen.
    preprocessings : sequence of {"default", "none", "rows", "columns"}
        How views are scaled: as the method does by itself, not at all, samples to unit length,
        features standardised. Each gives runs, and so a row, of its own.
    n_jobs : int or None
        Processes side by side; None does all in this one, where there can be no limits. Each
        imports the calling script, which has to make the call below
        ``if __name__ == "__main__":``.
    n_threads : int
        Threads of linear algebra in each of the processes: one by default, so that times of runs
        do not depend on what runs beside them.
    limits : Limits, optional
        Of time and memory of a run.
    results : ResultsFile, optional
        An open file: runs that it holds are not done again, others are added as they are done.
    listener : Listener, optional
        Is told of the progress.

    Returns
    -------
    list of Run
        The reported runs, by data set, method, preprocessing and protocol.

    Raises
    ------
    TypeError, ValueError
        For what is no method or data set, names that are there twice, data without classes, or
        options out of their range.
    RuntimeError
        If processes cannot be started.

    See Also
    --------
    summarise : Means and standard deviations over seeds.

    Examples
    --------
    >>> from manyview.datasets import make_views
    >>> from manyview.experiment import METHODS, REFERENCES, summarise
    >>> data = make_views(60, 3, (6, 5), random_state=0)
    >>> runs = compare([METHODS["MMC"], REFERENCES["k-means"]], [data], repeats=2)
    >>> [(run.method, run.seed, run.outcome) for run in runs]
    [('MMC', 0, 'done'), ('MMC', 1, 'done'), ('k-means', 0, 'done'), ('k-means', 1, 'done')]
    >>> [(row.method, row.mean["acc"]) for row in summarise(runs)]
    [('MMC', 1.0), ('k-means', 1.0)]
    """
    limits, listener = limits or Limits(), listener or Listener()
    check_datasets(datasets)
    check_methods(methods)
    check_options(repeats, preprocessings, n_jobs, limits, tuning_repeats=tuning_repeats)
    cells = cells_of(methods, datasets, preprocessings)
    plan = Plan(cells, repeats, tuning_repeats if tune else 0)
    by_name = {dataset.name: dataset for dataset in datasets}
    ledger = Ledger(by_name, results, listener, n_jobs, n_threads, limits)
    first = plan.tasks()
    keys = {run.key for task in first for run in task.runs()}
    total = len(keys) + repeats * len(plan.tunable)
    listener.planned(total, len(keys & ledger.runs.keys()))
    ledger.perform(first)
    tuned = {
        cell: plan.tuned(cell, setting)
        for cell in plan.tunable
        if (setting := plan.chosen(cell, ledger.runs)) is not None
    }
    second = [task for tasks in tuned.values() for task in tasks]
    ledger.tell_of_known(second)
    ledger.perform(second)

    reported = []
    for cell in cells:
        reported += ledger.found(plan.default(cell))
        if cell in tuned:
            reported += ledger.found(tuned[cell])
        elif cell in plan.tunable:
            reported += _untuned(cell, plan, ledger)
    return reported


def _untuned(cell: Cell, plan: Plan, ledger: Ledger) -> list[Run]:
    """Return failed runs in place of tuned ones where no setting could be chosen.

    They are not kept: with other limits, or on another machine, there may be one.
    """
    (first, *_) = ledger.found(plan.selection(cell, cell.method.grid[0]))
    reason = f"no setting of the grid ended with labels: {first.error}"
    ending = Ending(first.outcome, reason, first.limit)
    failed = [run.ended(ending) for task in plan.tuned(cell, {}) for run in task.runs()]
    for run in failed:
        ledger.listener.finished(run)
    return failed
