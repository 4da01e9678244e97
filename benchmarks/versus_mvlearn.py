"""CoRegSC against mvlearn's co-regularised spectral clustering: seconds, and NMI, over some seeds.

The same views, clusters, weight, sweeps and starts of k-means for both. mvlearn has the pairwise
form only; it is what both of ours are measured against. It runs as it is published, unpatched.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from sklearn.metrics import normalized_mutual_info_score

from benchmarks.measure import Measurement, seconds_of
from manyview import CoRegSC
from manyview.datasets import make_views

N, K, WIDTHS = 2_000, 10, (50, 40, 30)
SEPARATION = 2.4  # neither form finds all of the clusters
REGULARIZATION = 0.05
SWEEPS = 10
N_INIT = 10
SEEDS = range(5)
FASTER = 5.0
NMI_SLACK = -0.001  # equal embeddings still differ in the draws of k-means
MVLEARN = Path(sys.prefix) / "mvlearn"
THEIRS = "mvlearn"


def run() -> Iterator[Measurement]:
    theirs = _mvlearn()
    if theirs is None:
        print(
            "mvlearn is not here: it is left out; `make mvlearn` installs it for this alone, or "
            f"pip install --no-deps --target {MVLEARN} mvlearn==0.5.0 seaborn==0.13.2"
        )
        return
    makers: dict[str, Callable[[int], Any]] = {
        THEIRS: lambda seed: theirs(
            n_clusters=K,
            v_lambda=REGULARIZATION,
            max_iter=SWEEPS + 1,  # it counts the start as the first
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


def _ours(form: str, seed: int) -> CoRegSC:
    return CoRegSC(
        K,
        regularization=REGULARIZATION,
        form=form,
        max_iter=SWEEPS,
        n_init=N_INIT,
        random_state=seed,
    )


def _apart(ours: Any, theirs: Any) -> float:
    """Return the largest difference of inner products of rows: rotations do not count."""
    return float(np.abs(ours @ ours.T - theirs @ theirs.T).max())


def _mvlearn() -> Any:
    # last, so that nothing there stands before what the environment has
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
