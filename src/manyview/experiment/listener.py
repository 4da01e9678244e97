"""Who is told how a comparison goes on."""

from __future__ import annotations

from manyview.experiment.run import Run
from manyview.experiment.tasks import Task

__all__ = ["Listener"]


class Listener:
    """Is told how a comparison goes on, and does nothing with it: a base for those that do.

    Examples
    --------
    >>> from manyview.datasets import make_views
    >>> from manyview.experiment import REFERENCES, compare
    >>> class Printer(Listener):
    ...     def finished(self, run):
    ...         print(f"{run.method}, seed {run.seed}: {run.outcome}")
    >>> data = make_views(60, 3, (6, 5), random_state=0)
    >>> runs = compare([REFERENCES["k-means"]], [data], repeats=2, listener=Printer())
    k-means, seed 0: done
    k-means, seed 1: done
    """

    def planned(self, total: int, known: int) -> None:
        """Hear how much there is to do.

        Parameters
        ----------
        total : int
            Number of runs.
        known : int
            How many of them a results file held already.
        """

    def started(self, task: Task) -> None:
        """Hear that a task is begun.

        Parameters
        ----------
        task : Task
            Its runs are told of as they end.
        """

    def finished(self, run: Run) -> None:
        """Hear of a run that ended.

        Parameters
        ----------
        run : Run
            With its result, or the reason why it has none.
        """
