import numpy as np
import pytest

from manyview.mmc import refit as module
from manyview.mmc import sweep
from manyview.mmc.defaults import default_gamma
from manyview.mmc.penalty import Frobenius

from .fits import run


@pytest.mark.parametrize("widths", [(4,), (4, 3), (4, 3, 2)])
def test_refit_shares_its_penalty_among_the_factors(case, monkeypatch, widths):
    c = case(0, widths=widths)
    problem, fitted = run(c)
    gammas = []
    real = module.factor_steps
    monkeypatch.setattr(
        module, "factor_steps", lambda e, p, *rest: gammas.append(p.gamma) or real(e, p, *rest)
    )
    module.refit(c.engine, problem, fitted)
    usual = default_gamma(c.engine, Frobenius(), 3)
    assert gammas == [pytest.approx(module._PENALTY_STRENGTH * usual / (len(widths) + 1))]


@pytest.mark.parametrize(
    ("few", "widths", "part"), [(0, (4, 3), 7 / 24), (12, (4, 3), 12 / 24), (0, (20, 20), 1.0)]
)
def test_the_more_samples_than_features_the_weaker_it_is(case, monkeypatch, few, widths, part):
    c = case(0, widths=widths)
    problem, fitted = run(c, gamma=1e-6)
    assert all(np.any(W[:-1], axis=1).all() for W in fitted.factors.views)
    monkeypatch.setattr(module, "_FEW_SAMPLES", few)
    gammas = []
    monkeypatch.setattr(
        module,
        "_fitted_anew",
        lambda e, p, *rest: gammas.append(p.gamma) or (fitted.factors, fitted.moments),
    )
    module.refit(c.engine, problem, fitted)
    usual = default_gamma(c.engine, Frobenius(), 3) / 3
    assert gammas == [pytest.approx(module._PENALTY_STRENGTH * usual * part)]


def test_refit_begins_with_the_cluster_factor(case, monkeypatch):
    """The view factors are fitted to one that is the best for the new penalty."""
    c = case(0)
    problem, fitted = run(c)
    order = []

    def watched(name):
        real = getattr(sweep, name)

        def noted(*args, **options):
            order.append(name)
            return real(*args, **options)

        monkeypatch.setattr(sweep, name, noted)

    watched("updated_view_factor")
    watched("updated_cluster_factor")
    module.refit(c.engine, problem, fitted)
    assert order == [
        "updated_cluster_factor",
        *["updated_view_factor"] * 2,
        "updated_cluster_factor",
    ]


def test_refit_is_weaker_where_little_is_left(case, monkeypatch):
    c = case(0)
    problem, fitted = run(c)
    gammas = []
    real = module.factor_steps
    monkeypatch.setattr(
        module, "factor_steps", lambda e, p, *rest: gammas.append(p.gamma) or real(e, p, *rest)
    )
    monkeypatch.setattr(module, "_PENALTY_STRENGTH", 1e5)
    factors, moments = module.refit(c.engine, problem, fitted)
    np.testing.assert_allclose(np.array(gammas[:-1]) / gammas[1:], 10.0)
    assert 1 < len(gammas) < module._MOST_REFITS
    assert moments.explained(factors.clusters) >= 0.5 * fitted.explained


def test_refit_leaves_what_no_weaker_penalty_serves(case, monkeypatch):
    c = case(0)
    problem, fitted = run(c)
    monkeypatch.setattr(module, "_PENALTY_STRENGTH", 1e30)
    factors, _ = module.refit(c.engine, problem, fitted)
    assert factors is fitted.factors
    projections = [
        view.project(s.fold(W))
        for view, s, W in zip(
            c.engine.blocks[0].views, c.engine.scalings, factors.views, strict=True
        )
    ]
    for ours, theirs in zip(c.engine.blocks[0].state["projections"], projections, strict=True):
        np.testing.assert_allclose(ours, theirs)
