"""Checkpoints of a running fit.

Where a fit stands after a whole sweep, and of which data and parameters it is.

What the blocks hold follows from the factors and the labels (or the orthogonal indicator), so
that these are kept and the projections are not.

Checkpoints as files: a NumPy ``.npz`` archive without pickles, its header as JSON.

A file is written beside the old one and takes its place once it is whole and on the disk, so
that there is a good one at every moment; the one before stays as ``<path>.previous``.
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
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview._typing import Matrix
from manyview.engine import Engine, RowView
from manyview.engine.arrays import to_numpy
from manyview.exceptions import warn_user
from manyview.mmc.indicator import OrthogonalIndicator
from manyview.mmc.objective import Factors, project_all
from manyview.mmc.solver import Fitted, Problem
from manyview.storage import Form, as_json, file_place, whole_file
from manyview.views import Views

__all__ = [
    "Checkpoint",
    "CheckpointFile",
    "Identity",
    "captured",
    "deciding",
    "identity_of",
    "opened",
    "previous_of",
    "resumed",
    "writable",
]


# max_iter has none on what has been done
_WITHOUT_EFFECT = {"n_init", "max_iter", "n_jobs", "verbose", "checkpoint", "checkpoint_every"}
_ROWS_IN_IDENTITY = 100  # that stand for all in the identity of the data


@dataclass(frozen=True)
class Identity:
    """Which fit it is: what decides the result, and nothing that does not.

    Attributes
    ----------
    parameters : dict
        By name, in values that JSON has.
    n_samples : int
    n_features : list of int
    rows : list of str
        Of each view, the digest of some of its rows.
    present : str
        The digest of which sample has which view.
    columns : list of ndarray of shape (2, n_features + 1)
        Mean and mean square of every column of each scaled view, in which all rows have a part.
    """

    parameters: dict[str, Any]
    n_samples: int
    n_features: list[int]
    rows: list[str]
    present: str
    columns: list[Matrix]

    def differences(self, here: Identity, names: tuple[str, ...]) -> list[str]:
        """Return in words how another identity, the one at hand, differs from this one.

        Sums are compared but for what rounding makes of them: another engine adds in another
        order.
        """
        keys = sorted(self.parameters.keys() | here.parameters.keys())
        pairs = [(key, self.parameters.get(key), here.parameters.get(key)) for key in keys]
        found = [
            f"{key}={there!r} there, {key}={ours!r} here"
            for key, there, ours in pairs
            if there != ours
        ]
        if self.n_samples != here.n_samples:
            found.append(f"{self.n_samples} samples there, {here.n_samples} here")
        if len(self.n_features) != len(here.n_features):
            found.append(f"{len(self.n_features)} views there, {len(here.n_features)} here")
        if found:
            return found
        for name, there, ours in zip(names, self.n_features, here.n_features, strict=True):
            if there != ours:
                found.append(f"view {name!r} has {there} features there, {ours} here")
        if self.present != here.present:
            found.append("other samples lack a view")
        if found:
            return found
        tolerance = 1e-4 if self.parameters.get("precision") == "float32" else 1e-9
        for v, name in enumerate(names):
            if self.rows[v] != here.rows[v] or not _close(
                self.columns[v], here.columns[v], tolerance
            ):
                found.append(f"view {name!r} holds other numbers")
        return found


@dataclass(frozen=True)
class Checkpoint:
    """A fit after a whole sweep.

    Attributes
    ----------
    identity : Identity
    gamma : float
        Weight of the penalty.
    factors : Factors
        In NumPy.
    active : list of ndarray of int, or None
        Features of each view that still take part in the work; None for all.
    labels : ndarray of int32 of shape (n_samples,)
    indicator : ndarray of shape (n_samples, n_clusters), or None
        None where it follows from the labels.
    objective : list of float
        After every sweep.
    settled : int
        Sweeps in a row that left the indicator as it was.
    trust : float
        How far the labels of the start are held.
    converged : bool
        Whether there is nothing left to do.
    generator : dict
        State of the source of random numbers.
    """

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


def deciding(parameters: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Return those of the estimator's parameters that decide what comes of a fit.

    Their values are such as JSON has; an array, or a generator, is told by its content. With
    ``random_state=None`` a fit that goes on has the random numbers of the one that began.

    Examples
    --------
    >>> deciding({"gamma": 0.1, "random_state": None, "max_iter": 9}, np.random.default_rng(0))
    {'gamma': 0.1, 'random_state': None}
    """
    values = {name: value for name, value in parameters.items() if name not in _WITHOUT_EFFECT}
    if not isinstance(values.get("init", ""), str):
        values["init"] = f"array {_digest(to_numpy(values['init']))}"
    if isinstance(values["random_state"], np.random.RandomState):
        values["random_state"] = f"RandomState {rng.bit_generator.state['state']['state']:x}"
    elif not isinstance(values["random_state"], Integral):
        values["random_state"] = None
    return {name: as_json(value) for name, value in values.items()}


