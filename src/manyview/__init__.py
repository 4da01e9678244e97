"""Clustering of samples that come in several views."""

from manyview._version import __version__
from manyview.views import Views, as_views

__all__ = ["Views", "__version__", "as_views"]
