"""Views with clear clusters, and MMC fitted to them."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from manyview import MMC

warnings_allowed = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def blobs(n=90, widths=(8, 6), k=3, seed=0, spread=0.5, dtype=np.float64):
    """Well-separated clusters in every view."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % k
    views = [
        (3 * rng.standard_normal((k, d))[truth] + spread * rng.standard_normal((n, d))).astype(
            dtype
        )
        for d in widths
    ]
    return views, truth


def fitted(views, k=3, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MMC(k, random_state=0, **options).fit(views)
