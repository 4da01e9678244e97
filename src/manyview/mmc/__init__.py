"""Multi-linear Multi-view Clustering."""

from manyview.mmc.estimator import MMC
from manyview.mmc.explain import Combination

__all__ = ["MMC", "Combination"]
