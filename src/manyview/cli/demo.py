"""The command demo: MMC, k-means and spectral clustering on the bundled digits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from manyview import MMC
from manyview.cli.console import new_console
from manyview.cli.outputs import (
    SCORES,
    check_replaceable_report,
    check_target,
    data_line,
    objective_span,
    print_parts,
    table,
    view_table,
)
from manyview.datasets import load_digits_views
from manyview.experiment import METHODS, REFERENCES, compare, summarise
from manyview.report import write_report

__all__ = ["demo_digits"]

_METHODS = (REFERENCES["k-means"], REFERENCES["spectral"], METHODS["MMC"])
_SEEDS = 3


def demo_digits(report: Path) -> None:
    """Print the scores and timings of a comparison on the digits, and write its report."""
    check_target(report, "--report")
    check_replaceable_report(report)
    seconds: dict[str, str] = {}
    with _timed("load the data", seconds):
        dataset = load_digits_views()
    with _timed(f"compare, {_SEEDS} seeds", seconds):
        runs = compare(_METHODS, [dataset], repeats=_SEEDS)
    with _timed("MMC, fit", seconds):
        model = MMC(10, random_state=0).fit(dataset.views)
    with _timed("MMC, predict", seconds):
        model.predict(dataset.views)
    with _timed("report", seconds):
        models = {dataset.name: model}
        write_report(report, runs, [dataset], title="The bundled digits", models=models)
    rows = [
        (row.method, *(f"{row.mean[key]:.3f}" for key in SCORES), f"{row.seconds:.3f}")
        for row in summarise(runs)
    ]
    print_parts(
        new_console(),
        f"{data_line(dataset.name, dataset.views)}\nThe true digits are used for scoring only.",
        table(("method", *SCORES.values(), "seconds"), rows),
        f"MMC took {model.n_iter_} iterations; the objective fell from {objective_span(model)}.",
        view_table(model),
        table(("Timings", "seconds"), seconds.items()),
        f"Figures and descriptions of the clusters: {report}\n"
        "To cluster your own data, see: manyview fit --help",
    )


@contextmanager
def _timed(step: str, seconds: dict[str, str]) -> Iterator[None]:
    """Add the time of a step, and show the step on a terminal while it lasts."""
    with new_console(stderr=True).status(step):
        start = perf_counter()
        yield
        seconds[step] = f"{perf_counter() - start:.3f}"
