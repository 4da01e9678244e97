"""Data and helpers shared by the tests of the baselines."""

import warnings
from contextlib import contextmanager

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from manyview.datasets import read_views
from manyview.metrics import clustering_accuracy, normalized_mutual_info


def blobs(n=60, widths=(8, 6, 5), k=3, seed=0, spread=0.5):
    """Return Gaussian clusters in several views, and the clusters."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % k
    views = [
        3 * rng.standard_normal((k, d))[truth] + spread * rng.standard_normal((n, d))
        for d in widths
    ]
    return views, truth


def projector(vectors):
    return vectors @ vectors.T


def assert_same_space(first, second, atol=1e-7):
    np.testing.assert_allclose(projector(first), projector(second), atol=atol)


@contextmanager
def no_convergence_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def mean_scores_on_3sources(data_dir, labels_of):
    """Return the mean accuracy and NMI of ``labels_of(views, seed)`` over 20 seeds."""
    views, truth = read_views(data_dir / "3sources.npz")
    with no_convergence_warning():
        runs = [labels_of(views, seed) for seed in range(20)]
    return (
        np.mean([clustering_accuracy(truth, labels) for labels in runs]),
        np.mean([normalized_mutual_info(truth, labels) for labels in runs]),
    )


def scores_on(data_dir, name, make):
    """Return the accuracy and the NMI (arithmetic) of ``make(n_clusters)`` on a data set."""
    views, truth = read_views(data_dir / f"{name}.npz")
    labels = make(np.unique(truth).size).fit(views).labels_
    nmi = normalized_mutual_info(truth, labels, average="arithmetic")
    return clustering_accuracy(truth, labels), nmi
