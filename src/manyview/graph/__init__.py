"""Affinity graphs over several views and their spectral clustering."""

from manyview.graph.estimator import MultiViewSpectral

__all__ = ["MultiViewSpectral"]
