"""The commands fit and predict."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from manyview import MMC, read_model, write_model
from manyview.cli.as_fitted import as_fitted
from manyview.cli.console import InterruptionError
from manyview.cli.outputs import (
    STDOUT,
    about_files,
    about_labels,
    check_targets,
    described,
    facts,
    kept_features,
    new_console,
    objective_span,
    print_parts,
    unoccupied,
    write_combinations,
    write_labels,
)
from manyview.datasets.files import find_dataset, sources_of
from manyview.exceptions import ViewWarning
from manyview.mmc.checkpoint import previous_of
from manyview.storage import file_place

__all__ = ["fit_file", "predict_file"]


EXPLAINED = 10  # combinations of each order for each cluster


def fit_file(
    data: str,
    out: Path,
    model: MMC,
    *,
    explain: Path | None,
    saved: Path | None,
    force: bool,
    quiet: bool,
    classes: str | None = None,
    id_column: str | None = None,
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
    saved : Path or None
        Where the model goes.
    force : bool
        Whether older files may be replaced.
    quiet : bool
        Whether to say nothing but warnings and errors.
    classes, id_column : str, optional
        As in :func:`manyview.cli.named_data.find_dataset`.
    """
    kept = None if model.checkpoint is None else Path(model.checkpoint)
    targets = {"--out": out, "--explain": explain, "--model": saved, "--checkpoint": kept}
    sources = [("data", path) for path in sources_of(data)]
    check_targets(sources, targets, written=("--out", "--explain", "--model"), force=force)
    if kept is not None:
        before = previous_of(file_place(kept))
        check_targets(sources, {"--checkpoint": before}, written=(), force=force)
        for option, path in targets.items():
            if path is not None and path != STDOUT and file_place(path) == before:
                raise ValueError(
                    f"{option} names {path}, where the checkpoint before the last is kept; give "
                    f"another {option}"
                )
    dataset = find_dataset(data, classes=classes, id_column=id_column)
    notes = new_console(stderr=True)
    if not quiet:
        # a first word before the fit, whose start takes a while on large data
        notes.print(described(dataset.name, dataset.views))
    start = perf_counter()
    model.fit(dataset.views)
    seconds = perf_counter() - start
    writers: dict[str, tuple[Path | None, Callable[[Path], None]]] = {
        "labels": (out, lambda path: write_labels(path, model.labels_, dataset.sample_ids)),
        "features": (explain, lambda path: _write_explained(path, model)),
        "model": (saved, lambda path: write_model(path, model)),
    }
    written: dict[str, Path | None] = dict.fromkeys(writers)
    # standard output last: who reads it may keep us waiting
    for what in sorted(writers, key=lambda what: writers[what][0] == STDOUT):
        path, write = writers[what]
        if path is None:
            continue
        place = unoccupied(path, force=force)
        try:
            write(place)
        except KeyboardInterrupt:
            done = ", ".join(told for _, told in about_files(written)) or "nothing"
            raise InterruptionError(f"written so far: {done}") from None
        written[what] = place
    if not quiet:
        notes.print()
        taken = STDOUT in (out, explain)
        rows = [
            *about_labels(model.labels_, model.n_clusters, dataset.y),
            ("sweeps", str(model.n_iter_)),
            ("objective", objective_span(model)),
            ("seconds", f"{seconds:.2f}"),
            *about_files(written),
        ]
        print_parts(new_console(stderr=taken), kept_features(model), facts(rows))


def _write_explained(path: Path, model: MMC) -> None:
    most = min(2, model.n_views_)
    found = [entry for order in range(1, most + 1) for entry in model.explain(order, top=EXPLAINED)]
    write_combinations(path, sorted(found, key=lambda entry: entry.cluster), most)


def predict_file(
    saved: Path,
    data: str,
    out: Path,
    *,
    force: bool,
    quiet: bool,
    classes: str | None = None,
    id_column: str | None = None,
) -> None:
    """Write the clusters that a model finds the samples of a file or set in.

    Parameters
    ----------
    saved : Path
        The file of the model.
    data, out, force, quiet, classes, id_column
        As in :func:`manyview.cli.fit.fit_file`.
    """
    sources = [("data", path) for path in sources_of(data)]
    if saved.is_file():
        sources.append(("model", saved))
    check_targets(sources, {"--out": out}, written=("--out",), force=force)
    model = read_model(saved)
    with warnings.catch_warnings():
        # samples to come may be alike in a view; of what else there is the fit has told
        warnings.simplefilter("ignore", ViewWarning)
        dataset = find_dataset(data, classes=classes, id_column=id_column)
    if not quiet:
        new_console(stderr=True).print(described(dataset.name, dataset.views))
    labels = model.predict(as_fitted(dataset, model))
    out = unoccupied(out, force=force)
    write_labels(out, labels, dataset.sample_ids)
    if not quiet:
        rows = [*about_labels(labels, model.n_clusters, dataset.y), *about_files({"labels": out})]
        print_parts(new_console(stderr=out == STDOUT), facts(rows))
