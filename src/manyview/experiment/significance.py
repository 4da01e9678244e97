"""Whether one method is better than another: ranks over data sets, and paired differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from manyview._typing import Floats
from manyview.experiment.results import Run, settings_key
from manyview.experiment.summary import Row, as_rows

__all__ = ["Difference", "Ranking", "critical_difference", "paired_differences", "rank_methods"]


_DIGITS = 9  # of a score; what is beyond is rounding, and tells no method from another


@dataclass(frozen=True)
class Ranking:
    """How methods rank over data sets.

    Attributes
    ----------
    score : str
        By which they are ranked.
    data : tuple of str
        The sets that every one of the methods was run on.
    ranks : dict of str to float
        Mean rank of each method, 1 for the best, best first.
    p_value : float
        That all methods are equal, by Friedman's test; NaN for fewer than three methods or two
        sets.
    critical_difference : float
        Mean ranks closer than this are not significantly different, by Nemenyi's test at 5 %.
    """

    score: str
    data: tuple[str, ...]
    ranks: dict[str, float]
    p_value: float
    critical_difference: float


@dataclass(frozen=True)
class Difference:
    """How far a method lies above another, over data sets and seeds.

    Attributes
    ----------
    method, other : str
        The first less the second.
    mean : float
        Mean over data sets of the differences of their means over seeds.
    low, high : float
        Bounds of the bootstrap interval.
    wins, n_sets : int
        In how many of how many sets the first has the larger mean.
    """

    method: str
    other: str
    mean: float
    low: float
    high: float
    wins: int
    n_sets: int


def rank_methods(rows: Sequence[Row] | Sequence[Run], score: str = "nmi_geometric") -> Ranking:
    """Rank methods over the data sets that all of them were run on.

    One that ended without labels, refused for memory or stopped at a limit, ranks last there.

    Parameters
    ----------
    rows : sequence of Row or of Run
        As :func:`manyview.experiment.summarise` or :func:`manyview.experiment.compare` returns:
        one row per method and data set, or runs that make such, all of one protocol.
    score : str
        By which to rank.

    Returns
    -------
    Ranking

    Raises
    ------
    TypeError
        For what is neither rows nor runs.
    ValueError
        If rows are of several protocols or lack the score, or all methods were run on no data set.

    Examples
    --------
    >>> from manyview.experiment import Run
    >>> scores = {"news": {"MMC": 0.8, "SEC": 0.5}, "digits": {"MMC": 0.9, "SEC": 0.7}}
    >>> runs = [
    ...     Run(method, data, 0, "default", {}, scores={"nmi_geometric": value})
    ...     for data, found in scores.items()
    ...     for method, value in found.items()
    ... ]
    >>> rank_methods(runs).ranks
    {'MMC': 1.0, 'SEC': 2.0}
    """
    table = as_rows(rows)
    _check_one_protocol(table)
    _check_score((row.mean for row in table), score)
    methods = list(dict.fromkeys(row.method for row in table))
    cells = {
        (row.method, row.data): round(row.mean[score], _DIGITS) if row.n_runs else -np.inf
        for row in table
    }
    data = [
        name
        for name in dict.fromkeys(row.data for row in table if row.n_runs)
        if all((method, name) in cells for method in methods)
    ]
    if not data:
        raise ValueError("no data set was run with all methods")
    scores = np.array([[cells[method, name] for method in methods] for name in data])
    mean_ranks = rankdata(-scores, axis=1).mean(axis=0)
    order = np.argsort(mean_ranks, kind="stable")
    several = len(methods) >= 3 and len(data) >= 2
    return Ranking(
        score,
        tuple(data),
        {methods[at]: float(mean_ranks[at]) for at in order},
        float(friedmanchisquare(*scores.T).pvalue) if several else float("nan"),
        critical_difference(len(methods), len(data)) if len(methods) >= 2 else float("nan"),
    )


def critical_difference(n_methods: int, n_sets: int, level: float = 0.05) -> float:
    """Return how far apart mean ranks are that differ significantly, by Nemenyi's test.

    Parameters
    ----------
    n_methods, n_sets : int
        How many are compared, on how many data sets.
    level : float
        Of significance.

    Returns
    -------
    float

    References
    ----------
    J. Demsar. Statistical Comparisons of Classifiers over Multiple Data Sets. JMLR 2006.

    Examples
    --------
    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    quantile = studentized_range.ppf(1.0 - level, n_methods, np.inf) / np.sqrt(2.0)
    return float(quantile * np.sqrt(n_methods * (n_methods + 1) / (6.0 * n_sets)))


