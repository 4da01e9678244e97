"""Fitted models as files: ``.npz`` archives without pickles, with a JSON header."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from manyview._version import __version__
from manyview.engine import Scaling
from manyview.engine.arrays import to_numpy
from manyview.mmc.estimator import MMC
from manyview.mmc.membership import Calibration, Lazy, Memberships
from manyview.mmc.objective import Factors
from manyview.mmc.prediction import CentreReadout, CosineReadout, Predictor, Readout
from manyview.mmc.statistics import Statistics
from manyview.mmc.view_weights import ViewWeights
from manyview.storage import Form, as_json, whole_file
from manyview.views.checks import SCALINGS

__all__ = ["read_model", "write_model"]

_FORM = Form("manyview.MMC model", version=1, what="model")
_NOT_IN_HEADER = {"init", "checkpoint"}  # may be an array; a path of this machine

# Arrays of a file with N samples, V views, K clusters, L = K + 1, R columns, I iterations and C
# pairs. Those with d features, D features including the bias, or counts are numbered by view.
_SHAPES = {
    "labels": "N",
    "indicator": "NK",
    "objective": "I",
    "membership": "NK",
    "outlier_score": "N",
    "calibration": "2",
    "view_added": "LV",
    "view_alone": "LV",
    "view_explained": "L",
    "cluster_factor": "KR",
    "cluster_predictor": "KR",
    "cosine_weights": "KK",
    "to_indicator": "KK",
    "centres": "KK",
    "view_factor": "DR",
    "view_predictor": "DR",
    "mean_row": "D",
    "centre": "d",
    "width": "d",
    "feature_names": "d",
    "sizes": "K",
    "count": "K",
    "feature_count": "Kd",
    "cluster_mean": "Kd",
    "deviation": "d",
    "pairs": "C4",
    "gains": "CK",
}

_PARTS = ("added", "alone", "explained")  # of the view weights

Arrays = dict[str, npt.NDArray[Any]]


def write_model(path: str | os.PathLike[str], model: MMC) -> None:
    """Write a fitted model to a file that :func:`read_model` reads.

    If writing fails, an older file is kept. The file holds the factors, labels, memberships, view
    weights and names of the model, but no samples. Memberships and view weights are computed first,
    unless they were asked for before. If the training arrays were changed since the fit, there are
    none, with a warning.

    Parameters
    ----------
    path : str or path-like
        The file; an older one is replaced.
    model : MMC
        A fitted model. Results on a cluster or a device are copied to this process (``to_local``).

    Raises
    ------
    TypeError
        If the model is not an MMC; the other methods have no model files.
    NotFittedError
        If the model is not fitted.

    See Also
    --------
    read_model : Read the file back.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from manyview import MMC, read_model, write_model
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(n_samples=150, n_clusters=3, random_state=0)
    >>> model = MMC(n_clusters=3, random_state=0).fit(views)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "news.model"
    ...     write_model(path, model)
    ...     again = read_model(path)
    >>> again.n_features_in_, bool((again.predict(views) == model.predict(views)).all())
    ([20, 20], True)
    """
    if type(model) is not MMC:
        raise TypeError(f"received {type(model).__name__}; expected a fitted MMC")
    check_is_fitted(model, "labels_")
    model._validate_params()  # they may have been changed after fit
    with whole_file(Path(path)) as file:
        np.savez_compressed(file, **_FORM.members(_header(model), _arrays(model.to_local())))


def read_model(path: str | os.PathLike[str]) -> MMC:
    """Read a model that :func:`write_model` wrote.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    MMC
        The fitted model. Its parameter ``checkpoint`` is None, and so is ``random_state`` unless it
        was an integer.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the file is damaged or not a model.

    See Also
    --------
    write_model : Write a model.

    Notes
    -----
    Nothing is unpickled, so a file cannot run code.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from manyview import MMC, read_model, write_model
    >>> from manyview.datasets import make_views
    >>> views, _ = make_views(n_samples=60, n_clusters=2, random_state=0)
    >>> with TemporaryDirectory() as folder:
    ...     write_model(Path(folder) / "two.model", MMC(2, random_state=0).fit(views))
    ...     read_model(Path(folder) / "two.model")
    MMC(n_clusters=2, random_state=0)
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no file {path}")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected a model file")
    try:
        header, arrays = _FORM.read(path)
        try:
            model = _model(header, arrays)
            _check_consistent(model, arrays)
        except Exception as error:
            raise ValueError(f"its content is not that of a model ({error})") from error
    except ValueError as error:
        raise ValueError(f"model {str(path)!r} cannot be used: {error}") from error
    return model


