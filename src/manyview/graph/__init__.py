"""Affinity graphs over several views and their spectral clustering."""
