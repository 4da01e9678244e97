"""``manyview fit``: cluster the samples of a file."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from rich.console import Console

from manyview import MMC
from manyview.cli.labels_file import STDOUT, check_labels_path, write_labels
from manyview.cli.named_data import find_dataset
from manyview.cli.tables import (
    SCORES,
    cluster_sizes,
    described,
    facts,
    kept_features,
    new_console,
    objective_span,
    print_parts,
    scores,
)
from manyview.datasets import Dataset

__all__ = ["fit_file"]


def fit_file(data: str, out: Path, model: MMC, *, force: bool, quiet: bool) -> None:
    """Cluster the samples of a file or set and write their labels.

    Parameters
    ----------
    data : str
        A file of views or the name of a set; see :func:`manyview.cli.named_data.find_dataset`.
    out : Path
        Where the labels go.
    model : MMC
        The estimator, not yet fitted.
    force : bool
        Whether an older file of labels may be replaced.
    quiet : bool
        Whether to say nothing but warnings and errors.
    """
    kept = None if model.checkpoint is None else Path(model.checkpoint)
    check_labels_path(out, Path(data), checkpoint=kept, force=force)
    dataset = find_dataset(data)
    notes = new_console(stderr=True)
    if not quiet:
        # a first word before the fit, whose start takes a while on large data
        notes.print(described(dataset.name, dataset.views))
    start = perf_counter()
    model.fit(dataset.views)
    seconds = perf_counter() - start
    ids = dataset.sample_ids
    write_labels(out, model.labels_, None if ids is None else ids.tolist())
    if not quiet:
        notes.print()
        _summarise(new_console(stderr=out == STDOUT), model, dataset, out, seconds)


def _summarise(console: Console, model: MMC, dataset: Dataset, out: Path, seconds: float) -> None:
    rows = [
        ("samples", str(len(model.labels_))),
        ("clusters", cluster_sizes(model.labels_, model.n_clusters)),
        ("sweeps", str(model.n_iter_)),
        ("objective", objective_span(model)),
        ("seconds", f"{seconds:.2f}"),
    ]
    if dataset.y is not None:
        figures = zip(SCORES, scores(dataset.y, model.labels_), strict=True)
        told = ", ".join(f"{name} {figure}" for name, figure in figures)
        rows.append(("classes", f"{told} (scored only: they take no part in the fit)"))
    rows.append(("labels", "standard output" if out == STDOUT else str(out)))
    print_parts(console, kept_features(model), facts(rows))
