import os
import subprocess
import sys

import pytest

from manyview.engine import dask_tasks

# faults of pages by temporaries of 2 MB, after one that has made room for them
PROGRAM = """
import resource
import numpy as np
from manyview.engine.dask_tasks import keep_freed_memory

keep_freed_memory()
x = np.ones(1 << 18)
x + 1
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    x + 1
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the allocator of glibc")
def test_a_worker_of_dask_uses_the_memory_of_temporaries_again():
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}
    run = [sys.executable, "-c", PROGRAM]
    result = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    assert int(result.stdout) < 512  # each time anew they would be 20 x 512


def test_other_processes_are_left_alone(monkeypatch):
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    monkeypatch.setattr(dask_tasks, "ctypes", None)
    dask_tasks.keep_freed_memory.__wrapped__()
