"""Checkpoints of a running fit.

A checkpoint holds the factors and the labels (or the orthogonal indicator) after a complete
iteration; the rest follows from these. It also identifies the data and parameters, so that a
checkpoint of another fit is rejected.

The file is an ``.npz`` archive without pickles, with a JSON header. A new one replaces it only once
it is complete and on the disk, so that there is a valid file at every moment. The one before stays
as ``<path>.previous``.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview._typing import Floats
from manyview.engine import Engine, RowView, State
from manyview.engine.arrays import to_numpy
from manyview.exceptions import warn_user
from manyview.mmc.indicator import OrthogonalIndicator
from manyview.mmc.objective import Factors, project_all
from manyview.mmc.solver import Fitted, Problem
from manyview.storage import Form, as_json, file_place, whole_file
from manyview.views import Views

__all__ = ["Checkpoint", "CheckpointFile", "previous_of", "writable"]

_FORM = Form("manyview.MMC checkpoint", version=3, what="checkpoint")
_IDENTITY = ("parameters", "n_samples", "n_features", "rows", "present")
_PROGRESS = ("objective", "settled", "converged")  # of a Fitted


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint file, which is the initialisation of a resumed fit."""

    header: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]
    lower_by: ClassVar[float] = 0.0

    @property
    def gamma(self) -> float:
        """Weight of the penalty."""
        return float(self.header["gamma"])

    @property
    def n_iter(self) -> int:
        """Number of completed iterations."""
        return len(self.header["objective"])

    def begin(
        self, engine: Engine, problem: Problem, rng: np.random.Generator, number: int = 0
    ) -> Fitted:
        """Bring the blocks and the generator to this state and return the fit."""
        n_views = len(engine.scalings)
        for v in range(n_views):
            engine.restrict(v, self.arrays.get(f"active{v}"))
        clusters = self.arrays["cluster_factor"]
        engine.scatter(State.LABELS, self.arrays["labels"].astype(np.intp))
        problem.indicator.start(engine, len(clusters), self.arrays.get("indicator"))
        views = tuple(engine.asarray(self.arrays[f"view_factor{v}"]) for v in range(n_views))
        rng.bit_generator.state = self.header["generator"]
        progress = {name: self.header[name] for name in _PROGRESS}
        return Fitted(Factors(views, clusters), project_all(engine, views), **progress)