def identity_of(engine: Engine, views: Views, parameters: Mapping[str, Any]) -> Identity:
    """Return the identity of a fit.

    It takes some rows and the moments of the columns, which a fit needs anyway, and so no pass
    of its own over the data.
    """
    n = engine.n_samples
    samples = np.unique(np.linspace(0, n - 1, _ROWS_IN_IDENTITY).astype(np.intp))
    return Identity(
        {**parameters, "precision": engine.dtype.name},
        n,
        views.n_features,
        [_rows_digest(view) for view in engine.take(samples)],
        "" if views.present is None else _digest(views.present),
        [np.stack([np.asarray(part, np.float64) for part in pair]) for pair in engine.moments],
    )


def captured(
    engine: Engine,
    problem: Problem,
    fitted: Fitted,
    identity: Identity,
    rng: np.random.Generator,
) -> Checkpoint:
    """Return where a fit stands; the labels of all samples come into this process."""
    everyone = np.arange(engine.n_samples)
    orthogonal = isinstance(problem.indicator, OrthogonalIndicator)
    return Checkpoint(
        identity=identity,
        gamma=problem.gamma,
        factors=Factors(tuple(map(to_numpy, fitted.factors.views)), fitted.factors.clusters),
        active=[scaling.active for scaling in engine.scalings],
        labels=engine.take_state("labels", everyone).astype(np.int32),
        indicator=engine.take_state("indicator", everyone) if orthogonal else None,
        objective=list(fitted.objective),
        settled=fitted.settled,
        trust=fitted.trust,
        converged=fitted.converged,
        generator=dict(rng.bit_generator.state),
    )


def resumed(
    engine: Engine, problem: Problem, checkpoint: Checkpoint, rng: np.random.Generator
) -> Fitted:
    """Bring the blocks and the generator to where a checkpoint was, and return the fit there."""
    for v, active in enumerate(checkpoint.active):
        engine.restrict(v, active)
    engine.scatter("labels", checkpoint.labels.astype(np.intp))
    problem.indicator.start(engine, len(checkpoint.factors.clusters), checkpoint.indicator)
    views = tuple(engine.asarray(factor) for factor in checkpoint.factors.views)
    rng.bit_generator.state = checkpoint.generator
    return Fitted(
        Factors(views, checkpoint.factors.clusters),
        project_all(engine, views),
        list(checkpoint.objective),
        settled=checkpoint.settled,
        trust=checkpoint.trust,
        converged=checkpoint.converged,
    )


def _digest(array: npt.NDArray[Any]) -> str:
    """Return a short name for the content of an array."""
    if array.dtype.kind == "O":  # labels of any kind, given as a start
        content = json.dumps([str(item) for item in array.ravel()]).encode()
    else:
        content = np.ascontiguousarray(array).tobytes()
    head = f"{array.dtype.str}{array.shape}".encode()
    return hashlib.sha256(head + content).hexdigest()[:16]


