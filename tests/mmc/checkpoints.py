"""Fits that are written down, and crash."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from manyview import MMC
from manyview.datasets import make_views
from manyview.mmc import solver as steps
from manyview.mmc import solver as sweeps

OPTIONS = {"n_clusters": 3, "random_state": 0, "max_iter": 7, "tol": 0.0, "patience": None}


class CrashError(Exception):
    """What no fit expects."""


def made(n=150, *, sparse=False, dtype=np.float64, seed=0):
    arrays = [np.asarray(X, dtype) for X in make_views(n, 3, (12, 9), random_state=seed).views]
    return [sp.csr_array(np.where(X > 0, X, 0)) for X in arrays] if sparse else arrays


def fitted(views, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MMC(**(OPTIONS | options)).fit(views)


def crash_in_sweep(monkeypatch, sweep, error=CrashError):
    """Let a fit fail in the middle of a sweep."""
    real, calls = steps.updated_cluster_factor, []

    def failing(*args, **options):
        calls.append(1)
        if len(calls) == sweep:
            raise error
        return real(*args, **options)

    monkeypatch.setattr(steps, "updated_cluster_factor", failing)


def crashed(monkeypatch, views, sweep=4, **options):
    with monkeypatch.context() as patch:
        crash_in_sweep(patch, sweep)
        with pytest.raises(CrashError):
            fitted(views, **options)


def sweeps_made(monkeypatch):
    made, real = [], sweeps.sweep

    def counting(*args, **options):
        made.append(1)
        return real(*args, **options)

    monkeypatch.setattr(sweeps, "sweep", counting)
    return made


def assert_identical(found, expected):
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(found.objective_, expected.objective_)
    np.testing.assert_array_equal(found.indicator_, expected.indicator_)
    for ours, theirs in zip(found.view_factors_, expected.view_factors_, strict=True):
        np.testing.assert_array_equal(ours, theirs)
