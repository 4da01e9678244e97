"""The commands fit and predict."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from manyview import MMC, read_model, write_model
from manyview._typing import Matrix
from manyview.cli.console import InterruptionError, new_console, noted_warnings, status
from manyview.cli.outputs import (
    STDOUT,
    check_targets,
    confidence_facts,
    facts,
    file_facts,
    free_path,
    label_facts,
    objective_span,
    print_data,
    print_parts,
    read_data,
    view_table,
    write_combinations,
    write_labels,
)
from manyview.datasets import Dataset
from manyview.datasets.files import sources_of
from manyview.datasets.single_cells import single_addresses
from manyview.exceptions import InterruptWarning, ViewWarning, warn_user
from manyview.mmc.checkpoint import previous_of
from manyview.mmc.membership import Lazy
from manyview.scverse import check_annotated, is_annotated, write_annotated
from manyview.storage import file_place
from manyview.views import align_to

__all__ = ["fit_file", "predict_file"]


def fit_file(
    data: str,
    out: Path,
    model: MMC,
    *,
    explain: Path | None,
    saved: Path | None,
    report: Path | None,
    force: bool,
    quiet: bool,
    reading: Mapping[str, Any] | None = None,
) -> None:
    """Fit a model to a file or data set, and write its labels, features, itself and a page on it.

    `reading` holds options of :func:`manyview.datasets.read_views`.
    """
    targets = {"--out": out, "--explain": explain, "--model": saved, "--report": report}
    _check_fit_targets(data, model, targets, force=force)
    if report is not None:  # before the fit, as it needs an extra
        from manyview.report import write_fit_report
    remarks: list[str] = []
    with noted_warnings(remarks):
        dataset = read_data(data, shown=not quiet, **(reading or {}))
    if not quiet:
        print_data(dataset)
    start = perf_counter()
    with noted_warnings(remarks):
        model.fit(dataset.views)
    try:
        with status("confidence of the samples", shown=not quiet):
            membership: Matrix | None = model.membership_
        if saved is not None or report is not None or not quiet:
            with status("weights of the views", shown=not quiet):
                _ = model.view_weights_
    except KeyboardInterrupt:
        message = "interrupted after the fit: confidences and weights of views are left out"
        warn_user(message, InterruptWarning)
        model._memberships, model._view_weights = Lazy.of(None), Lazy.of(None)
        membership = None
    seconds = perf_counter() - start
    writers: dict[str, tuple[Path | None, Callable[[Path], object]]] = {
        "labels": (out, lambda path: _write_out(path, data, model, dataset, reading, membership)),
        "features": (explain, lambda path: _write_features(path, model)),
        "model": (saved, lambda path: write_model(path, model)),
        "report": (
            report,
            lambda path: write_fit_report(path, model, dataset, remarks=remarks),
        ),
    }
    written: dict[str, Path | None] = dict.fromkeys(writers)
    # standard output is last, as its reader may block
    for name in sorted(writers, key=lambda name: writers[name][0] == STDOUT):
        path, write = writers[name]
        if path is None:
            continue
        place = free_path(path, force=force)
        try:
            write(place)
        except KeyboardInterrupt:
            done = ", ".join(shown for _, shown in file_facts(written)) or "nothing"
            raise InterruptionError(f"written so far: {done}") from None
        written[name] = place
    if not quiet:
        new_console(stderr=True).print()
        rows = [
            *label_facts(model.labels_, model.n_clusters_, dataset.y),
            *([] if model.choice_ is None else [("stability", model.choice_.summary)]),
            ("scaling", ", ".join(f"{name} {by}" for name, by in model.normalize_.items())),
            ("iterations", str(model.n_iter_)),
            ("objective", objective_span(model)),
            *confidence_facts(model.labels_, membership),
            ("seconds", f"{seconds:.2f}"),
            *file_facts(written),
        ]
        console = new_console(stderr=STDOUT in (out, explain))
        print_parts(console, view_table(model), facts(rows))


def _check_fit_targets(
    data: str, model: MMC, given: Mapping[str, Path | None], *, force: bool
) -> None:
    """Raise unless all files of a fit can be written."""
    checkpoint = None if model.checkpoint is None else Path(model.checkpoint)
    targets = {**given, "--checkpoint": checkpoint}
    sources = [("data", path) for path in sources_of(data)]
    check_targets(sources, targets, new=tuple(given), force=force)
    out = given["--out"]
    if out is not None and is_annotated(out):
        check_annotated(out, Path(data))
    if checkpoint is None:
        return
    previous = previous_of(file_place(checkpoint))
    check_targets(sources, {"--checkpoint": previous}, new=(), force=force)
    for option, path in targets.items():
        if path is not None and path != STDOUT and file_place(path) == previous:
            raise ValueError(
                f"{option} names {path}, the file of the previous checkpoint; give another {option}"
            )


def _write_out(
    path: Path,
    data: str,
    model: MMC,
    dataset: Dataset,
    reading: Mapping[str, Any] | None,
    membership: Matrix | None,
) -> None:
    """Write the labels, as CSV or into a copy of the file of cells."""
    if is_annotated(path):
        addresses = single_addresses((reading or {}).get("views") or {})
        write_annotated(path, Path(data), model, dataset, addresses)
    else:
        write_labels(path, model.labels_, dataset.sample_ids, membership)


def _write_features(path: Path, model: MMC, top: int = 10) -> None:
    """Write the `top` features and pairs of features that characterise each cluster."""
    order = min(2, model.n_views_)
    found = [entry for size in range(1, order + 1) for entry in model.explain(size, top=top)]
    write_combinations(path, sorted(found, key=lambda entry: entry.cluster), order)


def predict_file(
    saved: Path,
    data: str,
    out: Path,
    *,
    force: bool,
    quiet: bool,
    reading: Mapping[str, Any] | None = None,
) -> None:
    """Write the clusters, and how sure they are, that a model predicts for a file or data set."""
    sources = [("data", path) for path in sources_of(data)]
    if saved.is_file():
        sources.append(("model", saved))
    check_targets(sources, {"--out": out}, new=("--out",), force=force)
    model = read_model(saved)
    with warnings.catch_warnings():
        # identical new samples are no fault, and fit has warned of the views
        warnings.simplefilter("ignore", ViewWarning)
        like = dict(zip(model.view_names_, model.feature_names_in_, strict=True))
        dataset = read_data(data, shown=not quiet, **(reading or {}), like=like)
    if not quiet:
        print_data(dataset)
    views = align_to(
        dataset.views,
        names=model.view_names_,
        n_features=model.n_features_in_,
        feature_names=model.feature_names_in_,
        sample_ids=dataset.sample_ids,
    )
    labels = model.predict(views)
    # model files of earlier versions have no memberships
    membership = model.predict_proba(views) if hasattr(model, "membership_") else None
    out = free_path(out, force=force)
    write_labels(out, labels, dataset.sample_ids, membership)
    if not quiet:
        rows = [
            *label_facts(labels, model.n_clusters_, dataset.y),
            *confidence_facts(labels, membership),
            *file_facts({"labels": out}),
        ]
        print_parts(new_console(stderr=out == STDOUT), facts(rows))
