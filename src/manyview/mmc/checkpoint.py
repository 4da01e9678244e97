"""Checkpoints of a running fit.

A checkpoint holds the factors and the labels (or the orthogonal indicator) after a complete
iteration; the rest follows from these. It also holds the identity of the fit, so that a fit of
other data or parameters is rejected.

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

from manyview._typing import Matrix
from manyview.engine import Engine, RowView
from manyview.engine.arrays import to_numpy
from manyview.exceptions import warn_user
from manyview.mmc.indicator import OrthogonalIndicator
from manyview.mmc.objective import INDICATOR, LABELS, Factors, project_all
from manyview.mmc.solver import Fitted, Problem
from manyview.storage import Form, as_json, file_place, whole_file
from manyview.views import Views

__all__ = ["Checkpoint", "CheckpointFile", "previous_of", "writable"]

_FORM = Form("manyview.MMC checkpoint", version=3, what="checkpoint")


# Which fit it is


@dataclass(frozen=True)
class Identity:
    """What determines the result of a fit: the parameters and the data.

    Attributes
    ----------
    parameters : dict
        Names and JSON values.
    n_samples : int
    n_features : list of int
    rows : list of str
        For each view, the digest of some of its rows.
    present : str
        The digest of the mask of missing views.
    columns : list of ndarray of shape (2, n_features + 1)
        For each view, mean and mean square of its scaled columns, to which all rows contribute.
    """

    parameters: dict[str, Any]
    n_samples: int
    n_features: list[int]
    rows: list[str]
    present: str
    columns: list[Matrix]

    @classmethod
    def of(cls, engine: Engine, views: Views, parameters: Mapping[str, Any]) -> Identity:
        """Return the identity of a fit.

        It needs some rows and the moments of the columns, which a fit needs anyway, so it costs no
        pass over the data.
        """
        n = engine.n_samples
        samples = np.unique(np.linspace(0, n - 1, 100).astype(np.intp))
        return cls(
            {**parameters, "precision": engine.dtype.name},
            n,
            views.n_features,
            [_rows_digest(view) for view in engine.take(samples)],
            "" if views.present is None else _digest(views.present),
            [np.stack([np.asarray(part, np.float64) for part in pair]) for pair in engine.moments],
        )

    def differences(self, here: Identity, names: tuple[str, ...]) -> list[str]:
        """Return messages on how the fit at hand differs from that of the checkpoint.

        Moments are compared up to rounding, as another engine adds in another order.
        """
        keys = sorted(self.parameters.keys() | here.parameters.keys())
        pairs = [(key, self.parameters.get(key), here.parameters.get(key)) for key in keys]
        found = [
            f"{key}={saved!r} in the file, {key}={ours!r} now"
            for key, saved, ours in pairs
            if saved != ours
        ]
        if self.n_samples != here.n_samples:
            found.append(f"{self.n_samples} samples in the file, {here.n_samples} now")
        if len(self.n_features) != len(here.n_features):
            found.append(f"{len(self.n_features)} views in the file, {len(here.n_features)} now")
        if found:
            return found
        for name, saved, ours in zip(names, self.n_features, here.n_features, strict=True):
            if saved != ours:
                found.append(f"view {name!r} has {saved} features in the file, {ours} now")
        if self.present != here.present:
            found.append("views are missing for other samples")
        if found:
            return found
        tolerance = 1e-4 if self.parameters.get("precision") == "float32" else 1e-9
        return [
            f"view {name!r} has other values"
            for v, name in enumerate(names)
            if self.rows[v] != here.rows[v]
            or not _close(self.columns[v], here.columns[v], tolerance)
        ]


# max_iter does not affect the iterations that have been made
_WITHOUT_EFFECT = {"n_init", "max_iter", "n_jobs", "verbose", "checkpoint", "checkpoint_every"}


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

    Rows of samples whose view is missing count as zeros.
    """
    found = hashlib.sha256()
    x: Any = view.x if sp.issparse(view.x) else to_numpy(view.x)
    missing = None if view.lacking is None else to_numpy(view.lacking)
    for n in range(x.shape[0]):
        row = x[[n]].toarray()[0] if sp.issparse(x) else x[n]
        entries = np.flatnonzero(row if missing is None else row * ~missing[n])
        found.update(entries.astype("<i8").tobytes())
        found.update(row[entries].astype("<f8").tobytes())
        found.update(b".")
    return found.hexdigest()[:16]


