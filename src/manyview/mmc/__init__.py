"""Multi-linear Multi-view Clustering."""

from manyview.mmc.estimator import MMC
from manyview.mmc.explain import Combination, Combinations, Profile
from manyview.mmc.model_file import read_model, write_model
from manyview.mmc.statistics import Difference
from manyview.mmc.view_weights import ViewWeights

__all__ = [
    "MMC",
    "Combination",
    "Combinations",
    "Difference",
    "Profile",
    "ViewWeights",
    "read_model",
    "write_model",
]
