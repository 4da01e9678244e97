"""The command choose-k."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manyview import MMC, choose_n_clusters
from manyview.cli.console import new_console
from manyview.cli.outputs import (
    check_targets,
    facts,
    file_facts,
    free_path,
    print_data,
    print_parts,
    read_data,
    table,
)
from manyview.datasets.files import sources_of
from manyview.storage import whole_file

__all__ = ["choose_for_file"]


def choose_for_file(
    data: str,
    first: int,
    last: int | None,
    *,
    plot: Path | None,
    force: bool,
    quiet: bool,
    reading: Mapping[str, Any] | None = None,
    normalize: Any = "auto",
    **options: Any,
) -> None:
    """Compare the numbers of clusters from `first` to `last` of a file or data set.

    By default `last` is 12, or a quarter of the samples if that is less. `reading` holds options of
    :func:`manyview.datasets.read_views`, `normalize` is the scaling of the views as in
    :class:`manyview.MMC`, and `options` are parameters of :func:`manyview.choose_n_clusters`.
    """
    if last is not None and first > last:
        raise ValueError(f"--from {first} is more than --to {last}")
    sources = [("data", path) for path in sources_of(data)]
    if plot is not None:
        _check_format(plot)
        check_targets(sources, {"--plot": plot}, new=("--plot",), force=force)
    dataset = read_data(data, shown=not quiet, **(reading or {}))
    if not quiet:
        print_data(dataset)
    if last is None:
        n_samples = min(dataset.views.n_samples, options["max_samples"])
        last = max(first, min(12, n_samples // 4))
    numbers = range(first, last + 1)
    estimator = MMC(first, normalize=normalize)
    choice = choose_n_clusters(
        dataset.views, numbers, estimator=estimator, verbose=0 if quiet else 1, **options
    )
    written: dict[str, Path | None] = {"figure": None}
    if plot is not None:
        # not by pyplot, which would keep the figure
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.0, 3.6), layout="constrained")
        choice.plot(ax=figure.subplots())
        written["figure"] = place = free_path(plot, force=force)
        with whole_file(place) as file:
            figure.savefig(file, format=plot.suffix[1:], dpi=150)
    heads, *rows = choice.as_text()
    parts: list[Any] = [table(heads, rows), choice.summary]
    if plot is not None and not quiet:
        parts.append(facts(file_facts(written)))
    print_parts(new_console(), *parts)


def _check_format(path: Path) -> None:
    """Raise if matplotlib cannot write such files."""
    from matplotlib.backend_bases import FigureCanvasBase

    formats = FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:].lower() not in formats:
        known = ", ".join(f".{name}" for name in sorted(formats))
        raise ValueError(f"--plot {path}: expected a file name that ends in one of {known}")
