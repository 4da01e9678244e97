from collections.abc import Iterator
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

from manyview.datasets import load_digits_views, write_views

from .command import N_SAMPLES


@pytest.fixture(scope="module", autouse=True)
def one_blas_thread() -> Iterator[None]:
    # on a busy machine several BLAS threads mostly wait for each other
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "some.npz"
    write_views(path, load_digits_views(n_samples=N_SAMPLES))
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "labels.csv"
