"""Synthetic views with known clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils import check_random_state

from manyview._typing import Floats
from manyview.datasets.dataset import Classes, Dataset
from manyview.views import as_views

__all__ = ["make_views"]

_FEWEST_SHARED = 5  # with fewer products, the clusters of an interaction overlap


def make_views(
    n_samples: int = 300,
    n_clusters: int = 3,
    n_features: Sequence[int] = (20, 20),
    *,
    structure: Literal["clusters", "interaction"] = "clusters",
    separation: float = 5.0,
    noise: float = 1.0,
    n_noise_views: int = 0,
    n_informative: int | None = None,
    density: float | None = None,
    weights: Sequence[float] | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> Dataset[Classes]:
    r"""Generate views with known clusters.

    With ``structure="clusters"`` every informative view has a centre for each cluster, and the
    samples scatter around it.

    With ``structure="interaction"`` the clusters are visible only in products of features of the
    first view with features of another. The first view holds :math:`a z`, view :math:`v` holds
    :math:`a M_{vk} z`, where :math:`z \sim N(0, I)` is drawn for each sample, :math:`a` is the
    separation and :math:`M_{vk}` is an orthogonal matrix of view :math:`v` and cluster
    :math:`k`: clusters :math:`2j` and :math:`2j + 1` have :math:`M` of opposite sign. An
    orthogonal map leaves :math:`N(0, I)` unchanged. Each view alone therefore has the same
    distribution in every cluster, and all clusters have the same mean in the concatenated views.

    Parameters
    ----------
    n_samples : int, default=300
        Number of samples.
    n_clusters : int, default=3
        Number of clusters.
    n_features : sequence of int, default=(20, 20)
        Number of features of each informative view.
    structure : {"clusters", "interaction"}, default="clusters"
        How the clusters differ; see above.
    separation : float, default=5.0
        Distance between the two nearest centres in each view for ``"clusters"``; the standard
        deviation :math:`a` of the shared part for ``"interaction"``.
    noise : float, default=1.0
        Standard deviation of the noise added to every feature.
    n_noise_views : int, default=0
        Number of additional views of pure noise, with the widths of the informative views in turn.
    n_informative : int, optional
        Number of features that carry the clusters, the first ones of each informative view; the
        others are noise. By default all of them or, for ``"interaction"``, as many as the
        narrowest view has; there at least 5 are needed.
    density : float, optional
        Probability with which an entry is kept; the others are zero and the views are sparse.
    weights : sequence of float, optional
        Relative sizes of the clusters; equal by default. Each cluster has at least one sample.
    random_state : int, RandomState or None, default=None
        Seed of the random numbers.

    Returns
    -------
    Dataset
        Views ``informative0``, ``informative1``, ... and ``noise0``, ..., with features named
        ``informative{d}`` or ``noise{d}``, and the clusters, in random order, as classes.

    Examples
    --------
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(100, 2, (10, 5), n_noise_views=1, random_state=0)
    >>> views
    Views(100 samples; informative0: 10 x float64, informative1: 5 x float64,
    noise0: 10 x float64)
    >>> y[:5]
    array([0, 1, 0, 1, 1])
    """
    widths = _check_counts(n_samples, n_clusters, n_features, n_noise_views)
    for parameter, value in (("separation", separation), ("noise", noise)):
        if not isinstance(value, Real) or not 0 <= float(value) < np.inf:
            raise ValueError(f"{parameter}={value!r}; expected a finite number of at least 0")
    if density is not None and (not isinstance(density, Real) or not 0 < float(density) <= 1):
        raise ValueError(f"density={density!r}; expected None or a number above 0 and up to 1")
    shared = _check_structure(structure, widths, n_informative)
    rng = check_random_state(random_state)
    y = np.repeat(np.arange(n_clusters), _sizes(n_samples, n_clusters, weights))
    y = rng.permutation(y).astype(np.int64)

    if structure == "clusters":
        carrying = list(widths) if n_informative is None else [shared] * len(widths)
        signals = [_centred(y, n_clusters, width, separation, rng) for width in carrying]
        spread = noise
    else:
        signals = _interacting(y, n_clusters, shared, len(widths), separation, rng)
        # features of noise must have the same variance as informative ones
        spread = float(np.hypot(separation, noise))

    arrays: dict[str, Any] = {}
    feature_names = []
    for v, (signal, width) in enumerate(zip(signals, widths, strict=True)):
        informative = signal + noise * rng.standard_normal(signal.shape)
        rest = spread * rng.standard_normal((n_samples, width - signal.shape[1]))
        arrays[f"informative{v}"] = np.hstack([informative, rest])
        feature_names.append(_feature_names(width, signal.shape[1]))
    for v in range(n_noise_views):
        width = widths[v % len(widths)]
        arrays[f"noise{v}"] = spread * rng.standard_normal((n_samples, width))
        feature_names.append(_feature_names(width, 0))

    if density is not None:
        for name, array in arrays.items():
            kept = rng.random_sample(array.shape) < density
            arrays[name] = sp.csr_array(np.where(kept, array, 0.0))
    views = as_views(arrays)
    class_names = np.asarray([f"cluster{k}" for k in range(n_clusters)], dtype=np.str_)
    views = replace(views, feature_names=tuple(feature_names))
    return Dataset(views, y, class_names, f"synthetic {structure}")


def _centred(y: Any, n_clusters: int, width: int, separation: float, rng: Any) -> Floats:
    centres = rng.standard_normal((n_clusters, width))
    distances = np.linalg.norm(centres[:, None] - centres, axis=2)
    nearest = distances[np.triu_indices(n_clusters, 1)].min(initial=np.inf)
    return np.asarray((centres * (separation / nearest))[y])


def _interacting(
    y: Any, n_clusters: int, shared: int, n_views: int, separation: float, rng: Any
) -> list[Floats]:
    z = separation * rng.standard_normal((len(y), shared))
    signals = [z]
    for _ in range(1, n_views):
        # opposite signs separate two clusters better than two random rotations
        rotations = [_rotation(shared, rng) for _ in range((n_clusters + 1) // 2)]
        signal = np.empty_like(z)
        for k in range(n_clusters):
            sign = -1.0 if k % 2 else 1.0
            signal[y == k] = sign * (z[y == k] @ rotations[k // 2].T)
        signals.append(signal)
    return signals


def _rotation(size: int, rng: Any) -> Floats:
    q, r = np.linalg.qr(rng.standard_normal((size, size)))
    # the signs of R make the distribution of Q uniform
    return np.asarray(q * np.sign(np.diag(r)))


def _feature_names(width: int, n_informative: int) -> npt.NDArray[np.str_]:
    kinds = ["informative"] * n_informative + ["noise"] * (width - n_informative)
    return np.asarray([f"{kind}{d}" for d, kind in enumerate(kinds)], dtype=np.str_)


def _sizes(n_samples: int, n_clusters: int, weights: Sequence[float] | None) -> Any:
    """Split the samples by weight: one to each cluster, the rest by largest remainder."""
    parts = np.asarray([1.0] * n_clusters if weights is None else weights, dtype=np.float64)
    if parts.shape != (n_clusters,):
        raise ValueError(
            f"weights has shape {parts.shape}; expected one for each of {n_clusters} clusters"
        )
    if not (np.isfinite(parts).all() and (parts > 0).all()):
        raise ValueError(f"weights={weights!r}; expected positive numbers")
    exact = n_samples * parts / parts.sum()
    sizes = np.maximum(np.floor(exact).astype(int), 1)
    while sizes.sum() != n_samples:
        gap = exact - sizes
        if sizes.sum() < n_samples:
            sizes[np.argmax(gap)] += 1
        else:
            sizes[np.argmin(np.where(sizes > 1, gap, np.inf))] -= 1
    return sizes


def _check_counts(
    n_samples: int, n_clusters: int, n_features: Sequence[int], n_noise_views: int
) -> tuple[int, ...]:
    _check_integer("n_clusters", n_clusters, 1)
    _check_integer("n_samples", n_samples, 1)
    _check_integer("n_noise_views", n_noise_views, 0)
    if n_samples < n_clusters:
        raise ValueError(
            f"n_samples={n_samples} is fewer than n_clusters={n_clusters}: "
            "every cluster needs at least one sample"
        )
    if isinstance(n_features, str) or not hasattr(n_features, "__len__"):
        raise TypeError(f"n_features={n_features!r}; expected one width per view, such as (20, 20)")
    if not len(n_features):
        raise ValueError("n_features is empty; expected one width per view, such as (20, 20)")
    for v, width in enumerate(n_features):
        _check_integer(f"n_features[{v}]", width, 1)
    return tuple(int(width) for width in n_features)


def _check_integer(name: str, value: Any, least: int) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
        raise ValueError(f"{name}={value!r}; expected an integer of at least {least}")


def _check_structure(structure: str, widths: tuple[int, ...], n_informative: int | None) -> int:
    """Return the number of informative features that the views share."""
    if structure not in ("clusters", "interaction"):
        raise ValueError(f"structure={structure!r}; expected 'clusters' or 'interaction'")
    narrowest = min(widths)
    if n_informative is not None:
        _check_integer("n_informative", n_informative, 1)
        if n_informative > narrowest:
            raise ValueError(
                f"n_informative={n_informative} is more than the {narrowest} features of view "
                f"'informative{widths.index(narrowest)}'"
            )
    shared = narrowest if n_informative is None else int(n_informative)
    if structure == "interaction":
        if len(widths) < 2:
            raise ValueError(
                f"n_features={widths} gives one view; structure='interaction' needs at least two"
            )
        if shared < _FEWEST_SHARED:
            raise ValueError(
                f"{shared} features would be informative; structure='interaction' needs at least "
                f"{_FEWEST_SHARED}"
            )
    return shared