def _rows_digest(view: RowView) -> str:
    """Return the digest of rows: the same for sparse and dense, of any type, in any place.

    What a row holds where its sample lacks the view has no part in it.
    """
    found = hashlib.sha256()
    x: Any = view.x if sp.issparse(view.x) else to_numpy(view.x)
    lacking = None if view.lacking is None else to_numpy(view.lacking)
    for n in range(x.shape[0]):
        row = x[[n]].toarray()[0] if sp.issparse(x) else x[n]
        there = np.flatnonzero(row if lacking is None else row * ~lacking[n])
        found.update(there.astype("<i8").tobytes())
        found.update(row[there].astype("<f8").tobytes())
        found.update(b".")
    return found.hexdigest()[:16]


def _close(there: Matrix, here: Matrix, tolerance: float) -> bool:
    """Whether means and mean squares of columns agree, beside the size of each column."""
    size = np.sqrt(np.maximum(there[1], here[1]))
    return bool(
        (np.abs(there[0] - here[0]) <= tolerance * size).all()
        and (np.abs(there[1] - here[1]) <= tolerance * size**2).all()
    )


_FORM = Form("manyview.MMC checkpoint", version=3, what="checkpoint")


def writable(path: Path) -> Path:
    """Return the file that checkpoints replace: `path`, or what it links to, so that links stay.

    Raises
    ------
    OSError
        If nothing can be written there.
    """
    try:
        path = file_place(path)
        # under a name of its own: another fit may be at work on the file
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=_partial(path).name):
            pass
    except OSError as error:
        raise OSError(f"checkpoint {str(path)!r} cannot be written: {error}") from error
    return path


def opened(
    path: Path,
    engine: Engine,
    views: Views,
    parameters: Mapping[str, Any],
    rng: np.random.Generator,
) -> tuple[CheckpointFile, Checkpoint | None]:
    """Return the file of a fit, and where the fit stands in it; None where it has yet to begin.

    Parameters
    ----------
    path : Path
        Where the file is or will be; see :func:`writable`.
    engine, views
        The samples.
    parameters : mapping
        The estimator's, with the rank that is used.
    rng : numpy.random.Generator
        As the fit begins with it.

    Raises
    ------
    ValueError
        If there is a file that cannot be read, or is of another fit.
    """
    identity = identity_of(engine, views, deciding(parameters, rng))
    file = CheckpointFile(path, identity, parameters["checkpoint_every"])
    return file, file.read(views.names, parameters["max_iter"])