class CheckpointFile:
    """The checkpoint file of the fit of an estimator with these parameters to these views.

    `path` comes from :func:`writable`. `parameters` include the rank that is used. `rng` is the
    generator at the beginning of the fit.
    """

    def __init__(
        self,
        path: Path,
        engine: Engine,
        views: Views,
        parameters: Mapping[str, Any],
        rng: np.random.Generator,
    ) -> None:
        self._path = path
        self._names = views.names
        self._every = parameters["checkpoint_every"]
        self._max_iter = parameters["max_iter"]
        self._identity, self._columns = _identity(engine, views, _deciding(parameters, rng))

    def read(self) -> Checkpoint | None:
        """Return the checkpoint in the file, or None if there is no file.

        If the file is damaged, the previous one replaces it, with a warning. A ValueError is raised
        if that one is damaged too, or if the checkpoint is of another fit.
        """
        path, previous, damage = self._path, previous_of(self._path), None
        if not path.exists():
            return None
        try:
            found = _read(path)
        except ValueError as error:
            damage = error
            try:
                found = _read(previous)
            except (OSError, ValueError):
                raise ValueError(
                    f"checkpoint {str(path)!r} cannot be used: {error}; delete it to start again, "
                    "or name another file"
                ) from error
        differences = self._differences(found)
        if found.n_iter > self._max_iter:
            differences.append(
                f"{found.n_iter} iterations in the file, max_iter={self._max_iter} in this fit"
            )
        if differences:
            raise ValueError(
                f"checkpoint {str(path)!r} belongs to another fit: {'; '.join(differences)}. "
                "Delete it to start again, or name another file"
            )
        if damage is not None:
            _copy(previous, path)
            warn_user(
                f"checkpoint {str(path)!r} cannot be used: {damage}. The fit resumes from the "
                f"previous one, {str(previous)!r}, after {found.n_iter} iterations"
            )
        return found

    def keep(
        self, engine: Engine, problem: Problem, rng: np.random.Generator, fitted: Fitted
    ) -> bool:
        """Write a checkpoint if one is due, and return whether one was due.

        If the file cannot be written, for example because the disk is full, there is a warning and
        the fit continues. The checkpoint was due all the same, so that the result of a fit does not
        depend on the disk.
        """
        done = len(fitted.objective)
        last = fitted.converged or done == problem.max_iter
        if done % self._every and not last:
            return False
        try:
            self._write(engine, problem, rng, fitted)
        except OSError as error:
            warn_user(
                f"checkpoint {str(self._path)!r} could not be written after {done} iterations: "
                f"{error.strerror or error}. The fit continues"
            )
        return True

    def _write(
        self, engine: Engine, problem: Problem, rng: np.random.Generator, fitted: Fitted
    ) -> None:
        """Replace the checkpoint, which becomes the previous one."""
        header = self._identity | {name: getattr(fitted, name) for name in _PROGRESS}
        header |= {"gamma": problem.gamma, "generator": dict(rng.bit_generator.state)}
        factors, samples = fitted.factors.on_host(), np.arange(engine.n_samples)
        arrays: dict[str, Any] = {
            "labels": engine.take_state(State.LABELS, samples).astype(np.int32),
            "cluster_factor": factors.clusters,
        }
        if isinstance(problem.indicator, OrthogonalIndicator):  # else it follows from the labels
            arrays["indicator"] = engine.take_state(State.INDICATOR, samples)
        for v, factor in enumerate(factors.views):
            arrays[f"view_factor{v}"] = factor
            arrays[f"columns{v}"] = self._columns[v]
            active = engine.scalings[v].active
            if active is not None:
                arrays[f"active{v}"] = active
        with whole_file(self._path, sync=True, temporary=_partial(self._path)) as file:
            np.savez(file, **_FORM.members(header, arrays))
            if self._path.exists():
                _copy(self._path, previous_of(self._path))

    def _differences(self, found: Checkpoint) -> list[str]:
        """Return messages on how this fit differs from that of a checkpoint.

        Moments are compared up to rounding, as another engine adds in another order.
        """
        there, here = found.header, self._identity
        then, now = there["parameters"], here["parameters"]
        messages = [
            f"{name}={then.get(name)!r} in the file, {name}={now.get(name)!r} in this fit"
            for name in sorted(then.keys() | now.keys())
            if then.get(name) != now.get(name)
        ]
        if there["n_samples"] != here["n_samples"]:
            messages.append(
                f"{there['n_samples']} samples in the file, {here['n_samples']} in this fit"
            )
        widths = there["n_features"], here["n_features"]
        if len(widths[0]) != len(widths[1]):
            messages.append(f"{len(widths[0])} views in the file, {len(widths[1])} in this fit")
        if messages:
            return messages
        messages = [
            f"view {name!r} has {theirs} features in the file, {ours} in this fit"
            for name, theirs, ours in zip(self._names, *widths, strict=True)
            if theirs != ours
        ]
        if there["present"] != here["present"]:
            messages.append("other samples have missing views")
        if messages:
            return messages
        tolerance = 1e-4 if now["precision"] == "float32" else 1e-9
        return [
            f"view {name!r} has other values"
            for v, name in enumerate(self._names)
            if there["rows"][v] != here["rows"][v]
            or not _close(found.arrays[f"columns{v}"], self._columns[v], tolerance)
        ]


# Which fit it is

# max_iter does not affect completed iterations
_WITHOUT_EFFECT = {"n_init", "max_iter", "n_jobs", "verbose", "checkpoint", "checkpoint_every"}


def _identity(
    engine: Engine, views: Views, parameters: dict[str, Any]
) -> tuple[dict[str, Any], list[Floats]]:
    """Return what identifies the parameters and data of a fit: a JSON header and arrays.

    Data are identified by digests of some rows and of the missing views, and by mean and mean
    square of each column, which a fit needs anyway. So this costs no pass over the data.
    """
    n = engine.n_samples
    samples = np.unique(np.linspace(0, n - 1, 100).astype(np.intp))
    header: dict[str, Any] = {
        "parameters": {**parameters, "precision": engine.dtype.name},
        "n_samples": n,
        "n_features": views.n_features,
        "rows": [_rows_digest(view) for view in engine.take(samples)],
        "present": "" if views.present is None else _digest(views.present),
    }
    columns = [np.stack([np.asarray(part, np.float64) for part in pair]) for pair in engine.moments]
    return header, columns


