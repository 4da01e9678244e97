"""Significance of differences between methods: ranks over data sets, and paired differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from manyview._typing import Floats
from manyview.experiment.results import Run, settings_key
from manyview.experiment.summary import Row, as_rows

__all__ = ["Difference", "Ranking", "paired_differences", "rank_methods"]

_DIGITS = 9  # scores that agree to so many digits are equal


@dataclass(frozen=True)
class Ranking:
    """Ranks of methods over data sets.

    Attributes
    ----------
    score : str
        The score by which they are ranked.
    data : tuple of str
        The data sets on which all methods were run.
    ranks : dict of str to float
        Mean rank of each method, best first; 1 is the best rank.
    p_value : float
        p-value of Friedman's test that all methods are equal; NaN for fewer than three methods or
        two data sets.
    critical_difference : float
        Mean ranks that are closer are not significantly different, by Nemenyi's test at 5 %.
    """

    score: str
    data: tuple[str, ...]
    ranks: dict[str, float]
    p_value: float
    critical_difference: float


@dataclass(frozen=True)
class Difference:
    """The advantage of a method over another, over data sets and seeds.

    Attributes
    ----------
    method, other : str
        The difference is the score of `method` minus that of `other`.
    mean : float
        Mean over data sets of the differences of their means over seeds.
    low, high : float
        Bounds of the bootstrap interval.
    wins, n_sets : int
        Number of data sets on which `method` has the larger mean, and number of all data sets.
    """

    method: str
    other: str
    mean: float
    low: float
    high: float
    wins: int
    n_sets: int


def rank_methods(rows: Sequence[Row] | Sequence[Run], score: str = "nmi_geometric") -> Ranking:
    """Rank methods over the data sets on which all of them were run.

    A method that ended without labels, for example at a limit, ranks last on that data set.

    Parameters
    ----------
    rows : sequence of Row or of Run
        Result of :func:`manyview.experiment.summarise` or :func:`manyview.experiment.compare`: one
        row per method and data set, all of one protocol.
    score : str
        The score by which to rank.

    Returns
    -------
    Ranking

    Raises
    ------
    TypeError
        For anything but rows or runs.
    ValueError
        If there are several protocols, the score is missing, or no data set was run with all
        methods.

    References
    ----------
    J. Demsar. Statistical Comparisons of Classifiers over Multiple Data Sets. JMLR 2006.

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
    _check_comparable(table)
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
    """Return the smallest significant difference of mean ranks, by Nemenyi's test.

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
        Result of :func:`manyview.experiment.compare`, all of one protocol.
    method : str
        The method with which the others are compared.
    score : str
        The score that is compared.
    level : float
        Fraction of resamples outside the interval.
    n_resamples : int
        Number of bootstrap resamples, which draw data sets and seeds within each.
    seed : int
        Seed of the bootstrap.

    Returns
    -------
    list of Difference
        In the order of the other methods; those without a common run are omitted.

    Raises
    ------
    TypeError
        For anything but runs.
    ValueError
        If there are several protocols, the score is missing, or there are no runs of the method.

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
    for item in runs:
        if not isinstance(item, Run):
            raise TypeError(
                f"runs holds a {type(item).__name__}; expected Run, because differences are paired "
                "by seed"
            )
    _check_comparable(runs)
    _check_score((run.scores for run in runs), score)
    rng = np.random.default_rng(seed)
    names = list(dict.fromkeys(run.method for run in runs))
    if method not in names:
        raise ValueError(f"there are no runs of {method!r}; expected one of {', '.join(names)}")
    found = []
    for other in names:
        gaps = [] if other == method else _gaps(runs, method, other, score)
        if not gaps:
            continue
        means = np.array([gap.mean() for gap in gaps])
        resampled = _resampled_means(gaps, n_resamples, rng)
        low, high = np.quantile(resampled, [level / 2, 1 - level / 2])
        mean, wins = float(means.mean()), int((means > 0).sum())
        found.append(Difference(method, other, mean, float(low), float(high), wins, len(gaps)))
    return found


def _gaps(runs: Sequence[Run], method: str, other: str, score: str) -> list[Floats]:
    """Return the differences for each seed, one array per data set."""
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


def _resampled_means(gaps: Sequence[Floats], count: int, rng: np.random.Generator) -> Floats:
    """Return means over data sets drawn with replacement, each with its seeds drawn again."""
    total = np.zeros(count)
    for _ in gaps:
        drawn = rng.integers(len(gaps), size=count)
        for at, gap in enumerate(gaps):
            (places,) = np.nonzero(drawn == at)
            total[places] += gap[rng.integers(gap.size, size=(places.size, gap.size))].mean(axis=1)
    return total / len(gaps)


def _check_score(found: Iterable[Mapping[str, float]], score: str) -> None:
    for scores in found:
        if scores and score not in scores:
            raise ValueError(f"score={score!r}; expected one of {', '.join(scores)}")


def _check_comparable(items: Sequence[Row] | Sequence[Run]) -> None:
    """Raise unless all are of one protocol, and each method on a data set has one setting."""
    if not items:
        raise ValueError("there are no runs to compare")
    if len({item.protocol for item in items}) > 1:
        raise ValueError("the runs are of several protocols; expected default or tuned runs only")
    kinds = {(i.method, i.data, i.preprocessing, settings_key(i.params)) for i in items}
    if len(kinds) > len({(method, data) for method, data, *_ in kinds}):
        raise ValueError(
            "runs of one method on one data set differ in preprocessing or params; expected one "
            "setting of each method"
        )
