import os
from pathlib import Path

import pytest
from hypothesis import settings

# a slow machine is not a failed property
settings.register_profile("manyview", deadline=None, max_examples=50)
settings.load_profile("manyview")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real data sets; tests that use it are marked ``data``."""
    folder = os.environ.get("MANYVIEW_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("MANYVIEW_DATA is not set: the real data sets are not here")
    return Path(folder).resolve()  # links to it are made elsewhere