class CheckpointFile:
    """The file of one fit.

    Parameters
    ----------
    path : Path
        Where it is; see :func:`writable`.
    identity : Identity
        Which fit it is.
    every : int
        Sweeps from one checkpoint to the next.
    """

    def __init__(self, path: Path, identity: Identity, every: int) -> None:
        self._path = path
        self._identity = identity
        self._every = every

    def read(self, names: tuple[str, ...], max_iter: int) -> Checkpoint | None:
        """Return where the fit at hand stands in the file; None where there is no file.

        Where the file is damaged, the previous one, if it is good, takes its place, with a
        warning.

        Raises
        ------
        ValueError
            If no file can be read, or if it is of other data or parameters.
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
                    f"checkpoint {str(path)!r} cannot be used: {error}; name another file, or "
                    "delete this one to begin anew"
                ) from error
        differences = found.identity.differences(self._identity, names)
        if len(found.objective) > max_iter:
            differences.append(f"{len(found.objective)} sweeps there, max_iter={max_iter} here")
        if differences:
            raise ValueError(
                f"checkpoint {str(path)!r} is of another fit: {'; '.join(differences)}. Delete it "
                "to begin anew, or name another file"
            )
        if damage is not None:
            _copy(previous, path)
            warn_user(
                f"checkpoint {str(path)!r} cannot be used: {damage}. The fit goes on from the one "
                f"before it, {str(previous)!r}, after {len(found.objective)} sweeps"
            )
        return found

    def keep(
        self, engine: Engine, problem: Problem, fitted: Fitted, rng: np.random.Generator
    ) -> bool:
        """Write down where a fit stands, if a checkpoint is due, and return whether it was due.

        A file that cannot be written, as on a full disk, is warned of, and the fit goes on. It was
        due all the same: what comes of a fit must not depend on the disk.
        """
        done = len(fitted.objective)
        last = fitted.converged or done == problem.max_iter
        if done % self._every and not last:
            return False
        try:
            _write(self._path, captured(engine, problem, fitted, self._identity, rng))
        except OSError as error:
            warn_user(
                f"checkpoint {str(self._path)!r} could not be written after {done} sweeps: "
                f"{error.strerror or error}. The fit goes on"
            )
        return True


def _write(path: Path, checkpoint: Checkpoint) -> None:
    """Let a checkpoint take the place of the one at `path`, which becomes the previous one."""
    with whole_file(path, sync=True, temporary=_partial(path)) as file:
        np.savez(file, **_members(checkpoint))
        if path.exists():
            _copy(path, previous_of(path))


def previous_of(path: Path) -> Path:
    """Return where the checkpoint before the one at `path` is kept."""
    return path.with_name(f"{path.name}.previous")


def _partial(path: Path) -> Path:
    # one name per checkpoint: what a killed process left is overwritten
    return path.with_name(f".{path.name}.partial")


def _copy(path: Path, target: Path) -> None:
    """Let the content of `path` take the place of `target`; at every moment both are whole."""
    partial = _partial(target)
    partial.unlink(missing_ok=True)
    try:
        try:
            os.link(path, partial)
        except OSError:  # a file system without links
            shutil.copyfile(path, partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)  # two links of one file stay where one should replace


def _members(checkpoint: Checkpoint) -> dict[str, Any]:
    identity = checkpoint.identity
    header = {
        "parameters": identity.parameters,
        "n_samples": identity.n_samples,
        "n_features": identity.n_features,
        "rows": identity.rows,
        "present": identity.present,
        "gamma": checkpoint.gamma,
        "objective": checkpoint.objective,
        "settled": checkpoint.settled,
        "trust": checkpoint.trust,
        "converged": checkpoint.converged,
        "generator": checkpoint.generator,
    }
    arrays: dict[str, Any] = {
        "labels": checkpoint.labels,
        "cluster_factor": checkpoint.factors.clusters,
    }
    if checkpoint.indicator is not None:
        arrays["indicator"] = checkpoint.indicator
    for v, factor in enumerate(checkpoint.factors.views):
        arrays[f"view_factor{v}"] = factor
        arrays[f"columns{v}"] = identity.columns[v]
        active = checkpoint.active[v]
        if active is not None:
            arrays[f"active{v}"] = active
    return _FORM.members(header, arrays)


def _read(path: Path) -> Checkpoint:
    try:
        header, arrays = _FORM.read(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"it cannot be read ({error.strerror})") from error
    try:
        checkpoint = _checkpoint(header, arrays)
        whole = _is_whole(checkpoint)
    except Exception as error:
        raise ValueError(f"its parts are not those of a checkpoint ({error})") from error
    if not whole:
        raise ValueError("its parts do not belong together")
    return checkpoint


def _checkpoint(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Checkpoint:
    n_views = len(header["n_features"])
    identity = Identity(
        header["parameters"],
        header["n_samples"],
        header["n_features"],
        header["rows"],
        header["present"],
        [arrays[f"columns{v}"] for v in range(n_views)],
    )
    factors = tuple(arrays[f"view_factor{v}"] for v in range(n_views))
    return Checkpoint(
        identity=identity,
        gamma=header["gamma"],
        factors=Factors(factors, arrays["cluster_factor"]),
        active=[arrays.get(f"active{v}") for v in range(n_views)],
        labels=arrays["labels"],
        indicator=arrays.get("indicator"),
        objective=header["objective"],
        settled=header["settled"],
        trust=header["trust"],
        converged=header["converged"],
        generator=header["generator"],
    )


def _is_whole(checkpoint: Checkpoint) -> bool:
    """Return whether what belongs together has the shapes for it."""
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
