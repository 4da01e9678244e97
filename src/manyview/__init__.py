"""Clustering of samples that come in several views."""

from manyview._version import __version__
from manyview.mmc import MMC
from manyview.views import Views, as_views

__all__ = ["MMC", "Views", "__version__", "as_views"]
