"""Checkpoints as files: a NumPy ``.npz`` archive without pickles, its header as JSON.

A file is written beside the old one and takes its place once it is whole and on the disk, so
that there is a good one at every moment; the one before stays as ``<path>.previous``.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview.atomic import file_place, whole_file
from manyview.engine import Engine
from manyview.mmc.archive import Form
from manyview.mmc.checkpoint import Checkpoint, Identity, captured, deciding, identity_of
from manyview.mmc.fit import Fitted
from manyview.mmc.model import Factors
from manyview.mmc.problem import Problem
from manyview.views import Views
from manyview.warn import warn_user

__all__ = ["CheckpointFile", "opened", "previous_of", "writable"]

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
