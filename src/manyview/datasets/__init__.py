"""Data to cluster: embedded, synthetic, and read from files."""

from manyview.datasets.dataset import Dataset

__all__ = ["Dataset"]
