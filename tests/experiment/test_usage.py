import subprocess
import sys
import time

import pytest

from manyview.experiment import usage as module
from manyview.experiment.usage import Usage

HELD = """
import numpy as np
from manyview.experiment.usage import Usage

with Usage() as large:
    block = np.ones(50_000_000)
    del block
with Usage() as small:
    pass
print(large.peak_bytes - small.peak_bytes)
"""


def test_waiting_takes_time_but_no_processor():
    with Usage() as usage:
        time.sleep(0.2)
    assert usage.seconds >= 0.2
    assert usage.cpu_seconds < 0.1


def test_memory_that_was_held_shows_and_is_forgotten():
    if not module.PEAK_RESET.exists():
        pytest.skip("this system does not let the mark of memory be set back")
    # in a process of its own: what others freed before may be taken again without a trace
    found = subprocess.run(
        [sys.executable, "-c", HELD], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(found.stdout) > 350_000_000
