"""Numerical building blocks: eigenvectors, partitions, solvers, t-product, threads."""
