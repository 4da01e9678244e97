"""The number of clusters, chosen by whether other samples show the same clusters.

The samples are split at random into two halves, several times. For each number of clusters K both
halves are clustered on their own. Kernel regressions on one half then predict clusters of the
other, and the adjusted Rand index compares these with the clusters found there. No sample has a
part on both sides of a comparison.

Few, coarse groups often agree best, and agreement falls with K even on clear data, because there
are more boundaries on which to disagree. So the values of K are compared by the score::

    agreement^3 (1 - e) log K

where log K is the information in K labels and e the error with which a sample's cluster is
predicted from the other samples of its half. The best local maximum is recommended, and the next
one is the runner-up. Both need an agreement of at least one half: halves of noise agree less.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from html import escape
from numbers import Integral
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.utils import check_random_state

from manyview.base import MultiViewClusterer, new_frame
from manyview.engine import engine_for
from manyview.engine.arrays import to_numpy
from manyview.graph.leave_one_out import LabelJudge
from manyview.graph.scaling import random_samples, resolve_normalization
from manyview.graph.settings import DEFAULTS, GraphSettings
from manyview.iterate import ProgressBar
from manyview.linalg.partition import Labels
from manyview.linalg.threads import limited_threads
from manyview.views import Normalize, Views, as_views, check_shared_samples, fill_unknown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

__all__ = ["ChoiceSettings", "Stability", "StableClusters", "choose_n_clusters"]

_MOST = 12  # clusters that are compared by default


@dataclass(frozen=True)
class ChoiceSettings:
    """Tuning constants of the choice; docs/how_many.md has the measurements."""

    power: float = 3.0
    """Power of the agreement. With 4 two of 17 real data sets have another recommendation; 2
    favours larger numbers and is right in fewer."""
    least_agreement: float = 0.5
    """Agreement that a recommended number has; uncorrelated noise stays below."""
    per_cluster: int = 2
    """Samples per cluster that a half has at least; by convention."""


class Stability(NamedTuple):
    """How stable K clusters are: a row of the table.

    Attributes
    ----------
    n_clusters : int
        Number of clusters, K.
    agreement : float
        Mean adjusted Rand index between clusters of one half and those predicted from the other:
        1 if they are the same, 0 if they agree by chance.
    spread : float
        Standard deviation of the agreement over the splits.
    eigengap : float
        Difference between the K-th eigenvalue of the affinity graph and the next one.
    error : float
        Squared error with which each sample's cluster is predicted from the other samples of its
        half, relative to the variance; 1 if nothing is predicted.
    score : float
        What the numbers of clusters are compared by.
    """

    n_clusters: int
    agreement: float
    spread: float
    eigengap: float
    error: float
    score: float


@dataclass(frozen=True)
class StableClusters:
    """Numbers of clusters by their stability: the result of :func:`choose_n_clusters`.

    Attributes
    ----------
    n_clusters : int or None
        The recommended number of clusters; None if no clusters were found.
    runner_up : int or None
        The next best local maximum of the score, if there is one: coarser or finer groups.
    table : tuple of Stability
        A row for each number of clusters.
    n_samples : int
        Number of samples that took part.
    n_splits : int
        Number of splits into halves.

    Examples
    --------
    >>> rows = [Stability(2, 0.9, 0.1, 0.2, 0.3, 0.5), Stability(3, 0.6, 0.1, 0.0, 0.5, 0.2)]
    >>> StableClusters(2, None, tuple(rows), n_samples=100, n_splits=5)
    2 clusters (halves agree by .90)
    <BLANKLINE>
     K  agreement  spread  eigengap  error  score
     2        .90     .10      .200    .30    .50  recommended
     3        .60     .10      .000    .50    .20
    <BLANKLINE>
    5 splits of 100 samples
    """

    n_clusters: int | None
    runner_up: int | None
    table: tuple[Stability, ...]
    n_samples: int
    n_splits: int

    @property
    def summary(self) -> str:
        """The recommendation in a sentence."""
        by_number = {row.n_clusters: row for row in self.table}
        if self.n_clusters is None:
            best = max(row.agreement for row in self.table)
            return f"no clusters found: halves agree by at most {_decimal(best)}"
        text = f"{self.n_clusters} clusters (halves agree by {self._agreement(self.n_clusters)})"
        if self.runner_up is not None:
            kind = "coarser" if self.runner_up < self.n_clusters else "finer"
            text += f"; {kind} groups: {self.runner_up} ({self._agreement(self.runner_up)})"
        if len(by_number) > 2 and self.n_clusters == max(by_number):
            text += "; this is the largest number tried, so try larger ones"
        return text

    def _agreement(self, n_clusters: int) -> str:
        return next(_decimal(row.agreement) for row in self.table if row.n_clusters == n_clusters)

    def _role(self, row: Stability) -> str:
        roles = {self.n_clusters: "recommended", self.runner_up: "runner-up"}
        return roles.get(row.n_clusters, "")

    def as_text(self) -> list[list[str]]:
        """Return the heads of the table and its rows as they are printed.

        Returns
        -------
        list of list of str
            A list of cells for the heads and for each row. The last one is empty, except for the
            recommended number and the runner-up.
        """
        rows = [["K", *Stability._fields[1:], ""]]
        for row in self.table:
            numbers = [_decimal(cell, 3 if at == 3 else 2) for at, cell in enumerate(row[1:], 1)]
            rows.append([str(row.n_clusters), *numbers, self._role(row)])
        return rows

    def __repr__(self) -> str:
        rows = self.as_text()
        widths = [max(2, len(head)) for head in rows[0][:-1]]
        lines = []
        for *cells, role in rows:
            padded = [f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)]
            lines.append("  ".join([*padded, role]).rstrip())
        return "\n".join([self.summary, "", *lines, "", self._basis])

    @property
    def _basis(self) -> str:
        plural = "s" if self.n_splits > 1 else ""
        return f"{self.n_splits} split{plural} of {self.n_samples} samples"

    def _repr_html_(self) -> str:
        first, *others = self.as_text()
        heads = "".join(f"<th>{head}</th>" for head in first)
        rows = []
        for row in others:
            weight = "bold" if row[-1] else "normal"
            cells = "".join(f"<td>{cell}</td>" for cell in row)
            rows.append(f'<tr style="font-weight: {weight}">{cells}</tr>')
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        return f"<p>{escape(self.summary)}</p>{table}<p>{escape(self._basis)}</p>"

    def to_frame(self) -> DataFrame:
        """Return the table as a DataFrame, indexed by the number of clusters.

        Returns
        -------
        DataFrame
            A column for each attribute of :class:`Stability`; needs pandas.
        """
        frame = new_frame(list(self.table), list(Stability._fields))
        return frame.set_index("n_clusters")

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw the agreement and the eigengap for each number of clusters.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib Axes
        """
        from manyview.plotting import plot_n_clusters

        return plot_n_clusters(self, ax=ax)


