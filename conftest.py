"""Examples that are left out where the packages they need are not installed."""

from importlib.util import find_spec

collect_ignore = []
if find_spec("anndata") is None or find_spec("mudata") is None:
    collect_ignore += ["src/manyview/scverse.py", "docs/single_cells.md"]
