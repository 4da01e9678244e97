"""What a comparison must be asked for, before any work is done."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

from manyview.datasets import Dataset
from manyview.experiment.limits import Limits
from manyview.experiment.methods import Method
from manyview.experiment.plan import PREPROCESSINGS

__all__ = ["check_datasets", "check_methods", "check_options"]


def check_methods(methods: Sequence[Method]) -> None:
    """Raise unless all are methods, of different names."""
    for method in methods:
        if not isinstance(method, Method):
            raise TypeError(
                f"{method!r} is no method; expected those of METHODS, such as METHODS['MMC'], of "
                "REFERENCES, or a Method"
            )
    called = [method.name for method in methods]
    for name in called:
        if called.count(name) > 1:
            raise ValueError(f"two methods are called {name!r}")


def check_datasets(datasets: Sequence[Dataset]) -> None:
    """Raise unless all are data sets with their classes, of different names."""
    if isinstance(datasets, Dataset):
        raise TypeError("datasets is one Dataset; expected a list of them")
    for dataset in datasets:
        if not isinstance(dataset, Dataset):
            raise TypeError(f"received {type(dataset).__name__}; expected a list of Dataset")
    names = [dataset.name for dataset in datasets]
    for dataset in datasets:
        if dataset.y is None:
            raise ValueError(f"data set {dataset.name!r} has no classes to score against")
        if names.count(dataset.name) > 1:
            raise ValueError(f"two data sets are called {dataset.name!r}: rename a file, or a set")


def check_options(
    repeats: int,
    preprocessings: Sequence[str],
    n_jobs: int | None,
    limits: Limits,
    *,
    tuning_repeats: int = 1,
) -> None:
    """Raise unless there are runs to do, in ways that are known and can be kept to."""
    if n_jobs is not None and n_jobs < 1:
        raise ValueError(f"n_jobs={n_jobs}; expected at least 1, or None")
    for preprocessing in preprocessings:
        if preprocessing not in PREPROCESSINGS:
            expected = ", ".join(PREPROCESSINGS)
            raise ValueError(f"no scaling {preprocessing!r}; expected some of {expected}")
    for name, value in (("repeats", repeats), ("tuning_repeats", tuning_repeats)):
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name}={value!r}; expected a whole number of at least 1")
    if n_jobs is None and limits != Limits():
        raise ValueError(
            "limits with n_jobs=None: a run in this process cannot be stopped; use n_jobs=1"
        )
