"""``manyview fit``: cluster the samples of a file."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from rich.console import Console

from manyview import MMC
from manyview.cli.named_data import find_dataset
from manyview.cli.outputs import STDOUT, check_targets, write_combinations, write_labels
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

EXPLAINED = 10  # combinations of each order for each cluster


def fit_file(
    data: str, out: Path, model: MMC, *, explain: Path | None, force: bool, quiet: bool
) -> None:
    """Cluster the samples of a file or set and write their labels.

    Parameters
    ----------
    data : str
        A file of views or the name of a set; see :func:`manyview.cli.named_data.find_dataset`.
    out : Path
        Where the labels go.
    model : MMC
        The estimator, not yet fitted.
    explain : Path or None
        Where what speaks for each cluster goes, single features and pairs.
    force : bool
        Whether older files may be replaced.
    quiet : bool
        Whether to say nothing but warnings and errors.
    """
    kept = None if model.checkpoint is None else Path(model.checkpoint)
    targets = {"--out": out, "--explain": explain, "--checkpoint": kept}
    check_targets(Path(data), targets, written=("--out", "--explain"), force=force)
    dataset = find_dataset(data)
    notes = new_console(stderr=True)
    if not quiet:
        # a first word before the fit, whose start takes a while on large data
        notes.print(described(dataset.name, dataset.views))
    start = perf_counter()
    model.fit(dataset.views)
    seconds = perf_counter() - start
    ids = dataset.sample_ids
    # standard output last: who reads it may leave early
    for path in sorted(filter(None, (out, explain)), key=lambda path: path == STDOUT):
        if path == out:
            write_labels(path, model.labels_, None if ids is None else ids.tolist())
        else:
            _write_explained(path, model)
    if not quiet:
        notes.print()
        taken = STDOUT in (out, explain)
        _summarise(new_console(stderr=taken), model, dataset, out, explain, seconds)


def _write_explained(path: Path, model: MMC) -> None:
    most = min(2, model.n_views_)
    found = [entry for order in range(1, most + 1) for entry in model.explain(order, top=EXPLAINED)]
    write_combinations(path, sorted(found, key=lambda entry: entry.cluster), most)


def _summarise(
    console: Console, model: MMC, dataset: Dataset, out: Path, explain: Path | None, seconds: float
) -> None:
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
    for name, path in (("labels", out), ("features", explain)):
        if path is not None:
            rows.append((name, "standard output" if path == STDOUT else str(path)))
    print_parts(console, kept_features(model), facts(rows))