def _decimal(value: float, digits: int = 2) -> str:
    """Return a number near 0 to 1 without the leading zero.

    >>> _decimal(0.925), _decimal(-0.014, 3), _decimal(1.0)
    ('.93', '-.014', '1.00')
    """
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def choose_n_clusters(
    views: Any,
    n_clusters: Iterable[int] | None = None,
    *,
    estimator: MultiViewClusterer | None = None,
    n_splits: int = 5,
    max_samples: int = 5000,
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> StableClusters:
    """Compare numbers of clusters by their stability.

    The samples are split into halves, and both halves are clustered. Numbers of clusters for which
    the clusters of one half agree with those predicted from the other are recommended.

    Parameters
    ----------
    views : list, tuple or dict of array-likes, or Views
        The views; see :func:`manyview.as_views`.
    n_clusters : iterable of int, optional
        Numbers of clusters to compare, at least 2 and at most a quarter of the samples. By default
        2 to 12, or fewer if there are less than 48 samples.
    estimator : estimator, optional
        An estimator of this library that clusters the halves; its ``n_clusters`` and
        ``random_state`` are replaced. By default :class:`manyview.MMC`. In place of its fits there
        are only the spectral clusters from which they begin, which takes a small part of the time,
        unless `indicator` or `init` are not the default.
    n_splits : int, default=5
        Number of splits into halves. More splits make the agreement more precise.
    max_samples : int, default=5000
        Most samples to use; of more, so many random ones.
    random_state : int, RandomState instance or None, default=None
        Seed of the splits and the fits.
    n_jobs : int, optional
        Number of splits at the same time, in threads, as in scikit-learn: -1 for all processors. By
        default 1. The result does not depend on it.
    verbose : int, default=0
        1 shows a progress bar.

    Returns
    -------
    StableClusters
        The table, the recommendation and the runner-up; ``n_clusters`` is None if there are no
        clusters.

    See Also
    --------
    manyview.MMC : ``MMC(n_clusters="auto")`` fits the recommended number of clusters.

    Examples
    --------
    >>> from manyview import choose_n_clusters
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(n_samples=300, n_clusters=4, random_state=0)
    >>> choice = choose_n_clusters(views, range(2, 8), random_state=0)
    >>> choice.n_clusters
    4
    """
    checked = as_views(views, min_samples=2)
    check_shared_samples(checked)
    checked = fill_unknown(checked)
    for name, value in (("n_splits", n_splits), ("max_samples", max_samples)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name}={value!r}; expected an integer of at least 1")
    if n_jobs is not None and not (isinstance(n_jobs, Integral) and n_jobs != 0):
        raise ValueError(f"n_jobs={n_jobs!r}; expected an integer other than 0, or None")
    if estimator is not None:
        _check_estimator(estimator)
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    return stable_clusters(
        checked,
        n_clusters,
        rng,
        estimator=estimator,
        n_splits=int(n_splits),
        max_samples=int(max_samples),
        n_threads=1 if n_jobs is None else int(effective_n_jobs(n_jobs)),
        shown=bool(verbose),
    )


def _check_estimator(estimator: Any) -> None:
    """Raise unless an estimator can cluster halves of the samples."""
    if not isinstance(estimator, MultiViewClusterer):
        raise TypeError(f"estimator={estimator!r}; expected an estimator of manyview, or None")
    estimator._validate_params()
    if not isinstance(getattr(estimator, "init", ""), str):
        raise ValueError(
            "the estimator has init for all samples; halves are clustered, so expected a name "
            "such as init='graph'"
        )


def stable_clusters(
    views: Views,
    n_clusters: Iterable[int] | None,
    rng: np.random.Generator,
    *,
    estimator: MultiViewClusterer | None = None,
    n_splits: int = 5,
    max_samples: int = 5000,
    n_threads: int = 1,
    shown: bool = False,
    settings: ChoiceSettings = ChoiceSettings(),
) -> StableClusters:
    """Compare numbers of clusters of checked views."""
    sample = random_samples(views, max_samples, rng)[1]
    numbers = _checked_numbers(n_clusters, sample.n_samples, settings)
    halves = _Halves.of(sample, numbers, rng, estimator)
    seeds = rng.integers(2**31 - 1, size=n_splits).tolist()
    interrupted = Event()
    compared = partial(halves.compared, interrupted=interrupted)
    found: list[list[_Agreement]] = []
    with (
        limited_threads(1),
        warnings.catch_warnings(),
        ProgressBar("choice of K", total=n_splits, shown=shown) as bar,
        ThreadPoolExecutor(min(n_threads, n_splits)) as pool,
    ):
        # of so many fits, single warnings say little; filters are shared by all threads
        warnings.simplefilter("ignore", UserWarning)
        bar.stage(f"clusters of halves, for {numbers[0]} to {numbers[-1]} clusters")
        # without threads, an interrupt is immediate
        runs = pool.map(compared, seeds) if n_threads > 1 else map(compared, seeds)
        try:
            for number, agreements in enumerate(runs, 1):
                found.append(agreements)
                means = np.mean([[each.agreement for each in split] for split in found], axis=0)
                best = int(means.argmax())
                bar.step(number, f"agreement {means[best]:.2f} for {numbers[best]} clusters")
        except BaseException:
            interrupted.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    measured = np.array(found)  # splits x numbers x fields
    table = tuple(_row(K, measured[:, at], settings) for at, K in enumerate(numbers))
    recommended, runner_up = _stand_out(table, settings)
    return StableClusters(recommended, runner_up, table, sample.n_samples, n_splits)


def _checked_numbers(
    n_clusters: Iterable[int] | None, n_samples: int, settings: ChoiceSettings
) -> list[int]:
    """Return the numbers of clusters in ascending order; raise unless halves can have them."""
    most = n_samples // 2 // settings.per_cluster
    if most < 2:
        raise ValueError(
            f"{n_samples} samples are too few to compare numbers of clusters; expected at least 8"
        )
    if n_clusters is None:
        n_clusters = range(2, min(_MOST, most) + 1)
    if not isinstance(n_clusters, Iterable) or isinstance(n_clusters, str):
        raise TypeError(
            f"n_clusters={n_clusters!r}; expected several numbers, such as range(2, 13)"
        )
    given = list(n_clusters)
    if not given:
        raise ValueError("n_clusters is empty; expected several numbers, such as range(2, 13)")
    for number in given:
        if not isinstance(number, Integral) or isinstance(number, bool):
            raise TypeError(f"n_clusters holds {number!r}; expected integers of at least 2")
        if number < 2:
            raise ValueError(f"n_clusters holds {number}; expected integers of at least 2")
        if number > most:
            raise ValueError(
                f"n_clusters holds {number}; expected at most {most}, a quarter of the "
                f"{n_samples} samples that take part"
            )
    return sorted({int(number) for number in given})


def _row(n_clusters: int, measured: npt.NDArray[np.float64], settings: ChoiceSettings) -> Stability:
    agreement, eigengap, error = measured.mean(axis=0).tolist()
    score = (
        max(agreement, 0.0) ** settings.power * max(1.0 - error, 0.0) * float(np.log(n_clusters))
    )
    return Stability(n_clusters, agreement, float(measured[:, 0].std()), eigengap, error, score)


def _stand_out(
    table: Sequence[Stability], settings: ChoiceSettings
) -> tuple[int | None, int | None]:
    """Return the numbers with the two best local maxima of the score, None where there are none."""
    scores = np.array([-np.inf, *(row.score for row in table), -np.inf])
    peaks = (scores[1:-1] > scores[:-2]) & (scores[1:-1] >= scores[2:])
    found = sorted((row for row, peak in zip(table, peaks, strict=True) if peak), key=_by_score)
    numbers = [row.n_clusters for row in found if row.agreement >= settings.least_agreement]
    best, other, *_ = [*numbers, None, None]
    return best, other


def _by_score(row: Stability) -> float:
    return -row.score


class _Agreement(NamedTuple):
    """Agreement of both halves of a split, and the means of their eigengaps and errors."""

    agreement: float
    eigengap: float
    error: float


class _Fits(NamedTuple):
    """Labels of a half for each number of clusters, and how they were found."""

    judge: LabelJudge
    labels: list[Labels]
    eigengaps: list[float]
    errors: list[float]


@dataclass(frozen=True)
class _Halves:
    """Samples, and how halves of them are clustered."""

    sample: Views
    numbers: list[int]
    normalize: list[str | None]
    estimator: MultiViewClusterer | None
    order: int | None
    settings: GraphSettings

    @classmethod
    def of(
        cls,
        sample: Views,
        numbers: list[int],
        rng: np.random.Generator,
        estimator: MultiViewClusterer | None,
    ) -> _Halves:
        """Resolve the scaling once for all numbers of clusters, by one in their middle."""
        normalize: Normalize = getattr(estimator, "normalize", "auto")
        settings = getattr(estimator, "_graph_settings", DEFAULTS)
        middle = round(float(np.sqrt(numbers[0] * numbers[-1])))
        by_view = resolve_normalization(normalize, sample, middle, rng, settings)
        order = getattr(estimator, "order", None)
        own = estimator is not None and not getattr(estimator, "_labels_by_graph", False)
        return cls(sample, numbers, by_view, estimator if own else None, order, settings)

    def compared(self, seed: int, *, interrupted: Event) -> list[_Agreement]:
        """Split the samples, cluster both halves, and compare them for each number of clusters.

        If `interrupted` is set meanwhile, a number of clusters is finished and no other begun.
        """
        rng = np.random.default_rng(seed)
        drawn = np.array_split(rng.permutation(self.sample.n_samples), 2)
        halves = [self.sample.take(np.sort(rows)) for rows in drawn]
        engines = [engine_for(half, normalize=self.normalize) for half in halves]
        fits = []
        for half, engine in zip(halves, engines, strict=True):
            with engine.running():
                fits.append(self._fits(half, engine, rng, interrupted))
        found = []
        for (own, other), half, engine in zip(
            (fits, fits[::-1]), halves[::-1], engines, strict=True
        ):
            scaled = engine_for(half, normalize=self.normalize, scalings=engine.scalings)
            with scaled.running():
                predicted = own.judge.extended(scaled, own.labels)
            found.append(list(map(adjusted_rand_score, other.labels, predicted)))
        columns = zip(
            np.mean(found, axis=0),
            np.mean([fit.eigengaps for fit in fits], axis=0),
            np.mean([fit.errors for fit in fits], axis=0),
            strict=True,
        )
        return [_Agreement(*map(float, column)) for column in columns]

    def _fits(
        self, half: Views, engine: Any, rng: np.random.Generator, interrupted: Event
    ) -> _Fits:
        judge = LabelJudge(engine, self.numbers[0], rng, order=self.order, settings=self.settings)
        found = _Fits(judge, [], [], [])
        for number in self.numbers:
            if interrupted.is_set():
                raise CancelledError
            of_number = judge.for_clusters(number)
            clusters, error = of_number.first_candidate(rng)
            labels = clusters.labels
            if self.estimator is not None:
                labels = self._fitted_labels(half, number, rng)
                error = of_number.error_of(labels)
            found.labels.append(labels)
            found.eigengaps.append(clusters.eigengap)
            found.errors.append(error)
        return found

    def _fitted_labels(self, half: Views, number: int, rng: np.random.Generator) -> Labels:
        """Return the labels that the estimator finds in a half."""
        seed = int(rng.integers(2**31 - 1))
        parameters = {"n_clusters": number, "random_state": seed, "verbose": 0, "checkpoint": None}
        estimator: Any = clone(self.estimator)
        known = estimator.get_params(deep=False)
        estimator.set_params(**{key: value for key, value in parameters.items() if key in known})
        return to_numpy(estimator.fit(half).labels_).astype(np.intp)
