"""One fit in its own process, so that its peak memory can be measured.

``python -m benchmarks.alone METHOD SET [--memory GIB]`` prints the outcome as JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest import mock

from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import normalized_mutual_info_score

from benchmarks.measure import data_dir
from manyview import memory
from manyview.datasets import Dataset, make_views, read_views
from manyview.experiment.methods import METHODS

GIB = 2**30


@dataclass
class Outcome:
    """Seconds and peak memory of a fit, or the memory it would need, or the error."""

    seconds: float
    peak: float = 0.0  # GiB in addition to those before the fit
    nmi: float = 0.0
    rejected: float | None = None  # GiB that it would need, if it is rejected
    message: str = ""


def fit_alone(method: str, data: str, *, limit: float, memory_gib: float | None = None) -> Outcome:
    """Fit in a child process and terminate it after `limit` seconds.

    With `memory_gib` the library assumes a machine with that much memory.
    """
    command = [sys.executable, "-m", "benchmarks.alone", method, data]
    if memory_gib is not None:
        command += ["--memory", str(memory_gib)]
    begin = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return Outcome(time.perf_counter() - begin, message=f"ended after {limit:g} s")
    if done.returncode == 0:
        return Outcome(**json.loads(done.stdout.splitlines()[-1]))
    last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
    return Outcome(time.perf_counter() - begin, message=f"failed: {last[0]}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alone", description=__doc__)
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("data", choices=("fox", "mnist70k", "large"))
    parser.add_argument("--memory", type=float, metavar="GIB")
    options = parser.parse_args()
    dataset = _dataset(options.data)
    half = memory._half_of_memory() if options.memory is None else 0.5 * GIB * options.memory
    with mock.patch.object(memory, "_half_of_memory", return_value=half):
        print(json.dumps(asdict(_outcome(options.method, dataset))))


def _outcome(name: str, dataset: Dataset) -> Outcome:
    views, y = dataset
    method = METHODS[name]
    assert y is not None, f"{dataset.name} has no classes"
    model = method.make(len(set(y)), random_state=0, **method.defaults)
    _forget_peak()
    before, begin = _status("VmRSS"), time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(views)
    except ValueError as error:
        needed = re.search(r"needs (\S+) GiB of memory", str(error))
        if needed is None:
            raise
        spent = time.perf_counter() - begin
        return Outcome(spent, rejected=float(needed[1]), message=str(error))
    seconds = time.perf_counter() - begin
    score = float(normalized_mutual_info_score(y, model.labels_))
    return Outcome(seconds, (_status("VmHWM") - before) / GIB, score)


def _dataset(data: str) -> Dataset:
    if data == "large":
        return make_views(10_000, 10, (50, 50, 50), random_state=0)
    folder = data_dir()
    if folder is None:
        raise FileNotFoundError(f"MANYVIEW_DATA is not set; {data} is not available")
    return read_views(folder / f"{data}.npz")


def _forget_peak() -> None:
    # if this is not possible the peak is that since the start of the process
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _status(field: str) -> float:
    """Return bytes; ``ru_maxrss`` would include the memory of the parent process."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return float(unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return 1024.0 * next(float(line.split()[1]) for line in lines if line.startswith(field))


if __name__ == "__main__":
    main()
