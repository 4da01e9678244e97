"""Bundled and synthetic data sets, the news sets of the literature, and files of views."""

from manyview.datasets.dataset import Dataset
from manyview.datasets.digits import load_digits_views
from manyview.datasets.files import read_views, write_views
from manyview.datasets.news import load_3sources, load_cnn, load_fox
from manyview.datasets.synthetic import make_views

__all__ = [
    "Dataset",
    "load_3sources",
    "load_cnn",
    "load_digits_views",
    "load_fox",
    "make_views",
    "read_views",
    "write_views",
]
