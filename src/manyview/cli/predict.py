"""``manyview predict``: the clusters of other samples."""

from __future__ import annotations

import warnings
from pathlib import Path

from manyview import read_model
from manyview.cli.as_fitted import as_fitted
from manyview.cli.named_data import find_dataset, sources_of
from manyview.cli.outputs import STDOUT, check_targets, unoccupied, write_labels
from manyview.cli.tables import (
    about_files,
    about_labels,
    described,
    facts,
    new_console,
    print_parts,
)
from manyview.exceptions import ViewWarning

__all__ = ["predict_file"]


def predict_file(
    saved: Path,
    data: str,
    out: Path,
    *,
    force: bool,
    quiet: bool,
    classes: str | None = None,
    id_column: str | None = None,
) -> None:
    """Write the clusters that a model finds the samples of a file or set in.

    Parameters
    ----------
    saved : Path
        The file of the model.
    data, out, force, quiet, classes, id_column
        As in :func:`manyview.cli.fit.fit_file`.
    """
    sources = [("data", path) for path in sources_of(data)]
    if saved.is_file():
        sources.append(("model", saved))
    check_targets(sources, {"--out": out}, written=("--out",), force=force)
    model = read_model(saved)
    with warnings.catch_warnings():
        # samples to come may be alike in a view; of what else there is the fit has told
        warnings.simplefilter("ignore", ViewWarning)
        dataset = find_dataset(data, classes=classes, id_column=id_column)
    if not quiet:
        new_console(stderr=True).print(described(dataset.name, dataset.views))
    labels = model.predict(as_fitted(dataset, model))
    out = unoccupied(out, force=force)
    write_labels(out, labels, dataset.sample_ids)
    if not quiet:
        rows = [*about_labels(labels, model.n_clusters, dataset.y), *about_files({"labels": out})]
        print_parts(new_console(stderr=out == STDOUT), facts(rows))
