"""``manyview demo``: cluster the embedded digits, by MMC and by what anyone would try first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from rich.console import Console

from manyview import MMC
from manyview.cli.outputs import (
    REPORT_MARK,
    check_target,
    described,
    kept_features,
    new_console,
    objective_span,
    print_parts,
    refuse_another,
    table,
)
from manyview.datasets import Dataset, load_digits_views
from manyview.experiment import METHODS, REFERENCES, Row, Run, compare, summarise

__all__ = ["demo_digits"]

_DIGITS = 10
_SEEDS = 3
_COMPARED = (REFERENCES["k-means"], REFERENCES["spectral"], METHODS["MMC"])
_SHOWN = {"acc": "ACC", "nmi_geometric": "NMI (geometric)", "ari": "ARI"}


def demo_digits(report: Path) -> None:
    """Print how well and how fast the embedded digits are clustered, and write the report of it.

    Parameters
    ----------
    report : Path
        Where the report goes, in place of an older one.
    """
    check_target(report, "--report")
    refuse_another(report, REPORT_MARK, "a report")
    clock = _Clock(new_console(stderr=True))
    with clock.times("load the data"):
        dataset = load_digits_views()
    with clock.times(f"compare, {_SEEDS} seeds"):
        runs = compare(_COMPARED, [dataset], repeats=_SEEDS)
    with clock.times("MMC, fit"):
        model = MMC(_DIGITS, random_state=0).fit(dataset.views)
    with clock.times("MMC, predict"):
        model.predict(dataset.views)
    with clock.times("report"):
        written = _report(report, runs, dataset, model)
    print_parts(
        new_console(),
        f"{described(dataset.name, dataset.views)}\n"
        "Which digit a sample shows is used for scoring only.",
        table(("method", *_SHOWN.values(), "seconds"), map(_cells, summarise(runs))),
        f"MMC took {model.n_iter_} sweeps; the objective fell from {objective_span(model)}.",
        kept_features(model),
        table(("what took how long", "seconds"), clock.seconds.items()),
        f"{written}\nNext, your own data: manyview fit --help",
    )


def _cells(row: Row) -> list[str]:
    return [row.method, *(f"{row.mean[key]:.3f}" for key in _SHOWN), f"{row.seconds:.3f}"]


def _report(path: Path, runs: list[Run], dataset: Dataset, model: MMC) -> str:
    from manyview.report import write_report  # plotly takes a while to import

    write_report(path, runs, [dataset], title="The embedded digits", models={dataset.name: model})
    return f"Figures, and what made the groups: {path}"


class _Clock:
    """Measures steps, each shown on a terminal while it lasts."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.seconds: dict[str, str] = {}

    @contextmanager
    def times(self, step: str) -> Iterator[None]:
        with self._console.status(step):
            start = perf_counter()
            yield
            self.seconds[step] = f"{perf_counter() - start:.3f}"
