"""The command check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich.table import Table

from manyview import MMC, Views
from manyview.cli.console import new_console
from manyview.cli.outputs import data_line, facts, print_parts, read_data, table
from manyview.datasets import Dataset

__all__ = ["check_data"]

_USUAL_CLUSTERS = 10
_ROWS = 4096


def check_data(
    data: str,
    n_clusters: int | None,
    *,
    reading: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> None:
    """Print what a fit would read from a file or data set and how it would scale the views.

    Raise what the fit would raise before its first iteration. `reading` holds options of
    :func:`manyview.datasets.read_views`, `parameters` are those of :class:`manyview.MMC`.
    """
    dataset = read_data(data, **(reading or {}))
    k = n_clusters or max(1, min(_USUAL_CLUSTERS, dataset.views.n_samples // 2))
    problem, scaling = None, [""] * dataset.views.n_views
    try:
        scaling = [str(by).lower() for by in MMC(k, **parameters)._check_data(dataset.views)]
    except ValueError as error:
        problem = error
    rows = [("samples", f"{dataset.views.n_samples} ({_ids(dataset)})")]
    if dataset.y is not None:
        rows.append(("classes", f"{np.unique(dataset.y).size}, for scoring only"))
    if problem is None:
        told = "" if n_clusters else "; -k names another number"
        rows.append(("scaling", f"as a fit of {k} clusters would choose{told}"))
        rows.append(("result", "a fit accepts these data"))
    else:
        rows.append(("result", "a fit would reject these data"))
    parts: list[str | Table] = [data_line(dataset.name, dataset.views)]
    if dataset.notes:
        parts.append("\n".join(dataset.notes))
    print_parts(new_console(), *parts, _views_table(dataset.views, scaling), facts(rows))
    if problem is not None:
        raise problem


def _ids(dataset: Dataset) -> str:
    if dataset.sample_ids is None:
        return "numbered from 0"
    shown = ", ".join(dataset.sample_ids[:3].tolist())
    return f"ids {shown}{', ...' if len(dataset.sample_ids) > 3 else ''}"


def _views_table(views: Views, scaling: list[str]) -> Table:
    rows = []
    for v, (name, array) in enumerate(views.items()):
        here = np.arange(views.n_samples)
        if views.present is not None:
            here = np.flatnonzero(views.present[:, v])
        empty = 0
        if not sp.issparse(array) and array.dtype.kind == "f":
            parts = (array[here[at : at + _ROWS]] for at in range(0, here.size, _ROWS))
            empty = sum(int(np.isnan(part).sum()) for part in parts)
        share = empty / max(1, here.size * array.shape[1])
        missing = views.n_samples - here.size
        rows.append(
            (
                name,
                str(array.shape[1]),
                "sparse" if sp.issparse(array) else "dense",
                f"{missing} ({missing / views.n_samples:.1%})",
                f"{empty} ({share:.1%})",
                scaling[v] or "-",
            )
        )
    heads = ("view", "features", "kind", "missing samples", "empty cells", "scaling")
    return table(heads, rows)