def _close(saved: Matrix, here: Matrix, tolerance: float) -> bool:
    """Return whether means and mean squares agree, relative to the size of each column."""
    size = np.sqrt(np.maximum(saved[1], here[1]))
    return bool(
        (np.abs(saved[0] - here[0]) <= tolerance * size).all()
        and (np.abs(saved[1] - here[1]) <= tolerance * size**2).all()
    )


# What is kept of it


@dataclass(frozen=True)
class Checkpoint:
    """A fit after a complete iteration. It is the initialisation of a resumed fit.

    Attributes
    ----------
    identity : Identity
    gamma : float
    factors : Factors
        NumPy arrays.
    active : list of ndarray of int, or None
        For each view, the features that the blocks still hold; None for all.
    labels : ndarray of int32 of shape (n_samples,)
    indicator : ndarray of shape (n_samples, n_clusters), or None
        None if it follows from the labels.
    objective, settled, trust, converged
        As in :class:`~manyview.mmc.solver.Fitted`.
    generator : dict
        State of the random number generator.
    """

    lower_by: ClassVar[float] = 0.0

    identity: Identity
    gamma: float
    factors: Factors
    active: list[npt.NDArray[np.intp] | None]
    labels: npt.NDArray[np.int32]
    indicator: Matrix | None
    objective: list[float]
    settled: int
    trust: float
    converged: bool
    generator: dict[str, Any]

    @classmethod
    def of(
        cls,
        identity: Identity,
        engine: Engine,
        problem: Problem,
        fitted: Fitted,
        rng: np.random.Generator,
    ) -> Checkpoint:
        """Return the checkpoint of a running fit; the labels are copied to this process."""
        samples = np.arange(engine.n_samples)
        orthogonal = isinstance(problem.indicator, OrthogonalIndicator)
        return cls(
            identity=identity,
            gamma=problem.gamma,
            factors=fitted.factors.on_host(),
            active=[scaling.active for scaling in engine.scalings],
            labels=engine.take_state(LABELS, samples).astype(np.int32),
            indicator=engine.take_state(INDICATOR, samples) if orthogonal else None,
            objective=list(fitted.objective),
            settled=fitted.settled,
            trust=fitted.trust,
            converged=fitted.converged,
            generator=dict(rng.bit_generator.state),
        )

    def begin(
        self, engine: Engine, problem: Problem, rng: np.random.Generator, number: int = 0
    ) -> Fitted:
        """Bring the blocks and the generator to this state and return the fit."""
        for v, active in enumerate(self.active):
            engine.restrict(v, active)
        engine.scatter(LABELS, self.labels.astype(np.intp))
        problem.indicator.start(engine, len(self.factors.clusters), self.indicator)
        views = tuple(engine.asarray(factor) for factor in self.factors.views)
        rng.bit_generator.state = self.generator
        return Fitted(
            Factors(views, self.factors.clusters),
            project_all(engine, views),
            list(self.objective),
            settled=self.settled,
            trust=self.trust,
            converged=self.converged,
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


class CheckpointFile:
    """The checkpoint file of one fit.

    Parameters
    ----------
    path : Path
        Where it is; see :func:`writable`.
    engine, views : Engine, Views
        The data.
    parameters : mapping
        Those of the estimator, with the rank that is used.
    rng : numpy.random.Generator
        The generator at the beginning of the fit.
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
        self._identity = Identity.of(engine, views, _deciding(parameters, rng))

    def read(self) -> Checkpoint | None:
        """Return the checkpoint in the file, or None if there is no file.

        If the file is damaged, the previous one replaces it, with a warning. A ValueError is raised
        if that one is damaged too, or if the checkpoint is that of another fit.
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
        differences = found.identity.differences(self._identity, self._names)
        done = len(found.objective)
        if done > self._max_iter:
            differences.append(f"{done} iterations in the file, max_iter={self._max_iter} now")
        if differences:
            raise ValueError(
                f"checkpoint {str(path)!r} is of another fit: {'; '.join(differences)}. Delete it "
                "to start again, or name another file"
            )
        if damage is not None:
            _copy(previous, path)
            warn_user(
                f"checkpoint {str(path)!r} cannot be used: {damage}. The fit resumes from the "
                f"previous one, {str(previous)!r}, after {done} iterations"
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
            _write(self._path, Checkpoint.of(self._identity, engine, problem, fitted, rng))
        except OSError as error:
            warn_user(
                f"checkpoint {str(self._path)!r} could not be written after {done} iterations: "
                f"{error.strerror or error}. The fit continues"
            )
        return True


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


_HEADER = ("gamma", "objective", "settled", "trust", "converged", "generator")
_IDENTITY_HEADER = ("parameters", "n_samples", "n_features", "rows", "present")


def _write(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint at `path`, which becomes the previous one."""
    identity = checkpoint.identity
    header = {name: getattr(identity, name) for name in _IDENTITY_HEADER}
    header |= {name: getattr(checkpoint, name) for name in _HEADER}
    arrays: dict[str, Any] = {
        "labels": checkpoint.labels,
        "cluster_factor": checkpoint.factors.clusters,
        "indicator": checkpoint.indicator,
    }
    for v, factor in enumerate(checkpoint.factors.views):
        arrays[f"view_factor{v}"] = factor
        arrays[f"columns{v}"] = identity.columns[v]
        arrays[f"active{v}"] = checkpoint.active[v]
    arrays = {name: array for name, array in arrays.items() if array is not None}
    with whole_file(path, sync=True, temporary=_partial(path)) as file:
        np.savez(file, **_FORM.members(header, arrays))
        if path.exists():
            _copy(path, previous_of(path))


def _read(path: Path) -> Checkpoint:
    """Return the checkpoint in a file; raise ValueError if it is damaged."""
    try:
        header, arrays = _FORM.read(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"it cannot be read ({error.strerror})") from error
    try:
        views = range(len(header["n_features"]))
        checkpoint = Checkpoint(
            identity=Identity(
                **{name: header[name] for name in _IDENTITY_HEADER},
                columns=[arrays[f"columns{v}"] for v in views],
            ),
            factors=Factors(
                tuple(arrays[f"view_factor{v}"] for v in views), arrays["cluster_factor"]
            ),
            active=[arrays.get(f"active{v}") for v in views],
            labels=arrays["labels"],
            indicator=arrays.get("indicator"),
            **{name: header[name] for name in _HEADER},
        )
        consistent = _is_consistent(checkpoint)
    except Exception as error:
        raise ValueError(f"its parts are not those of a checkpoint ({error})") from error
    if not consistent:
        raise ValueError("its parts do not belong together")
    return checkpoint


def _is_consistent(checkpoint: Checkpoint) -> bool:
    """Return whether the parts of a checkpoint have matching shapes and valid values."""
    identity, factors = checkpoint.identity, checkpoint.factors
    n_clusters, rank = factors.clusters.shape
    expected = [(width + 1, rank) for width in identity.n_features]
    labels, indicator = checkpoint.labels, checkpoint.indicator
    return (
        [factor.shape for factor in factors.views] == expected
        and labels.shape == (identity.n_samples,)
        and labels.dtype.kind == "i"
        and bool(((labels >= 0) & (labels < n_clusters)).all())
        and (indicator is None or indicator.shape == (identity.n_samples, n_clusters))
        and all(
            active is None or bool(((active >= 0) & (active < width)).all())
            for active, width in zip(checkpoint.active, identity.n_features, strict=True)
        )
        and len(checkpoint.objective) > 0
        and 0.0 <= checkpoint.trust <= 1.0
    )
