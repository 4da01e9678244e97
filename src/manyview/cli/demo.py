"""``manyview demo``: cluster the embedded digits, by MMC and by k-means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from sklearn.cluster import KMeans
from sklearn.preprocessing import normalize

from manyview import MMC, Views
from manyview.cli.tables import (
    SCORES,
    described,
    kept_features,
    new_console,
    objective_span,
    print_parts,
    scores,
    table,
)
from manyview.datasets import load_digits_views

__all__ = ["demo_digits"]

_DIGITS = 10


def demo_digits(seed: int) -> None:
    """Print how well and how fast the embedded digits are clustered.

    Parameters
    ----------
    seed : int
        Seed of both methods.
    """
    clock = _Clock(new_console(stderr=True))
    with clock.times("load the data"):
        dataset = load_digits_views()
        views, y = dataset
    with clock.times("k-means"):
        kmeans_labels = _kmeans_side_by_side(views, _DIGITS, seed)
    with clock.times("MMC, fit"):
        model = MMC(_DIGITS, random_state=seed).fit(views)
    with clock.times("MMC, predict"):
        model.predict(views)
    seconds = clock.seconds
    compared = [
        ("k-means, views side by side", *scores(y, kmeans_labels), seconds["k-means"]),
        ("MMC", *scores(y, model.labels_), seconds["MMC, fit"]),
    ]
    print_parts(
        new_console(),
        f"{described(dataset.name, views)}\nWhich digit a sample shows is used for scoring only.",
        table(("method", *SCORES, "seconds"), compared),
        f"MMC took {model.n_iter_} sweeps; the objective fell from {objective_span(model)}.",
        kept_features(model),
        table(("what took how long", "seconds"), seconds.items()),
        "Next, your own data: manyview fit --help",
    )


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


def _kmeans_side_by_side(views: Views, n_clusters: int, seed: int) -> npt.NDArray[Any]:
    side_by_side = np.hstack([normalize(array) for array in views])
    labels: npt.NDArray[Any] = KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(
        side_by_side
    )
    return labels
