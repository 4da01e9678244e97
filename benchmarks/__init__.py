"""Benchmarks of speed and memory, as ratios measured in one run: ``python -m benchmarks``."""
