"""Time and NMI of CoRegSC compared with the co-regularised spectral clustering of mvlearn.

Views, clusters, regularisation, iterations and k-means initialisations are the same for both. Both
forms of CoRegSC are compared with the pairwise form, the only one of mvlearn.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any, Literal

import numpy as np
from sklearn.metrics import normalized_mutual_info_score

from benchmarks.measure import Measurement, seconds_of
from manyview import CoRegSC
from manyview.datasets import make_views

N, K, WIDTHS = 2_000, 10, (50, 40, 30)
SEPARATION = 2.4  # hard enough that neither form finds all clusters
REGULARIZATION = 0.05
ITERATIONS = 10
N_INIT = 10
SEEDS = range(5)
FASTER = 5.0
NMI_SLACK = -0.001  # equal embeddings can differ in the draws of k-means
MVLEARN = Path(sys.prefix) / "mvlearn"
THEIRS = "mvlearn"


def run() -> Iterator[Measurement]:
    theirs = _mvlearn()
    if theirs is None:
        print(
            "mvlearn is not installed and is not measured; run `make mvlearn` or "
            f"pip install --no-deps --target {MVLEARN} mvlearn==0.5.0 seaborn==0.13.2"
        )
        return
    makers: dict[str, Callable[[int], Any]] = {
        THEIRS: lambda seed: theirs(
            n_clusters=K,
            v_lambda=REGULARIZATION,
            max_iter=ITERATIONS + 1,  # it counts the initialisation as the first
            n_init=N_INIT,
            random_state=seed,
        ),
        "centroid": lambda seed: _ours("centroid", seed),
        "pairwise": lambda seed: _ours("pairwise", seed),
    }
    seconds: dict[str, list[float]] = {name: [] for name in makers}
    scores: dict[str, list[float]] = {name: [] for name in makers}
    apart = 0.0
    for seed in SEEDS:
        views, y = make_views(N, K, WIDTHS, separation=SEPARATION, random_state=seed)
        models = {name: make(seed) for name, make in makers.items()}
        for name, model in models.items():
            seconds[name].append(seconds_of(partial(model.fit, list(views))))
            scores[name].append(normalized_mutual_info_score(y, model.labels_))
        apart = max(apart, _apart(models["pairwise"].embedding_, models[THEIRS].embedding_))
    data = f"{N:,} x {WIDTHS}".replace(", ", " + ")
    for form in ("centroid", "pairwise"):
        yield Measurement(
            f"mvlearn / CoRegSC, {form} form, time, {data}",
            median(seconds[THEIRS]) / median(seconds[form]),
            FASTER,
            at_least=True,
            detail=f"{median(seconds[THEIRS]):.2f} s against {median(seconds[form]):.2f} s, "
            f"medians of {len(SEEDS)} seeds",
        )
        detail = f"{mean(scores[form]):.4f} against {mean(scores[THEIRS]):.4f}, means"
        if form == "pairwise":
            detail += f"; U U' of the two differ by at most {apart:.0e}"
        yield Measurement(
            f"NMI of CoRegSC, {form} form, less that of mvlearn, {data}",
            mean(scores[form]) - mean(scores[THEIRS]),
            NMI_SLACK,
            at_least=True,
            detail=detail,
        )


def _ours(form: Literal["centroid", "pairwise"], seed: int) -> CoRegSC:
    return CoRegSC(
        K,
        regularization=REGULARIZATION,
        form=form,
        max_iter=ITERATIONS,
        n_init=N_INIT,
        random_state=seed,
    )


def _apart(ours: Any, theirs: Any) -> float:
    """Return the largest difference of inner products of rows, which ignores rotations."""
    return float(np.abs(ours @ ours.T - theirs @ theirs.T).max())


def _mvlearn() -> Any:
    # last, so that packages of the environment take precedence
    sys.path.append(str(MVLEARN))
    try:
        module = importlib.import_module("mvlearn.cluster.mv_coreg_spectral")
    except ModuleNotFoundError as error:
        if error.name == "mvlearn":
            return None
        raise
    finally:
        sys.path.remove(str(MVLEARN))
    return module.MultiviewCoRegSpectralClustering
