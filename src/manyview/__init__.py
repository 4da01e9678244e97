"""Clustering of samples that come in several views."""

from manyview._version import __version__
from manyview.baselines import AMGL, KCTD, RMKMC, SCMV3DT, SEC, CoRegSC, MultiNMF
from manyview.graph import MultiViewSpectral
from manyview.mmc import MMC, read_model, write_model
from manyview.views import Views, as_views

__all__ = [
    "AMGL",
    "KCTD",
    "MMC",
    "RMKMC",
    "SCMV3DT",
    "SEC",
    "CoRegSC",
    "MultiNMF",
    "MultiViewSpectral",
    "Views",
    "__version__",
    "as_views",
    "read_model",
    "write_model",
]
