"""Multi-linear Multi-view Clustering."""

from manyview.mmc.estimator import MMC

__all__ = ["MMC"]
