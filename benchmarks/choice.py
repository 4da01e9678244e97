"""How often the recommended number of clusters is the number of classes, and what it costs.

    python -m benchmarks.choice --synthetic       # clear clusters and noise, some minutes
    python -m benchmarks.choice fox ngs digits    # data sets with classes, up to 22 clusters

Data sets are found as by the command ``manyview fit``. Classes are used for scoring only.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from manyview import MMC, choose_n_clusters
from manyview.datasets import make_views
from manyview.datasets.files import find_dataset


def clear_sets() -> Iterator[tuple[str, Any, int]]:
    """Yield clear clusters: name, views and number of clusters."""
    for n_clusters in range(2, 13):
        for draw, n_samples in enumerate((60 * n_clusters, 40 * n_clusters + 100)):
            seed = 1000 + 10 * n_clusters + draw
            views = make_views(n_samples, n_clusters, random_state=seed).views
            yield f"make_views {n_clusters} {draw}", views, n_clusters
        rng = np.random.default_rng(100 + n_clusters)
        for name, parts in (
            ("blobs", np.full(n_clusters, 1.0 / n_clusters)),
            ("unequal blobs", rng.dirichlet(np.full(n_clusters, 5.0))),
        ):
            y = rng.choice(n_clusters, p=parts, size=500)
            centres = [rng.uniform(-10.0, 10.0, (n_clusters, width)) for width in (8, 5)]
            blobs = [centre[y] + rng.standard_normal((500, centre.shape[1])) for centre in centres]
            yield f"{name} {n_clusters}", blobs, n_clusters


def noise_sets() -> Iterator[tuple[str, Any, int]]:
    """Yield views without clusters."""
    for draw, n_samples in enumerate((200, 300, 500, 800, 400, 1000)):
        rng = np.random.default_rng(2000 + draw)
        widths = ((20, 20), (5, 8), (50, 30, 10), (3, 3), (2, 2), (100, 10))[draw]
        normal = [rng.standard_normal((n_samples, width)) for width in widths]
        yield f"normal {draw}", normal, 0
        yield f"uniform {draw}", [rng.uniform(size=(n_samples, width)) for width in widths], 0
        rates = (np.full(300, 0.05), 30.0 / np.arange(1.0, 301.0))
        for name, rate in zip(("rare counts", "words"), rates, strict=True):
            counts = [rng.poisson(rate, (n_samples, 300)).astype(float) for _ in range(2)]
            for view in counts:
                view[:, 0] += 1.0  # a row of zeros has no direction
            yield f"{name} {draw}", counts, 0
        yield f"correlated features {draw}", [_mixed(rng, n_samples, 3) for _ in range(2)], 0


def _mixed(rng: np.random.Generator, n_samples: int, n_factors: int) -> Any:
    """Return a view with correlated features; views do not depend on each other."""
    mixed = rng.standard_normal((n_samples, n_factors)) @ rng.standard_normal((n_factors, 20))
    return mixed + 0.3 * rng.standard_normal(mixed.shape)


def real_sets(names: list[str]) -> Iterator[tuple[str, Any, int]]:
    """Yield data sets with classes."""
    for name in names:
        dataset = find_dataset(name)
        yield name, dataset.views, len(np.unique(np.asarray(dataset.y)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", nargs="*", help="data sets with classes")
    parser.add_argument("--synthetic", action="store_true", help="clear clusters and noise")
    parser.add_argument("--most", type=int, default=22, help="largest number of clusters")
    parser.add_argument("--splits", type=int, default=5, help="splits into halves")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    groups = [("real", real_sets(options.data), options.most)] if options.data else []
    if options.synthetic:
        groups += [("clear", clear_sets(), 14), ("noise", noise_sets(), 14)]
    for group, sets, most in groups:
        right = {"recommended": 0, "runner-up": 0, "none": 0}
        ratios = []
        for name, views, n_classes in sets:
            begun = time.perf_counter()
            MMC(n_classes or 3, random_state=0).fit(views)
            fitted = time.perf_counter()
            choice = choose_n_clusters(
                views, range(2, most + 1), n_splits=options.splits, random_state=0
            )
            ratios.append((time.perf_counter() - fitted) / (fitted - begun))
            right["recommended"] += choice.n_clusters == n_classes
            right["runner-up"] += choice.runner_up == n_classes
            right["none"] += choice.n_clusters is None
            row = (name, n_classes, choice.n_clusters, choice.runner_up, f"{ratios[-1]:.1f}")
            print("| " + " | ".join(map(str, row)) + " |", flush=True)
            if group == "real":
                curve = " ".join(f"{100 * row.agreement:.0f}" for row in choice.table)
                print(f"    agreement {curve}", flush=True)
        counts = ", ".join(f"{kind} {count}" for kind, count in right.items())
        print(
            f"{group}: {len(ratios)} sets; {counts}; median ratio {np.median(ratios):.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
