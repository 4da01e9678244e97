import numpy as np
import pytest

from manyview import MMC
from manyview.datasets import make_views
from manyview.engine import LocalEngine
from manyview.exceptions import NotEnoughMemoryError
from manyview.mmc import estimator
from manyview.mmc.defaults import default_gamma, default_rank
from manyview.mmc.discrete import DiscreteIndicator
from manyview.mmc.fit import begin, carry_on
from manyview.mmc.initial_factors import start_factors
from manyview.mmc.penalty import Frobenius, RowSparse
from manyview.mmc.problem import Problem
from manyview.views import as_views

from .conftest import raw_views


def objective_after(views, labels, penalty, *, sweeps=100):
    """The objective per unit of the indicator, whose bound does not depend on the samples."""
    engine = LocalEngine(as_views(views), normalize=None)
    indicator = DiscreteIndicator()
    engine.scatter("labels", labels)
    indicator.start(engine, 3)
    factors, moments = start_factors(engine, 3, 3, seed=0)
    gamma = default_gamma(engine, penalty, 3)
    problem = Problem(penalty, gamma, indicator, sweeps, 0.0, cg_steps=100)
    first = begin(engine, problem, factors, moments)
    return gamma, carry_on(engine, problem, first).objective[-1]


@pytest.mark.parametrize("penalty", [RowSparse(), Frobenius()])
def test_samples_given_twice_change_nothing(penalty):
    made, labels = make_views(24, 3, (4, 3), separation=8.0, random_state=0)
    views = [np.asarray(X) for X in made]
    once_gamma, once = objective_after(views, labels, penalty)
    twice_gamma, twice = objective_after(
        [np.vstack([X, X]) for X in views], np.tile(labels, 2), penalty
    )
    assert twice_gamma > once_gamma
    assert twice == pytest.approx(once, rel=1e-3)


@pytest.mark.parametrize("penalty", [RowSparse(), Frobenius()])
@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_gamma_follows_the_scale_of_a_view(penalty, scale):
    views = raw_views(0)
    plain, scaled = (
        default_gamma(LocalEngine(as_views(list(given)), normalize=None), penalty, 3)
        for given in (views, (scale * views[0], views[1]))
    )
    assert scaled / plain == pytest.approx(scale ** (penalty.degree / 3))


def test_views_of_zeros_do_not_count():
    with pytest.warns(UserWarning, match="carries nothing"):
        views = as_views([np.zeros((9, 2)), raw_views(0, 9, (3,))[0]])
    engine = LocalEngine(views, normalize=None)
    assert np.isfinite(default_gamma(engine, RowSparse(), 3))


def test_unit_rows_need_no_scale():
    views = raw_views(0)
    first, second = (
        default_gamma(LocalEngine(as_views(list(given)), normalize="rows"), RowSparse(), 3)
        for given in (views, [100.0 * X for X in views])
    )
    assert first == pytest.approx(second)


@pytest.mark.parametrize(
    ("n_clusters", "n_views", "order", "rank"),
    [(3, 2, None, 20), (40, 2, None, 80), (3, 4, 1, 80), (3, 4, 2, 120), (3, 2, 9, 20)],
)
def test_every_choice_of_views_has_its_columns(n_clusters, n_views, order, rank):
    assert default_rank(n_clusters, n_views, order) == rank


def test_a_rank_beyond_memory_is_refused_before_any_pass_over_the_views(monkeypatch):
    monkeypatch.setattr(estimator, "engine_for", None)  # which makes the first pass
    with pytest.raises(NotEnoughMemoryError, match=r"MMC with rank=100000000 needs .* GiB"):
        MMC(3, rank=10**8).fit(make_views(60, 3, random_state=0).views)
