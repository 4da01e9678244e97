import time

import numpy as np

from manyview.experiment.usage import Usage


def test_waiting_takes_time_but_no_processor():
    with Usage() as usage:
        time.sleep(0.2)
    assert usage.seconds >= 0.2
    assert usage.cpu_seconds < 0.1


def test_memory_that_was_held_shows_and_is_forgotten():
    with Usage() as large:
        block = np.ones(40_000_000 // 8)
        del block
    with Usage() as small:
        pass
    assert large.peak_bytes > small.peak_bytes + 30_000_000
