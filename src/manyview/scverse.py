"""Clustering of AnnData and MuData objects, in the manner of scanpy and muon."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from shutil import copyfileobj
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview._typing import Strings
from manyview.datasets import Dataset
from manyview.datasets.dataset import as_strings, assemble
from manyview.datasets.single_cells import contents, joined, single_addresses, tables_at
from manyview.engine import engine_for
from manyview.engine.arrays import to_numpy
from manyview.exceptions import warn_user
from manyview.graph.settings import ALL_ORDERS, DEFAULTS
from manyview.graph.spectral import AffinityGraphs
from manyview.mmc import MMC
from manyview.storage import file_place, whole_file
from manyview.views import Array, Views
from manyview.views.frames import frame_values, is_frame

__all__ = ["mmc"]

_MOST_COMPARED = 20_000  # cells; the time of their affinities grows with its square
_SUFFIXES = (".h5ad", ".h5mu")

Results = dict[tuple[str, str], Any]
"""Values to add, by the name of a part of the object, such as ``"obs"``, and the key there."""


def mmc(
    data: Any,
    n_clusters: int | str,
    *,
    views: Mapping[str, str] | Sequence[str] | None = None,
    key_added: str = "mmc",
    copy: bool = False,
    random_state: Any = 0,
    **parameters: Any,
) -> Any:
    """Cluster the cells of a MuData or AnnData object by several views with MMC.

    Parameters
    ----------
    data : MuData or AnnData
        The cells. A cell that is not in a modality misses that view.
    n_clusters : int or "auto"
        Number of clusters; ``"auto"`` chooses it by stability.
    views : dict or sequence of str, optional
        Addresses of the views, in a dict by their names. In a MuData object ``"rna"`` is a
        modality: its ``X``, of which the highly variable features are used if ``var`` marks them
        as ``highly_variable``. ``"rna:X"`` is all of it, ``"rna:layers/counts"`` a layer,
        ``"rna:obsm/X_pca"`` a representation, and ``"obsm/X_mofa"`` one of all cells. A column of
        ``var`` in brackets selects features: ``"rna:layers/counts[highly_variable]"``. In an
        AnnData object the addresses are ``"X"``, ``"layers/counts"`` and ``"obsm/X_pca"``, or
        ``"X_pca"`` for short. By default all modalities; for AnnData the views have to be named.
    key_added : str, default="mmc"
        Name of the results.
    copy : bool, default=False
        Whether to return a copy with the results in place of adding them to `data`.
    random_state : int, RandomState instance or None, default=0
        Seed of the fit.
    **parameters
        Other parameters of :class:`manyview.MMC`, such as ``normalize``.

    Returns
    -------
    MuData, AnnData or None
        The copy with ``copy=True``, else None. These are added, with `key_added` as ``mmc``:

        ``obs["mmc"]``
            Cluster of each cell, categorical, ``"0"`` and so on; missing for a cell without any of
            the views.
        ``obs["mmc_confidence"]``
            Membership of each cell in its own cluster.
        ``obsm["mmc_membership"]``
            Membership of each cell in each cluster.
        ``obsp["mmc_affinity"]``
            Sparse affinities of cells over all views. They are left out for more than 20,000
            cells.
        ``uns["mmc"]``
            ``params``; ``n_clusters``; ``views``, a table of the views, with the address, scaling
            and weights of each; ``combinations``, a table of the features and pairs of features
            that characterise each cluster, as :meth:`manyview.MMC.explain` returns; and
            ``affinity``, the key in ``obsp``, or why there is none.

    Raises
    ------
    ValueError, TypeError
        If a modality, layer or representation does not exist: the message lists those that do. If
        the views are invalid.

    See Also
    --------
    manyview.MMC : The estimator.

    Examples
    --------
    >>> from anndata import AnnData
    >>> from manyview import scverse
    >>> from manyview.datasets import make_views
    >>> (rna, protein), y = make_views(150, 3, (40, 12), random_state=0)
    >>> adata = AnnData(rna, obsm={"protein": protein})
    >>> scverse.mmc(adata, 3, views={"rna": "X", "protein": "obsm/protein"})
    >>> adata.obs["mmc"].cat.categories.tolist()
    ['0', '1', '2']
    >>> adata.obsm["mmc_membership"].shape, adata.obsp["mmc_affinity"].shape
    ((150, 3), (150, 150))
    """
    dataset, addresses = _dataset(data, views)
    for note in dataset.notes:
        if "left out" in note:
            warn_user(note)
    model = MMC(n_clusters, random_state=random_state, **parameters)  # type: ignore[arg-type]
    model.fit(dataset.views)
    target = data.copy() if copy else data
    results = results_of(model, dataset, _names(data.obs_names), key_added, addresses)
    for (part, key), value in results.items():
        getattr(target, part)[key] = value
    return target if copy else None


# Views of an object


class _InMemory:
    """An AnnData or MuData object, or a modality."""

    def __init__(self, data: Any, what: str) -> None:
        self.data, self.what = data, what

    def names(self, slot: str) -> list[str]:
        # MuData keeps which cells a modality has in obsm
        modalities = getattr(self.data, "mod", ())
        return [name for name in getattr(self.data, slot, None) or () if name not in modalities]

    def ids(self) -> Strings:
        return _names(self.data.obs_names)

    def variables(self) -> Strings:
        return _names(self.data.var_names)

    def marked(self, column: str) -> npt.NDArray[np.bool_] | None:
        if column not in self.data.var:
            return None
        values = self.data.var[column]
        return np.asarray(values.fillna(False), dtype=bool) if values.dtype.kind == "b" else None

    def matrix(self, slot: str, key: str) -> tuple[Array, Strings | None]:
        if self.data.isbacked:
            raise TypeError(f"{self.what} is on disk; pass its to_memory()")
        item = getattr(self.data, slot)
        item = item[key] if key else item
        if item is None:
            raise ValueError(f"X is None; {contents(self)}")
        if is_frame(item):
            return frame_values(key, item), _names(item.columns)
        if not sp.issparse(item) and not isinstance(item, np.ndarray):
            shown = f"{type(item).__module__}.{type(item).__name__}"
            raise TypeError(f"{self.what}: {slot} {key} is a {shown}; expected an array in memory")
        return item, None


def _names(index: Any) -> Strings:
    return as_strings(np.asarray(index, dtype=object))


def _dataset(
    data: Any, views: Mapping[str, str] | Sequence[str] | None
) -> tuple[Dataset, dict[str, str]]:
    """Return the views of an object and their addresses."""
    modalities: dict[str, _InMemory] = {}
    if isinstance(found := getattr(data, "mod", None), Mapping):
        if getattr(data, "axis", 0) != 0:
            raise ValueError(
                f"the MuData object has axis={data.axis}; expected axis=0, modalities that share "
                "cells"
            )
        modalities = {name: _InMemory(part, f"modality {name!r}") for name, part in found.items()}
    elif not all(hasattr(data, name) for name in ("obsm", "layers", "var_names")):
        raise TypeError(f"received {type(data).__name__}; expected a MuData or AnnData object")
    whole = _InMemory(data, "the MuData object" if modalities else "the AnnData object")
    addresses = _named(views, modalities, whole)
    tables, notes = tables_at(addresses, whole, modalities)
    _, parts = joined(tables, whole.ids(), notes)
    return assemble(**parts), addresses


def _named(
    views: Mapping[str, str] | Sequence[str] | None,
    modalities: Mapping[str, _InMemory],
    whole: _InMemory,
) -> dict[str, str]:
    """Return the addresses of the views by their names."""
    if views is None and modalities:
        return {name: name for name in modalities}
    if not views or isinstance(views, str):
        raise ValueError(
            f"views={views!r}; name the views of {whole.what}, such as "
            f'views={{"rna": "X", "protein": "obsm/protein"}}; {contents(whole)}'
        )
    if isinstance(views, Mapping):
        return single_addresses(views)
    names = [address.rpartition("/")[2] for address in views]
    if len(set(names)) < len(names):
        raise ValueError(f"views={list(views)!r} have equal names; expected a dict of addresses")
    return dict(zip(names, views, strict=True))


# Results


def results_of(
    model: MMC,
    dataset: Dataset,
    obs_names: Strings,
    key: str,
    addresses: Mapping[str, str],
) -> Results:
    """Return what a fit adds to an object of the cells `obs_names`, among which its own are."""
    pd = import_module("pandas")
    k, labels = model.n_clusters_, to_numpy(model.labels_)
    place = {name: row for row, name in enumerate(obs_names.tolist())}
    ids = obs_names if dataset.sample_ids is None else dataset.sample_ids
    rows = np.array([place[name] for name in ids.tolist()], dtype=np.intp)
    codes = np.full(len(obs_names), -1)
    codes[rows] = labels
    categories = [str(cluster) for cluster in range(k)]
    results: Results = {("obs", key): pd.Categorical.from_codes(codes, categories)}
    membership = getattr(model, "membership_", None)  # None after an interrupt
    if membership is not None:
        everyone = np.full((len(obs_names), k), np.nan)
        everyone[rows] = membership
        confidence = np.full(len(obs_names), np.nan)
        confidence[rows] = membership[np.arange(len(rows)), labels]
        results["obs", f"{key}_confidence"] = confidence
        results["obsm", f"{key}_membership"] = everyone
    about = {
        "params": _stored(model.get_params(deep=False)),
        "n_clusters": k,
        "views": _table_of_views(model, addresses),
        "combinations": _combinations(model),
    }
    if len(rows) > _MOST_COMPARED:
        about["affinity"] = f"left out: {len(rows)} cells, more than {_MOST_COMPARED}"
    else:
        about["affinity"] = f"{key}_affinity"
        found = _affinity(model, dataset.views)
        at = sp.csr_matrix((np.ones(len(rows)), (rows, range(len(rows)))), (len(codes), len(rows)))
        results["obsp", f"{key}_affinity"] = sp.csr_matrix(at @ found @ at.T)
    results["uns", key] = about
    return results


def _affinity(model: MMC, views: Views) -> Any:
    """Return the symmetric affinities of all samples, the product of the views and single ones."""
    # the one landmark is for regressions, which are not used
    settings = replace(DEFAULTS, n_compared=views.n_samples, n_landmarks=1)
    engine = engine_for(
        views, normalize=list(model.normalize_.values()), n_threads=model._n_threads
    )
    with engine.running():
        graphs = AffinityGraphs(
            engine,
            model.n_clusters_,
            np.random.default_rng(0),
            order=model.order,
            settings=settings,
        )
        return graphs.affinity(ALL_ORDERS)


def _stored(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as h5ad can store them, without those that are None."""
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        if isinstance(value, bool | int | float | str | np.ndarray):
            found[name] = value
        elif value is not None:  # a scaling by view, a path, a generator
            found[name] = str(value)
    return found


