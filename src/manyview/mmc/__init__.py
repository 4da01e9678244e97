"""Multi-linear Multi-view Clustering."""

from manyview.mmc.estimator import MMC
from manyview.mmc.explain import Combination
from manyview.mmc.model_file import read_model, write_model

__all__ = ["MMC", "Combination", "read_model", "write_model"]
