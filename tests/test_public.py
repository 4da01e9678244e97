"""The public contract: names that stay."""

import importlib

import pytest

CONTRACT = {
    "manyview": [
        *("MMC", "SEC", "CoRegSC", "AMGL", "RMKMC", "MultiNMF", "KCTD", "SCMV3DT"),
        "MultiViewSpectral",
        *("choose_n_clusters", "StableClusters"),
        *("Views", "as_views", "read_model", "write_model", "scverse", "__version__"),
    ],
    "manyview.scverse": ["mmc"],
    "manyview.graph": ["MultiViewSpectral"],
    "manyview.metrics": ["clustering_accuracy", "normalized_mutual_info"],
    "manyview.datasets": [
        *("load_digits_views", "make_views", "read_views", "write_views"),
        *("load_3sources", "load_fox", "load_cnn"),
    ],
    "manyview.experiment": ["compare", "summarise", "METHODS", "ResultsFile", "read_runs"],
    "manyview.plotting": ["plot_objective", "plot_comparison", "plot_embedding"],
    "manyview.report": ["write_report"],
    "manyview.exceptions": ["InterruptWarning", "NotEnoughMemoryError", "ViewWarning"],
}


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in CONTRACT.items() for name in names]
)
def test_is_there_and_exported(module, name):
    loaded = importlib.import_module(module)
    assert hasattr(loaded, name)
    assert name in loaded.__all__


@pytest.mark.parametrize("module", CONTRACT)
def test_everything_exported_is_documented(module):
    loaded = importlib.import_module(module)
    for name in loaded.__all__:
        assert name.startswith("__") or getattr(loaded, name).__doc__
