"""Simulated single cells: raw counts, counts scaled by hand, and what the default makes of them.

    python -m benchmarks.counts               # 5,000 cells, three draws, about half an hour
    python -m benchmarks.counts --cells 1500 --draws 1

Nine types of unequal sizes. Two have the same genes and differ in the other view, two others differ
in genes only. By hand means log(1 + x) of genes per 10,000, the centred log-ratio (CLR) of proteins
and TF-IDF of peaks.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import clone

from manyview import MMC
from manyview.metrics import adjusted_rand

N_TYPES = 9
Groups = list[list[int]]
SAME_GENES: Groups = [[0, 1], *([t] for t in range(2, N_TYPES))]
SAME_OTHERS: Groups = [[0], [1], [2, 3], *([t] for t in range(4, N_TYPES))]
Counts = npt.NDArray[np.float32]
Rng = np.random.Generator


def cite_seq(n_cells: int, rng: Rng) -> tuple[dict[str, Any], npt.NDArray[np.intp]]:
    """Return 2,000 genes and 30 proteins of cells, and their types."""
    y = types_of(n_cells, rng)
    rna = negative_binomial(genes(rng), y, rng, depth=1000.0, dispersion=0.5)
    background = rng.lognormal(0.0, 1.2, 30)
    rates = background * np.exp(marked(SAME_OTHERS, np.arange(30), 4, 2.0, 30, rng))
    adt = negative_binomial(rates / background.sum(), y, rng, depth=2000.0, dispersion=3.0)
    return {"rna": sp.csr_array(rna), "adt": adt}, y


def rna_atac(n_cells: int, rng: Rng) -> tuple[dict[str, Any], npt.NDArray[np.intp]]:
    """Return 2,000 genes and 10,000 peaks of cells, and their types."""
    y = types_of(n_cells, rng)
    rna = negative_binomial(genes(rng), y, rng, depth=1000.0, dispersion=0.5)
    some = np.arange(10_000)
    rates = rng.lognormal(size=10_000) * np.exp(marked(SAME_OTHERS, some, 300, 1.5, 10_000, rng))
    rates /= rates.sum(axis=1, keepdims=True)
    depth = 1000.0 * rng.lognormal(0.0, 0.5, n_cells)
    parts = [
        sp.csr_array(rng.poisson(rates[y[rows]] * depth[rows, None]).astype(np.float32))
        for rows in np.array_split(np.arange(n_cells), max(n_cells // 500, 1))
    ]
    return {"rna": sp.csr_array(rna), "atac": sp.csr_array(sp.vstack(parts))}, y


def types_of(n_cells: int, rng: Rng) -> npt.NDArray[np.intp]:
    """Return the type of each cell; the first ones are up to 2.5 times as frequent as the last."""
    parts = np.linspace(2.5, 1.0, N_TYPES)
    return rng.choice(N_TYPES, n_cells, p=parts / parts.sum())


def genes(rng: Rng) -> npt.NDArray[np.float64]:
    """Return the rates of genes in each type; the most frequent ones mark no type."""
    base = rng.lognormal(0.0, 1.5, 2000)
    some = np.argsort(base)[500:1800]
    rates = base * np.exp(marked(SAME_GENES, some, 60, 1.5, 2000, rng))
    return np.asarray(rates / rates.sum(axis=1, keepdims=True))


def marked(
    groups: Groups,
    some: npt.NDArray[np.intp],
    count: int,
    effect: float,
    width: int,
    rng: Rng,
) -> npt.NDArray[np.float64]:
    """Return how much higher the logarithms of rates are in each type, for its own markers."""
    found = np.zeros((N_TYPES, width))
    for group in groups:
        where = rng.choice(some, count, replace=False)
        found[np.ix_(np.array(group), where)] = np.abs(rng.normal(effect, 0.3 * effect, count))
    return found


def negative_binomial(
    rates: npt.NDArray[np.float64],
    y: npt.NDArray[np.intp],
    rng: Rng,
    *,
    depth: float,
    dispersion: float,
) -> Counts:
    """Return counts of cells whose library sizes vary by a factor of several."""
    mean = rates[y] * (depth * rng.lognormal(0.0, 0.5, y.size))[:, None]
    return rng.poisson(mean * rng.gamma(dispersion, 1.0 / dispersion, mean.shape)).astype("f4")


def by_hand(views: dict[str, Any]) -> dict[str, Any]:
    """Return log-normalised genes, the CLR of proteins, and TF-IDF of peaks."""
    found = {}
    for name, x in views.items():
        if name == "adt":
            logs = np.log1p(x)
            found[name] = logs - logs.mean(axis=1, keepdims=True)
            continue
        x = sp.csr_array(sp.diags_array(1e4 / np.maximum(x.sum(axis=1), 1.0)) @ x)
        if name == "rna":
            found[name] = x.log1p()
        else:
            cells = np.bincount(x.indices, minlength=x.shape[1])
            found[name] = sp.csr_array(
                x @ sp.diags_array(np.log1p(x.shape[0] / np.maximum(cells, 1)))
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cells", type=int, default=5000)
    parser.add_argument("--draws", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| simulation | draw | raw counts, rows | by hand | default | normalize_ |")
    for simulate in (cite_seq, rna_atac):
        for draw in range(options.draws):
            views, y = simulate(options.cells, np.random.default_rng(draw))
            by_angle = MMC(N_TYPES, normalize="rows", random_state=0, max_iter=1)
            by_default = MMC(N_TYPES, random_state=0, max_iter=1)
            raw, scaled = clone(by_angle).fit(views), by_angle.fit(by_hand(views))
            fits = [raw, scaled, by_default.fit(views)]
            scores = [f"{adjusted_rand(y, model.labels_):.3f}" for model in fits]
            used = ", ".join(f"{name} {by}" for name, by in fits[-1].normalize_.items())
            row = (simulate.__name__, str(draw), *scores, used)
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
