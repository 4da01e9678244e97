"""The methods that can be compared, and their published scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from inspect import signature
from itertools import product
from typing import Any

from manyview import (
    AMGL,
    GMC,
    KCTD,
    LMVSC,
    MMC,
    NEMO,
    OPMC,
    RMKMC,
    SCMV3DT,
    SEC,
    SNF,
    CoRegSC,
    MultiNMF,
    MultiViewSpectral,
)
from manyview.baselines.references import (
    KMeansBeside,
    MiniBatchBeside,
    SpectralBeside,
    StandardisedKMeans,
    SummedGraphs,
    UmapKMeans,
)

__all__ = [
    "METHODS",
    "OTHER_METHODS",
    "PUBLISHED",
    "REFERENCES",
    "Method",
    "method_named",
    "published_for",
]


@dataclass(frozen=True)
class Method:
    """A method under comparison.

    Attributes
    ----------
    name : str
    make : callable
        Class of the estimator. It is called with ``n_clusters``, ``random_state`` and the
        parameters, and its instances have ``fit(views)`` and ``labels_``.
    defaults : mapping
        Parameters that differ from the estimator's own defaults.
    grid : tuple of mapping
        Settings to choose from when the method is tuned; empty if it is never tuned.
    """

    name: str
    make: Callable[..., Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    grid: tuple[Mapping[str, Any], ...] = ()

    @property
    def default_preprocessing(self) -> str | None:
        """The scaling of the views that the estimator applies by default."""
        if "normalize" in self.defaults:
            given: str | None = self.defaults["normalize"]
            return given
        parameter = signature(self.make).parameters.get("normalize")
        return None if parameter is None else parameter.default

    @property
    def shares_fit(self) -> bool:
        """True if one fit yields the labels of all seeds."""
        return hasattr(self.make, "relabelled")


def _grid(**choices: tuple[Any, ...]) -> tuple[dict[str, Any], ...]:
    """Return all combinations of the given parameter values."""
    return tuple(dict(zip(choices, values, strict=True)) for values in product(*choices.values()))


_SEVEN = (1e-10, 1e-7, 1e-4, 1e-1, 1e2, 1e5, 1e8)

_PAPER_GRID = _grid(rank=(10, 20, 30, 40, 50), gamma=(0.01,))

# The methods of the paper's table, with the grids of their papers.
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("SEC", SEC, grid=_grid(mu=_SEVEN, gamma=_SEVEN)),
        Method("CoRegSC", CoRegSC, grid=_grid(regularization=(0.01, 0.02, 0.03, 0.04, 0.05))),
        Method("AMGL", AMGL),
        Method(
            "RMKMC", RMKMC, grid=_grid(exponent=tuple(10 ** (0.1 + 0.2 * i) for i in range(10)))
        ),
        # Some image features of the news sets are negative, which MultiNMF does not allow.
        Method(
            "MultiNMF",
            MultiNMF,
            defaults={"negative": "shift"},
            grid=_grid(regularization=(1e-3, 1e-2, 1e-1)),
        ),
        Method("KCTD", KCTD),
        Method(
            "SCMV3DT",
            SCMV3DT,
            grid=_grid(sparsity=(0.01, 0.05, 0.1, 0.3), low_rank=(0.01, 0.1, 1.0)),
        ),
        Method("MMC-F", MMC, defaults={"penalty": "frobenius"}, grid=_PAPER_GRID),
        Method("MMC", MMC, grid=_PAPER_GRID),
    )
}

# Other multi-view methods, which are not in the paper's table.
OTHER_METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("GMC", GMC),
        Method("SNF", SNF),
        Method("NEMO", NEMO),
        Method("OPMC", OPMC),
        Method("LMVSC", LMVSC),
    )
}

# Common clustering methods applied to the concatenated views or to one graph of all views.
REFERENCES: dict[str, Method] = {
    method.name: method
    for method in (
        Method("k-means", KMeansBeside),
        Method("k-means-standardised", StandardisedKMeans),
        Method("mini-batch", MiniBatchBeside),
        Method("spectral", SpectralBeside),
        Method("summed-graphs", SummedGraphs),
        Method("umap", UmapKMeans),
        Method("MultiViewSpectral", MultiViewSpectral),
    )
}


def method_named(name: str) -> Method:
    """Return a method or reference by its name.

    Parameters
    ----------
    name : str
        A name in ``METHODS``, ``OTHER_METHODS`` or ``REFERENCES``, in upper or lower case; or
        ``module:Class`` for an estimator of your own in a module that can be imported. It is
        constructed with ``n_clusters`` and ``random_state``, and its default parameters are used.

    Returns
    -------
    Method

    Raises
    ------
    ValueError
        If no method has this name, or the module or class is not there.

    Examples
    --------
    >>> method_named("mmc-f").name
    'MMC-F'
    >>> method_named("manyview.baselines.sec:SEC").name
    'manyview.baselines.sec:SEC'
    """
    if ":" in name:
        return Method(name, _imported(name))
    everything = METHODS | OTHER_METHODS | REFERENCES
    known = {method.name.lower(): method for method in everything.values()}
    if name.lower() in known:
        return known[name.lower()]
    near = get_close_matches(name.lower(), known, n=1)
    hint = f"; did you mean {known[near[0]].name}?" if near else "."
    names = ", ".join(method.name for method in known.values())
    raise ValueError(f"no method {name!r}{hint} The methods are {names}")


def _imported(name: str) -> Callable[..., Any]:
    """Return the class that ``module:Class`` names."""
    module_name, _, class_name = name.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        # another missing module is the fault of the module itself
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise ValueError(
            f"method {name!r}: no module {error.name!r}; install its package, or set PYTHONPATH to "
            "the folder that holds it"
        ) from error
    except (TypeError, ValueError) as error:  # an empty or a relative name
        raise ValueError(f"method {name!r}; expected package.module:Class") from error
    make = getattr(module, class_name, None)
    if not callable(make) or not hasattr(make, "fit"):
        raise ValueError(
            f"method {name!r}: {module_name} has no class {class_name!r} with a method fit"
        )
    return make  # type: ignore[no-any-return]


# ACC and NMI in per cent on fox, cnn and 3sources (He et al., ICDM 2018). The paper tunes its
# baselines with labels and does not state its NMI normaliser, its preprocessing or its number of
# k-means restarts.
PUBLISHED: dict[tuple[str, str], tuple[float, float]] = {
    (method, data): (acc / 100, nmi / 100)
    for method, figures in {
        "SEC": ((43.73, 8.87), (25.15, 4.62), (47.13, 20.43)),
        "CoRegSC": ((54.74, 24.37), (27.66, 7.73), (56.05, 52.44)),
        "AMGL": ((42.03, 3.52), (23.46, 2.99), (37.57, 11.13)),
        "RMKMC": ((61.92, 31.51), (21.16, 2.47), (44.47, 26.04)),
        "MultiNMF": ((76.93, 67.10), (40.14, 29.67), (50.78, 46.21)),
        "KCTD": ((46.24, 20.79), (27.56, 8.95), (41.93, 34.68)),
        "SCMV3DT": ((74.73, 58.90), (32.32, 26.23), (56.70, 47.36)),
        "MMC-F": ((71.15, 52.77), (56.60, 43.92), (51.86, 31.14)),
        "MMC": ((79.62, 71.39), (57.88, 47.30), (60.58, 52.83)),
    }.items()
    for data, (acc, nmi) in zip(("fox", "cnn", "3sources"), figures, strict=True)
}

_SAMPLES = {"fox": 1523, "cnn": 2107, "3sources": 169}


def published_for(method: str, data: str, n_samples: int = 0) -> tuple[float, float] | None:
    """Return ACC and NMI of the paper, or None if it has none for this method and data.

    A data set with another number of samples is not the paper's; 0 skips this check.

    >>> published_for("MMC", "fox", 1523)
    (0.7962, 0.7139)
    >>> published_for("MMC", "fox", 40) is None
    True
    """
    if n_samples and n_samples != _SAMPLES.get(data):
        return None
    return PUBLISHED.get((method, data))
