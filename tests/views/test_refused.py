import numpy as np
import pytest

from manyview import as_views


@pytest.mark.parametrize(
    ("package", "kind", "message"),
    [
        ("polars.lazyframe.frame", "LazyFrame", r"hand over its collect\(\)"),
        ("pyarrow.lib", "Table", r"hand over its to_pandas\(\)"),
        ("anndata._core.sparse_dataset", "CSRDataset", r"hand over its to_memory\(\)"),
        ("zarr.core.array", "Array", r"of zarr on disk, .* dask\.array\.from_zarr"),
        ("h5py._hl.dataset", "Dataset", r"of h5py on disk, .* dask\.array\.from_array"),
    ],
)
def test_what_holds_a_view_is_told_from_what_is_one(package, kind, message):
    item = type(kind, (), {"__module__": package, "shape": (3, 2)})()
    with pytest.raises(TypeError, match=f"view 'view1' is .*{message}"):
        as_views([np.eye(3), item])


def test_of_dask():
    dask, frames = pytest.importorskip("dask"), pytest.importorskip("dask.dataframe")
    import pandas as pd

    with pytest.raises(TypeError, match="from_delayed"):
        as_views([dask.delayed(np.eye)(3)])
    with pytest.raises(TypeError, match=r"to_dask_array\(lengths=True\)"):
        as_views([frames.from_pandas(pd.DataFrame(np.eye(3)), npartitions=1)])
