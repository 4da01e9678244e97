"""Clustering of samples that come in several views."""

from manyview import scverse
from manyview._version import __version__
from manyview.baselines import (
    AMGL,
    GMC,
    KCTD,
    LMVSC,
    NEMO,
    OPMC,
    RMKMC,
    SCMV3DT,
    SEC,
    SNF,
    CoRegSC,
    MultiNMF,
)
from manyview.choice import StableClusters, choose_n_clusters
from manyview.graph import MultiViewSpectral
from manyview.mmc import MMC, read_model, write_model
from manyview.views import Views, as_views

__all__ = [
    "AMGL",
    "GMC",
    "KCTD",
    "LMVSC",
    "MMC",
    "NEMO",
    "OPMC",
    "RMKMC",
    "SCMV3DT",
    "SEC",
    "SNF",
    "CoRegSC",
    "MultiNMF",
    "MultiViewSpectral",
    "StableClusters",
    "Views",
    "__version__",
    "as_views",
    "choose_n_clusters",
    "read_model",
    "scverse",
    "write_model",
]