def _table_of_views(model: MMC, addresses: Mapping[str, str]) -> Any:
    """Return a DataFrame of the views."""
    pd = import_module("pandas")
    table = pd.DataFrame(
        {
            "view": model.view_names_,
            "address": [addresses.get(name, name) for name in model.view_names_],
            "n_features": model.n_features_in_,
            "normalize": [str(by or "none") for by in model.normalize_.values()],
        }
    )
    weights = getattr(model, "view_weights_", None)  # None after an interrupt
    if weights is not None:
        table["added"], table["alone"] = weights.added[-1], weights.alone[-1]
    return table.set_index("view")


def _combinations(model: MMC, top: int = 10) -> Any:
    """Return a DataFrame of single features and pairs that characterise the clusters."""
    pd = import_module("pandas")
    orders = range(1, min(2, model.n_views_) + 1)
    table = pd.concat([model.explain(order, top=top).to_frame() for order in orders])
    table = table.sort_values("cluster", kind="stable").reset_index(drop=True)
    table.index = table.index.astype(str)
    for name in table:
        if table[name].dtype.kind not in "biuf":  # text; single features have no second one
            table[name] = table[name].astype(object).where(table[name].notna(), "").astype(str)
    return table


# Files


def check_annotated(path: Path, source: Path) -> None:
    """Raise unless results can be written to an ``.h5ad`` or ``.h5mu`` file.

    `source` is the file of the data. An ``.h5ad`` file can be written of another one only.
    """
    for package in ("pandas", "anndata", "mudata"):
        try:
            import_module(package)
        except ImportError as error:
            raise ImportError(
                f"writing {path.suffix} files needs {package}: pip install 'manyview[scverse]'",
                name=package,
            ) from error
    if path.suffix.lower() == ".h5ad" and source.suffix.lower() != ".h5ad":
        raise ValueError(f"{path}: the data {source} are no .h5ad file; expected .h5mu or .csv")


