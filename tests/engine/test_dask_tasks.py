import gc
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

from manyview.engine.dask_tasks import Recycled, recycled_here

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
    from manyview.engine import dask_tasks as allocator

    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    monkeypatch.setattr(allocator, "ctypes", None)
    allocator.keep_freed_memory.__wrapped__()


MB = 1 << 20


def address(array):
    return array.__array_interface__["data"][0]


class TestRecycled:
    def test_a_dropped_array_leaves_its_memory_to_the_next_of_its_size(self):
        recycled = Recycled(8 * MB)
        first = recycled.empty((MB // 8, 2), np.float64)
        place = address(first)
        del first
        again = recycled.empty((MB // 4,), np.float64)
        assert address(again) == place
        assert again.flags.writeable
        assert again.flags.aligned

    @pytest.mark.parametrize("part", [lambda x: x[5:], lambda x: x.T, lambda x: x[3].reshape(2, 1)])
    def test_memory_is_in_use_as_long_as_any_part_of_the_array(self, part):
        recycled = Recycled(8 * MB)
        whole = recycled.empty((MB // 16, 2), np.float64)
        whole[...] = 7.0
        kept = part(whole)
        del whole
        gc.collect()
        other = recycled.empty((MB // 16, 2), np.float64)
        other[...] = 1.0
        assert (kept == 7.0).all()

    def test_arrays_of_one_time_have_memory_of_their_own(self):
        recycled = Recycled(8 * MB)
        arrays = [recycled.empty((MB,), np.uint8) for _ in range(12)]
        assert len({address(x) for x in arrays}) == 12

    def test_no_more_is_kept_than_allowed(self):
        recycled = Recycled(3 * MB)
        arrays = [recycled.empty((MB,), np.uint8) for _ in range(5)]
        arrays.clear()
        assert recycled.kept == 3 * MB

    def test_sizes_that_are_asked_for_no_more_make_room(self):
        recycled = Recycled(6 * MB)
        for size in (MB, 2 * MB, 3 * MB):
            arrays = [recycled.empty((size,), np.uint8) for _ in range(3)]
            arrays.clear()
        assert recycled.kept == 6 * MB
        again = [recycled.empty((3 * MB,), np.uint8) for _ in range(2)]
        assert recycled.kept == 0  # what had been kept was of this size
        assert len(again) == 2

    def test_a_lock_that_is_never_let_go_holds_nobody_up(self):
        recycled = Recycled(6 * MB)
        array = recycled.empty((MB,), np.uint8)
        held = threading.Event()
        done = threading.Event()

        def hold():
            with recycled._lock:
                held.set()
                done.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(60)
        del array
        assert recycled.kept == 0
        done.set()
        thread.join()

    @pytest.mark.parametrize("size", [0, 10, MB - 1, 3 * MB + 1])
    def test_small_and_huge_arrays_are_left_to_the_allocator(self, size):
        recycled = Recycled(3 * MB)
        array = recycled.empty((size,), np.uint8)
        assert array.shape == (size,)
        assert array.base is None

    def test_a_pickled_array_is_one_like_any_other(self):
        array = Recycled(3 * MB).empty((MB,), np.uint8)
        array[...] = 3
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(array)), array)

    def test_threads_do_not_share_memory(self):
        recycled = Recycled(64 * MB)
        wrong = []

        def work(number):
            for _ in range(200):
                array = recycled.empty((MB,), np.uint8)
                array[:: MB // 64] = number
                if not (array[:: MB // 64] == number).all():
                    wrong.append(number)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


def test_this_process_keeps_nothing():
    array = recycled_here().empty((4 * MB,), np.uint8)
    assert array.base is None
