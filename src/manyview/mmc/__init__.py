"""Multi-linear Multi-view Clustering."""

from manyview.mmc.estimator import MMC
from manyview.mmc.explain import Combination, Combinations, Profile
from manyview.mmc.model_file import read_model, write_model
from manyview.mmc.statistics import Difference

__all__ = [
    "MMC",
    "Combination",
    "Combinations",
    "Difference",
    "Profile",
    "read_model",
    "write_model",
]