def _deciding(parameters: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Return the parameters that affect the result, with JSON values.

    Arrays and generators are represented by a digest. With ``random_state=None`` a resumed fit
    continues with the random numbers of the one that began.
    """
    values = {name: value for name, value in parameters.items() if name not in _WITHOUT_EFFECT}
    if not isinstance(values["init"], str):
        values["init"] = f"array {_digest(to_numpy(values['init']))}"
    if isinstance(values["random_state"], np.random.RandomState):
        values["random_state"] = f"RandomState {rng.bit_generator.state['state']['state']:x}"
    elif not isinstance(values["random_state"], Integral):
        values["random_state"] = None
    return {name: as_json(value) for name, value in values.items()}


def _digest(array: npt.NDArray[Any]) -> str:
    if array.dtype.kind == "O":  # labels of any type, given as the initialisation
        content = json.dumps([str(item) for item in array.ravel()]).encode()
    else:
        content = np.ascontiguousarray(array).tobytes()
    head = f"{array.dtype.str}{array.shape}".encode()
    return hashlib.sha256(head + content).hexdigest()[:16]


def _rows_digest(view: RowView) -> str:
    """Return the digest of rows, the same for sparse and dense arrays of any type and device.

    Rows of samples whose view is missing count as zeros, unknown entries as NaN.
    """
    found = hashlib.sha256()
    x: Any = view.x if sp.issparse(view.x) else to_numpy(view.x)
    missing = None if view.missing is None else to_numpy(view.missing)
    for n in range(x.shape[0]):
        row = x[[n]].toarray()[0] if sp.issparse(x) else x[n]
        if view.known is not None:
            row = np.where(to_numpy(view.known[n]), row, np.nan)
        entries = np.flatnonzero(row if missing is None else row * ~missing[n])
        found.update(entries.astype("<i8").tobytes())
        found.update(row[entries].astype("<f8").tobytes())
        found.update(b".")
    return found.hexdigest()[:16]


def _close(saved: Floats, here: Floats, tolerance: float) -> bool:
    """Return whether means and mean squares agree, relative to the size of each column."""
    size = np.sqrt(np.maximum(saved[1], here[1]))
    return bool(
        (np.abs(saved[0] - here[0]) <= tolerance * size).all()
        and (np.abs(saved[1] - here[1]) <= tolerance * size**2).all()
    )


# The file


def writable(path: Path) -> Path:
    """Return the file that checkpoints replace, with links resolved; raise OSError if unusable."""
    try:
        path = file_place(path)
        # under a unique name, as another fit may be writing the file
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=_partial(path).name):
            pass
    except OSError as error:
        raise OSError(f"checkpoint {str(path)!r} cannot be written: {error}") from error
    return path


def previous_of(path: Path) -> Path:
    """Return the path of the checkpoint before the one at `path`."""
    return path.with_name(f"{path.name}.previous")


def _partial(path: Path) -> Path:
    # one name per checkpoint, so that the remains of a killed process are overwritten
    return path.with_name(f".{path.name}.partial")


def _copy(path: Path, target: Path) -> None:
    """Replace `target` by a copy of `path`; both are complete at every moment."""
    partial = _partial(target)
    partial.unlink(missing_ok=True)
    try:
        try:
            os.link(path, partial)
        except OSError:  # a file system without links
            shutil.copyfile(path, partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)  # replacing a file by a link to itself leaves both


def _read(path: Path) -> Checkpoint:
    """Return the checkpoint in a file; raise ValueError if it is damaged."""
    try:
        checkpoint = Checkpoint(*_FORM.read(path))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"it cannot be read ({error.strerror})") from error
    try:
        consistent = _is_consistent(checkpoint.header, checkpoint.arrays)
    except Exception as error:
        raise ValueError(f"its content is not that of a checkpoint ({error})") from error
    if not consistent:
        raise ValueError("its arrays do not fit together")
    return checkpoint


def _is_consistent(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> bool:
    """Return whether the parts of a checkpoint are complete, with matching shapes and values."""
    n_clusters, rank = arrays["cluster_factor"].shape
    labels, indicator = arrays["labels"], arrays.get("indicator")
    n_samples = header["n_samples"]
    for v, width in enumerate(header["n_features"]):
        active = arrays.get(f"active{v}")
        if (
            arrays[f"view_factor{v}"].shape != (width + 1, rank)
            or arrays[f"columns{v}"].shape != (2, width + 1)
            or (active is not None and not ((active >= 0) & (active < width)).all())
        ):
            return False
    return (
        {*_IDENTITY, *_PROGRESS, "gamma", "generator"} <= header.keys()
        and labels.shape == (n_samples,)
        and labels.dtype.kind == "i"
        and bool(((labels >= 0) & (labels < n_clusters)).all())
        and (indicator is None or indicator.shape == (n_samples, n_clusters))
        and len(header["objective"]) > 0
    )
