import numpy as np
import scipy.stats

from manyview.linalg.hashing import uniform_of_rows


def test_numbers_are_uniform_and_seeds_differ():
    rows = np.arange(20_000, dtype=np.uint64)
    first, second = uniform_of_rows(rows, 0), uniform_of_rows(rows, 1)
    for numbers in (first, second):
        assert scipy.stats.kstest(numbers, "uniform").pvalue > 1e-3
        assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 0.03
    assert abs(np.corrcoef(first[2:], second[2:])[0, 1]) < 0.03


def test_seeds_are_not_shifts_of_each_other():
    rows = np.arange(1000, dtype=np.uint64)
    assert not np.isin(uniform_of_rows(rows, 0), uniform_of_rows(rows, 1)).any()
