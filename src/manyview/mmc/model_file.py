"""Fitted models as files: a NumPy ``.npz`` archive without pickles, its header as JSON."""

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
from manyview.mmc.objective import Factors
from manyview.mmc.prediction import CentreReadout, LargestReadout, Predictor
from manyview.storage import Form, as_json, whole_file

__all__ = ["read_model", "write_model"]

_FORM = Form("manyview.MMC model", version=1, what="model")
_ELSEWHERE = {"init", "checkpoint"}  # may be an array; a file that others do not have
_KINDS = {"labels": "i", "feature_names": "U"}  # all else but init are real numbers

Arrays = dict[str, npt.NDArray[Any]]


def write_model(path: str | os.PathLike[str], model: MMC) -> None:
    """Write a fitted model to a file that :func:`read_model` reads.

    The file is written whole or not at all: where writing fails, an older file stays. It holds what
    the model learnt, and the labels and names that fit saw, but no samples.

    Parameters
    ----------
    path : str or path-like
        Where to; an older file is replaced.
    model : MMC
        A fitted model. What it has on a cluster or a device is brought here (``to_local``).

    Raises
    ------
    TypeError
        If it is no MMC; models of the other methods have no file.
    NotFittedError
        If it has not been fitted.

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
    >>> bool((again.predict(views) == model.predict(views)).all())
    True
    """
    if type(model) is not MMC:
        raise TypeError(f"received {type(model).__name__}; expected a fitted MMC")
    check_is_fitted(model, "labels_")
    model._validate_params()  # they may have been set since
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
        As it was fitted: it predicts, transforms and explains the same. Of its parameters
        ``checkpoint`` is None, and so is a ``random_state`` that was no number.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is damaged, or no model; it names the file and what is wrong.

    See Also
    --------
    write_model : Write such a file.

    Notes
    -----
    Nothing is unpickled: a file cannot run code.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from manyview import MMC, read_model, write_model
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(n_samples=150, n_clusters=3, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "news.model"
    ...     write_model(path, MMC(n_clusters=3, random_state=0).fit(views))
    ...     model = read_model(path)
    >>> model.n_clusters, model.n_features_in_, model.predict(views.take([0, 1, 2])).shape
    (3, [20, 20], (3,))
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no file {path}")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected the file of a model")
    try:
        header, arrays = _FORM.read(path)
        try:
            model = _model(header, arrays)
            _check_whole(model, arrays)
        except Exception as error:
            raise ValueError(f"its parts are not those of a model ({error})") from error
    except ValueError as error:
        raise ValueError(f"model {str(path)!r} cannot be used: {error}") from error
    return model


def _header(model: MMC) -> dict[str, Any]:
    parameters = model.get_params(deep=False)
    return {
        "manyview": __version__,
        # a source of random numbers is not kept
        "parameters": {
            name: as_json(value) for name, value in parameters.items() if name not in _ELSEWHERE
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
    if not isinstance(model.init, str):
        # of objects, those that they are: numbers or strings
        arrays["init"] = np.asarray(np.asarray(to_numpy(model.init)).tolist())
    if isinstance(predictor.readout, CentreReadout):
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
    model.n_views_ = len(views)
    model.n_features_in_ = [len(factor) - 1 for factor in model.view_factors_]
    model.view_names_ = header["view_names"]
    model.feature_names_in_ = [arrays.get(f"feature_names{v}") for v in views]
    centred = "centres" in arrays
    model._predictor = Predictor(
        factors=Factors(
            tuple(arrays[f"view_predictor{v}"] for v in views), arrays["cluster_predictor"]
        ),
        readout=(
            CentreReadout(arrays["to_indicator"], arrays["centres"])
            if centred
            else LargestReadout()
        ),
        mean_rows=[arrays[f"mean_row{v}"] for v in views],
        normalize=header["normalized_by"],
        scalings=[
            Scaling(width, arrays.get(f"centre{v}"), arrays.get(f"width{v}"))
            for v, width in enumerate(model.n_features_in_)
        ],
        is_zero=header["is_zero"],
    )
    return model


def _check_whole(model: MMC, arrays: Arrays) -> None:
    """Raise unless what belongs together has the types and shapes for it."""
    names = model.view_names_
    strings = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not strings or not 0 < len(names) == len(set(names)):
        raise ValueError(f"its views are named {names!r}")
    if model._predictor.normalize not in ("rows", "columns", None):
        raise ValueError(f"its views are scaled by {model._predictor.normalize!r}")
    if not isinstance(model.gamma_, float):
        raise ValueError(f"its gamma is {model.gamma_!r}")
    for name, shape in _shapes(model).items():
        array = arrays.get(name)
        if array is None:
            continue  # one of those that not every model has
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}; expected {shape}")
        kind = _KINDS.get(name.rstrip("0123456789"), "f")
        if array.dtype.kind != kind or (kind == "f" and not np.isfinite(array).all()):
            raise ValueError(f"{name} holds {array.dtype}, or what is not finite")
    n_clusters = len(model.cluster_factors_)
    if not 0 <= model.labels_.min(initial=0) <= model.labels_.max(initial=0) < n_clusters:
        raise ValueError(f"labels holds others than 0 to {n_clusters - 1}")


def _shapes(model: MMC) -> dict[str, tuple[int, ...]]:
    """Return the shapes that the arrays of a model should have, by their names in the file."""
    # not as the parameters say, which may have been set after the fit
    n_clusters, rank = model.cluster_factors_.shape
    n_samples = model.labels_.size
    shapes: dict[str, tuple[int, ...]] = {
        "labels": (n_samples,),
        "indicator": (n_samples, n_clusters),
        "objective": (model.n_iter_,),
        "cluster_factor": (n_clusters, rank),
        "cluster_predictor": (n_clusters, rank),
        "to_indicator": (n_clusters, n_clusters),
        "centres": (n_clusters, n_clusters),
    }
    for v, width in enumerate(model.n_features_in_):
        for name in ("view_factor", "view_predictor"):
            shapes[f"{name}{v}"] = (width + 1, rank)
        shapes[f"mean_row{v}"] = (width + 1,)
        for name in ("centre", "width", "feature_names"):
            shapes[f"{name}{v}"] = (width,)
    return shapes
