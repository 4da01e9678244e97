"""Examples that are skipped where the packages they need are not installed."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

_WITH_ANNDATA = [
    Path(__file__).parent / name for name in ("src/manyview/scverse.py", "docs/single_cells.md")
]


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Skip examples of AnnData and MuData objects without anndata and mudata."""
    if find_spec("anndata") is None or find_spec("mudata") is None:
        for item in items:
            if item.path in _WITH_ANNDATA:
                item.add_marker(pytest.mark.skip(reason="anndata or mudata is not installed"))