def paired_differences(
    runs: Sequence[Run],
    method: str,
    score: str = "nmi_geometric",
    *,
    level: float = 0.05,
    n_resamples: int = 2000,
    seed: int = 0,
) -> list[Difference]:
    """Compare one method with every other, paired by data set and seed.

    Parameters
    ----------
    runs : sequence of Run
        As :func:`manyview.experiment.compare` returns, all of one protocol. Rows do not do: they
        hold means over seeds.
    method : str
        The one that the others are compared with.
    score : str
        What is compared.
    level : float
        Share of resamples outside the interval.
    n_resamples : int
        Of the bootstrap, which draws data sets and, in each, seeds.
    seed : int
        Of the bootstrap.

    Returns
    -------
    list of Difference
        In the order in which the others appear; those that share no run with it are left out.

    Raises
    ------
    TypeError
        For what is no run.
    ValueError
        If runs are of several protocols or lack the score, or none is of the method.

    Examples
    --------
    >>> from manyview.experiment import Run
    >>> runs = [
    ...     Run(method, data, seed, "default", {}, scores={"nmi_geometric": value + 0.01 * seed})
    ...     for method, value in (("MMC", 0.75), ("SEC", 0.5))
    ...     for data in ("news", "digits")
    ...     for seed in (0, 1)
    ... ]
    >>> (found,) = paired_differences(runs, "MMC")
    >>> found.other, found.mean, found.low, found.wins
    ('SEC', 0.25, 0.25, 2)
    """
    _check_runs(runs)
    _check_one_protocol(runs)
    _check_score((run.scores for run in runs), score)
    rng = np.random.default_rng(seed)
    names = list(dict.fromkeys(run.method for run in runs))
    if method not in names:
        raise ValueError(f"no runs of {method!r}; there are {', '.join(names)}")
    found = []
    for other in names:
        gaps = [] if other == method else _gaps(runs, method, other, score)
        if not gaps:
            continue
        means = np.array([gap.mean() for gap in gaps])
        resampled = _resampled(gaps, n_resamples, rng)
        low, high = np.quantile(resampled, [level / 2, 1 - level / 2])
        found.append(
            Difference(
                method,
                other,
                float(means.mean()),
                float(low),
                float(high),
                int((means > 0).sum()),
                len(gaps),
            )
        )
    return found


def _gaps(runs: Sequence[Run], method: str, other: str, score: str) -> list[Floats]:
    """Differences seed by seed, an array for each data set that has any."""
    scores = {(run.method, run.data, run.seed): run.scores[score] for run in runs if run.scores}
    gaps = []
    for data in dict.fromkeys(run.data for run in runs):
        seeds = dict.fromkeys(run.seed for run in runs if run.data == data)
        pairs = [
            round(scores[method, data, seed] - scores[other, data, seed], _DIGITS)
            for seed in seeds
            if (method, data, seed) in scores and (other, data, seed) in scores
        ]
        if pairs:
            gaps.append(np.array(pairs))
    return gaps


def _resampled(gaps: Sequence[Floats], count: int, rng: np.random.Generator) -> Floats:
    """Means over as many sets as there are, drawn, each time with seeds drawn anew."""
    total = np.zeros(count)
    for _ in gaps:
        drawn = rng.integers(len(gaps), size=count)
        for at, gap in enumerate(gaps):
            (places,) = np.nonzero(drawn == at)
            total[places] += gap[rng.integers(gap.size, size=(places.size, gap.size))].mean(axis=1)
    return total / len(gaps)


def _check_runs(runs: Sequence[Run]) -> None:
    strange = [item for item in runs if not isinstance(item, Run)]
    if strange:
        raise TypeError(
            f"runs holds a {type(strange[0]).__name__}; expected Run, as compare returns: "
            "differences are paired by seed, and a Row holds means over seeds only"
        )


def _check_score(found: Iterable[Mapping[str, float]], score: str) -> None:
    for scores in found:
        if scores and score not in scores:
            raise ValueError(f"score={score!r}; a run has {', '.join(scores)}")


def _check_one_protocol(items: Sequence[Row] | Sequence[Run]) -> None:
    if not items:
        raise ValueError("there are no runs to compare")
    if len({item.protocol for item in items}) > 1:
        raise ValueError("default and tuned runs are not compared with each other")
    kinds = {(i.method, i.data, i.preprocessing, settings_key(i.params)) for i in items}
    if len(kinds) > len({(method, data) for method, data, *_ in kinds}):
        raise ValueError(
            "runs of one method on one set differ in their preprocessing or parameters: compare "
            "one at a time"
        )
