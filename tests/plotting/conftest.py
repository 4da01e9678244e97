from collections.abc import Callable, Iterator
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt
from threadpoolctl import threadpool_limits

from manyview import AMGL, MMC, Views
from manyview.datasets import make_views
from manyview.experiment import METHODS, Run

matplotlib.use("Agg")

SETS = ("fox", "cnn", "3sources")


@pytest.fixture(autouse=True)
def figures_closed() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="session")
def fitted() -> tuple[Views, MMC, AMGL]:
    """Views and two methods fitted to them."""
    views, _ = make_views(60, 3, (6, 5), random_state=0)
    with threadpool_limits(1):
        mmc = MMC(3, gamma=0.05, random_state=0).fit(views)
        return views, mmc, AMGL(3, random_state=0).fit(views)


@pytest.fixture(scope="session")
def made_runs() -> Callable[..., list[Run]]:
    """What makes up results."""

    def make(
        methods: tuple[str, ...] = tuple(METHODS)[:9],
        sets: tuple[str, ...] = SETS,
        protocols: tuple[Any, ...] = ("default",),
        **options: Any,
    ) -> list[Run]:
        rng = np.random.default_rng(0)
        runs = []
        for data in sets:
            for method in methods:
                seconds = float(10 ** rng.uniform(-1.5, 1.5))
                for protocol in protocols:
                    for seed in range(3):
                        acc = float(rng.uniform(0.1, 0.9))
                        scores = {"acc": acc, "nmi_geometric": acc / 2}
                        known = {"scores": scores, "seconds": seconds, **options}
                        runs.append(Run(method, data, seed, protocol, {}, **known))
        return runs

    return make
