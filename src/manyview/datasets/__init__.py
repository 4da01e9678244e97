"""Data to cluster: embedded, synthetic, and read from files."""

from manyview.datasets.dataset import Dataset
from manyview.datasets.digits import load_digits_views
from manyview.datasets.files import read_views, write_views
from manyview.datasets.synthetic import make_views

__all__ = ["Dataset", "load_digits_views", "make_views", "read_views", "write_views"]