def is_annotated(path: Path) -> bool:
    """Return whether a path is that of an ``.h5ad`` or ``.h5mu`` file."""
    return path.suffix.lower() in _SUFFIXES


def write_annotated(
    path: Path, source: Path, model: MMC, dataset: Dataset, addresses: Mapping[str, str]
) -> None:
    """Write a copy of the file `source` with the results of a fit.

    Where it is of another format, a MuData file of the views is written.
    """
    temporary = file_place(path).with_name(f".{uuid.uuid4().hex}.tmp")
    with whole_file(path, temporary=temporary) as file:
        if path.suffix.lower() == source.suffix.lower():
            with source.open("rb") as original:
                copyfileobj(original, file)
        file.close()  # others write to it by its name
        if path.suffix.lower() != source.suffix.lower():
            if dataset.sample_ids is None:
                numbers = np.arange(dataset.views.n_samples).astype(np.str_)
                dataset = replace(dataset, sample_ids=numbers)
            _write_views(temporary, dataset)
        _add_results(temporary, model, dataset, addresses)


def _write_views(path: Path, dataset: Dataset) -> None:
    anndata, mudata, pd = map(import_module, ("anndata", "mudata", "pandas"))
    views, modalities = dataset.views, {}
    ids: Any = dataset.sample_ids
    for v, (name, array) in enumerate(views.items()):
        rows = slice(None) if views.present is None else views.present[:, v]
        features: Any = views.feature_names[v]
        if features is None:
            features = [f"{name}{d}" for d in range(array.shape[1])]
        some = sp.csr_matrix(array)[rows] if sp.issparse(array) else array[rows]
        modalities[name] = anndata.AnnData(
            some, obs=pd.DataFrame(index=ids[rows]), var=pd.DataFrame(index=features)
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of equal names of features, and changes to come
        data = mudata.MuData(modalities)
    if dataset.y is not None and dataset.class_names is not None:
        of_ids = pd.Series(dataset.class_names[dataset.y], index=ids)
        data.obs["class"] = pd.Categorical(of_ids.loc[data.obs_names])
    mudata.write_h5mu(str(path), data)


def _add_results(path: Path, model: MMC, dataset: Dataset, addresses: Mapping[str, str]) -> None:
    """Add the results of a fit to an AnnData or MuData file."""
    h5py, io = import_module("h5py"), import_module("anndata.io")
    with h5py.File(path, "r+") as file:
        obs = file["obs"]
        index = obs.attrs["_index"]
        names = _names(io.read_elem(obs[index]))
        for (part, key), value in results_of(model, dataset, names, "mmc", addresses).items():
            if part not in file:
                io.write_elem(file, part, {})
            if key in file[part]:
                del file[part][key]
            io.write_elem(file[part], key, value)
            if part == "obs":
                order = [name for name in obs.attrs["column-order"].tolist() if name != key]
                obs.attrs["column-order"] = np.array([*order, key], dtype=h5py.string_dtype())