def _header(model: MMC) -> dict[str, Any]:
    parameters = model.get_params(deep=False)
    return {
        "manyview": __version__,
        # a random number generator becomes None
        "parameters": {
            name: as_json(value) for name, value in parameters.items() if name not in _NOT_IN_HEADER
        },
        "init": model.init if isinstance(model.init, str) else None,
        "view_names": model.view_names_,
        "normalized_by": model._predictor.normalize,
        "gamma": float(model.gamma_),
        "is_zero": bool(model._predictor.is_zero),
    }


def _arrays(model: MMC) -> Arrays:
    predictor = model._predictor
    arrays: Arrays = {
        "labels": model.labels_,
        "indicator": model.indicator_,
        "objective": model.objective_,
        "cluster_factor": model.cluster_factors_,
        "cluster_predictor": predictor.factors.clusters,
    }
    found = model._memberships.found
    if found is not None:
        arrays["membership"], arrays["outlier_score"] = found.membership, found.outlier_score
        arrays["calibration"] = np.array(found.calibration)
    weights = model._view_weights.found
    if weights is not None:
        arrays |= {f"view_{part}": getattr(weights, part) for part in _PARTS}
    if not isinstance(model.init, str):
        # objects become the numbers or strings that they are
        arrays["init"] = np.asarray(np.asarray(to_numpy(model.init)).tolist())
    if isinstance(predictor.readout, CosineReadout):
        arrays["cosine_weights"] = predictor.readout.weights
    else:
        arrays["to_indicator"] = predictor.readout.to_indicator
        arrays["centres"] = predictor.readout.centres
    for v in range(model.n_views_):
        arrays[f"view_factor{v}"] = model.view_factors_[v]
        arrays[f"view_predictor{v}"] = predictor.factors.views[v]
        arrays[f"mean_row{v}"] = predictor.mean_rows[v]
        columns = predictor.scalings[v].columns
        if columns is not None:
            arrays[f"centre{v}"], arrays[f"width{v}"] = columns
        names = model.feature_names_in_[v]
        if names is not None:
            arrays[f"feature_names{v}"] = np.asarray(names, dtype=np.str_)
    statistics = model._statistics
    if statistics is not None:
        arrays |= {"sizes": statistics.sizes, "pairs": statistics.pairs, "gains": statistics.gains}
        for v in range(model.n_views_):
            count = statistics.counts[v]
            by_feature = count.shape[1] > 1  # where cells are unknown
            arrays |= {f"feature_count{v}": count} if by_feature else {f"count{v}": count[:, 0]}
            arrays[f"cluster_mean{v}"] = statistics.means[v]
            arrays[f"deviation{v}"] = statistics.deviations[v]
    return arrays


