"""MMC beside muon's weighted nearest neighbours and Leiden, on the same synthetic cells.

    python -m benchmarks.versus_muon

It needs scanpy, muon and leidenalg: ``make test-scverse`` installs them into ``.venv-scverse``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

SHARES = (0.25, 0.2, 0.15, 0.12, 0.1, 0.08, 0.06, 0.04)
"""Parts of the cells in the eight types."""


def simulated_counts(n_cells: int, *, depth: float = 1.0, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return counts of 2,000 genes and 30 proteins, and the types, of cells as in CITE-seq.

    A cell has about 2,500 counts of RNA, times `depth`, and 600 of proteins: negative binomial,
    with a random depth of each cell. A type has 60 genes and 4 proteins of which it has more. Types
    0 and 1, and 2 and 3, have the same genes, types 4 and 5, and 6 and 7, the same proteins, so
    that neither modality shows all types.
    """
    rng = np.random.default_rng(seed)
    n_types = len(SHARES)
    types = rng.choice(n_types, n_cells, p=SHARES)
    by_gene, by_protein = np.arange(n_types), np.arange(n_types)
    by_gene[[1, 3]], by_protein[[5, 7]] = [0, 2], [4, 6]
    genes = np.tile(rng.gamma(0.3, 1.0, 2000), (n_types, 1))
    for group in np.unique(by_gene):
        raised = rng.choice(2000, 60, replace=False)
        genes[np.ix_(by_gene == group, raised)] += rng.gamma(1.0, 1.0, 60)
    proteins = np.full((n_types, 30), 5.0)
    for group in np.unique(by_protein):
        raised = rng.choice(30, 4, replace=False)
        proteins[np.ix_(by_protein == group, raised)] *= 6.0
    found = []
    for means, total in ((genes, 2500.0 * depth), (proteins, 600.0)):
        means = total * means / means.sum(axis=1, keepdims=True)
        depths = rng.lognormal(0.0, 0.4, (n_cells, 1))
        found.append(rng.poisson(means[types] * depths * rng.gamma(4.0, 0.25, (n_cells, 1))))
    return found[0], found[1], types


def prepared(n_cells: int, **options: Any) -> Any:
    """Return a MuData object of log-normalised genes and proteins, with principal components."""
    import muon
    import pandas as pd
    import scanpy
    from anndata import AnnData
    from scipy.sparse import csr_matrix

    rna, protein, types = simulated_counts(n_cells, **options)
    obs = pd.DataFrame(index=[f"cell{n}" for n in range(n_cells)])
    genes = pd.DataFrame(index=[f"gene{d}" for d in range(rna.shape[1])])
    surface = pd.DataFrame(index=[f"CD{d}" for d in range(protein.shape[1])])
    parts = {
        "rna": AnnData(csr_matrix(rna, dtype=np.float32), obs.copy(), genes),
        "prot": AnnData(protein.astype(np.float32), obs.copy(), surface),
    }
    scanpy.pp.normalize_total(parts["rna"], target_sum=1e4)
    scanpy.pp.log1p(parts["rna"])
    scanpy.pp.highly_variable_genes(parts["rna"], n_top_genes=1000)
    muon.prot.pp.clr(parts["prot"])
    for part, n_comps in ((parts["rna"], 30), (parts["prot"], 18)):
        scanpy.pp.pca(part, n_comps=n_comps)
    mdata = muon.MuData(parts)
    mdata.obs["type"] = pd.Categorical(types.astype(str))
    return mdata


def leiden(mdata: Any, n_clusters: int | None = None) -> Any:
    """Return the Leiden clusters of muon's weighted nearest neighbours.

    The resolution is 1, or the one that gives a number of clusters.
    """
    import muon
    import scanpy

    for part in mdata.mod.values():
        scanpy.pp.neighbors(part, random_state=0)
    muon.pp.neighbors(mdata, key_added="wnn", random_state=0)
    low, middle, high = 0.05, 1.0, 4.0
    for _ in range(12):
        scanpy.tl.leiden(
            mdata, neighbors_key="wnn", resolution=middle, flavor="igraph", n_iterations=2
        )
        found = mdata.obs["leiden"].nunique()
        if n_clusters in (None, found):
            break
        low, high = (middle, high) if found < n_clusters else (low, middle)
        middle = (low * high) ** 0.5
    return mdata.obs["leiden"]


def by_mmc(mdata: Any, n_clusters: int | str, views: dict[str, str] | None = None) -> Any:
    """Return the clusters of MMC."""
    from manyview.scverse import mmc

    mmc(mdata, n_clusters, views=views)
    return mdata.obs["mmc"]


PCA = {"rna": "rna:obsm/X_pca", "prot": "prot:obsm/X_pca"}
METHODS: dict[str, Callable[[Any], Any]] = {
    "MMC, K = 8": lambda mdata: by_mmc(mdata, 8),
    "MMC, K = auto": lambda mdata: by_mmc(mdata, "auto"),
    "MMC of principal components, K = 8": lambda mdata: by_mmc(mdata, 8, PCA),
    "WNN + Leiden, resolution 1": leiden,
    "WNN + Leiden, resolution for 8": lambda mdata: leiden(mdata, 8),
}


def main(n_cells: int = 1500, seeds: int = 2) -> None:
    data = {
        "2,500 counts of RNA": {},
        "500 counts of RNA": {"depth": 0.2},
    }
    print(f"{n_cells} cells, 8 types; mean of {seeds} data sets\n")
    print("| cells | method | ARI | clusters | seconds |\n|---|---|---:|---:|---:|")
    for title, options in data.items():
        made = [prepared(n_cells, seed=seed, **options) for seed in range(seeds)]
        leiden(made[0].copy())  # compiles
        for name, method in METHODS.items():
            rows = []
            for mdata in made:
                begin = time.perf_counter()
                labels = method(mdata)
                seconds = time.perf_counter() - begin
                score = adjusted_rand_score(mdata.obs["type"], labels)
                rows.append((score, labels.nunique(), seconds))
            ari, clusters, seconds = np.mean(rows, axis=0)
            print(f"| {title} | {name} | {ari:.3f} | {clusters:.1f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