def _model(header: dict[str, Any], arrays: Arrays) -> MMC:
    init = arrays["init"] if header["init"] is None else header["init"]
    model = MMC(**header["parameters"], init=init)
    model._validate_params()
    views = range(len(header["view_names"]))
    model.labels_ = arrays["labels"]
    model.indicator_ = arrays["indicator"]
    model.objective_ = arrays["objective"]
    model.n_iter_ = len(model.objective_)
    model.gamma_ = header["gamma"]
    model.view_factors_ = [arrays[f"view_factor{v}"] for v in views]
    model.cluster_factors_ = arrays["cluster_factor"]
    model.n_clusters_, model.choice_ = len(model.cluster_factors_), None
    model.n_views_ = len(views)
    model.n_features_in_ = [len(factor) - 1 for factor in model.view_factors_]
    model.view_names_ = header["view_names"]
    model.normalize_ = dict(zip(model.view_names_, header["normalized_by"], strict=False))
    model.feature_names_in_ = [arrays.get(f"feature_names{v}") for v in views]
    if "centres" not in arrays:
        # files without the weights are of models that predict the cluster of the largest entry
        weights = arrays.get("cosine_weights", np.eye(len(model.cluster_factors_)))
        readout: Readout = CosineReadout(weights)
    else:
        readout = CentreReadout(arrays["to_indicator"], arrays["centres"])
    model._predictor = Predictor(
        factors=Factors(
            tuple(arrays[f"view_predictor{v}"] for v in views), arrays["cluster_predictor"]
        ),
        readout=readout,
        mean_rows=[arrays[f"mean_row{v}"] for v in views],
        normalize=header["normalized_by"],
        scalings=[
            Scaling(width, arrays.get(f"centre{v}"), arrays.get(f"width{v}"))
            for v, width in enumerate(model.n_features_in_)
        ],
        is_zero=header["is_zero"],
    )
    model._statistics = None
    if "sizes" in arrays:  # files of earlier versions have no statistics
        model._statistics = Statistics(
            sizes=arrays["sizes"],
            counts=[
                arrays[f"feature_count{v}"]
                if f"feature_count{v}" in arrays
                else arrays[f"count{v}"][:, None]
                for v in views
            ],
            means=[arrays[f"cluster_mean{v}"] for v in views],
            deviations=[arrays[f"deviation{v}"] for v in views],
            pairs=arrays["pairs"],
            gains=arrays["gains"],
        )
    # files of earlier versions have no memberships or view weights
    found, view_weights = None, None
    if "membership" in arrays:
        calibration = Calibration(*map(float, arrays["calibration"]))
        found = Memberships(arrays["membership"], arrays["outlier_score"], calibration)
    if "view_added" in arrays:
        parts = [arrays[f"view_{part}"] for part in _PARTS]
        view_weights = ViewWeights(tuple(model.view_names_), *parts)
    model._memberships, model._view_weights = Lazy.of(found), Lazy.of(view_weights)
    return model


def _check_consistent(model: MMC, arrays: Arrays) -> None:
    """Raise ValueError unless the parts of a model have matching types and shapes."""
    names = model.view_names_
    strings = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not strings or not 0 < len(names) == len(set(names)):
        raise ValueError(f"its views are named {names!r}")
    by_view = model._predictor.normalize
    if len(by_view) != len(names) or any(n not in SCALINGS for n in by_view):
        raise ValueError(f"its views are scaled by {by_view!r}")
    if not isinstance(model.gamma_, float):
        raise ValueError(f"its gamma is {model.gamma_!r}")
    n_clusters, rank = model.cluster_factors_.shape
    pairs = arrays.get("pairs", np.empty((0, 4), dtype=np.intp))
    sizes = {"N": model.labels_.size, "K": n_clusters, "R": rank, "I": model.n_iter_}
    sizes |= {"V": len(names), "L": n_clusters + 1, "C": len(pairs), "4": 4, "2": 2}
    for name, array in arrays.items():
        base = name.rstrip("0123456789")
        if base == "init":
            continue
        if base != name:
            width = model.n_features_in_[int(name.removeprefix(base))]
            sizes |= {"d": width, "D": width + 1}
        shape = tuple(sizes[letter] for letter in _SHAPES[base])
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}; expected {shape}")
        kind = {"labels": "i", "feature_names": "U", "pairs": "i"}.get(base, "f")
        if array.dtype.kind != kind or (kind == "f" and not np.isfinite(array).all()):
            raise ValueError(f"{name} has type {array.dtype} or values that are not finite")
    if not 0 <= model.labels_.min(initial=0) <= model.labels_.max(initial=0) < n_clusters:
        raise ValueError(f"labels are not all from 0 to {n_clusters - 1}")
    _check_pairs(pairs, np.array(model.n_features_in_))


def _check_pairs(pairs: npt.NDArray[Any], widths: npt.NDArray[Any]) -> None:
    views, features = pairs[:, ::2], pairs[:, 1::2]
    known = (views >= 0) & (views < len(widths)) & (features >= 0)
    if not (known & (features < widths[np.where(known, views, 0)])).all():
        raise ValueError("pairs name features that the views do not have")
