"""A fit of views on disk that are four times as large as the memory limit.

``python -m benchmarks.out_of_core`` writes 2 GiB into a temporary folder (TMPDIR) and fits them
twice, each in its own process: memory-mapped, under a limit of 512 MiB, and read into memory. The
limit is RLIMIT_DATA, which does not count mapped files. The system caches pages of the files if it
has room, so these times do not include a slow disk. A last part reads a file that is not cached,
with and without advice to the system on what will be read.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.measure import Measurement, seconds_of
from manyview import MMC

LIMIT = 512 << 20
SAMPLES, WIDTHS, CLUSTERS = 1 << 18, (1024, 1024), 5
ITERATIONS = 2
ADVICE = ("none", "sequential", "will need", "don't need")


def run() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = _written(folder)
        size = sum(path.stat().st_size for path in paths)
        mapped = _in_a_process("mapped", folder, threads=1)
        threads = _in_a_process("mapped", folder, threads=2)
        in_memory = _in_a_process("memory", folder, threads=1)
        shown = f"{SAMPLES:,} x ({' + '.join(f'{width:,}' for width in WIDTHS)}) float32"
        yield Measurement(
            f"size of the views / memory that may be allocated, {shown}",
            size / LIMIT,
            4.0,
            at_least=True,
            detail=f"reading them all: {mapped['whole']}",
        )
        yield Measurement(
            "part of the labels that differ, mapped and in memory",
            float(np.mean(np.not_equal(mapped["labels"], in_memory["labels"]))),
            0.0,
        )
        yield Measurement(
            "largest relative difference of the objective, mapped and in memory",
            _difference(mapped["objective"], in_memory["objective"]),
            1e-6,
            detail=f"after each of {ITERATIONS} iterations, the last {mapped['objective'][-1]:.6g}",
        )
        yield Measurement(
            "time of a fit, mapped / in memory",
            mapped["seconds"] / in_memory["seconds"],
            None,
            detail=f"{mapped['seconds']:.0f} s against {in_memory['seconds']:.0f} s; "
            f"{threads['seconds']:.0f} s with two threads",
        )
        yield Measurement(
            "MiB allocated at the end of a fit, mapped",
            mapped["allocated"],
            LIMIT / 2**20,
            detail=f"{mapped['before']:.0f} of them before it",
        )
        reading, products, both = (
            [_pass(paths[0], cold=cold, products=work) for _ in range(3)]
            for cold, work in ((True, False), (False, True), (True, True))
        )
        yield Measurement(
            "seconds of a pass over a file in no cache / of reading it and of its products, added",
            float(np.median(both)) / (float(np.median(reading)) + float(np.median(products))),
            None,
            detail=f"1 GiB; {_shown(both)} s; reading alone {_shown(reading)} s, products of what "
            f"is cached {_shown(products)} s",
        )
        for advice in ADVICE:
            seconds = [_pass(paths[0], advice=advice) for _ in range(3)]
            yield Measurement(
                f"seconds of a pass over a file in no cache, 1 GiB, advice: {advice}",
                float(np.median(seconds)),
                None,
                detail=_shown(seconds),
            )


def _shown(seconds: list[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in seconds)


def _written(folder: Path) -> list[Path]:
    rng = np.random.default_rng(0)
    groups = rng.integers(0, CLUSTERS, SAMPLES)
    paths = []
    for v, width in enumerate(WIDTHS):
        centres = 0.3 * rng.standard_normal((CLUSTERS, width), dtype=np.float32)
        path = folder / f"{v}.npy"
        array: Any = np.lib.format.open_memmap(
            path, mode="w+", dtype=np.float32, shape=(SAMPLES, width)
        )
        for begin in range(0, SAMPLES, 8192):
            rows = slice(begin, begin + 8192)
            noise = rng.standard_normal((8192, width), dtype=np.float32)
            array[rows] = centres[groups[rows]] + noise
        array.flush()
        paths.append(path)
    return paths


def _in_a_process(how: str, folder: Path, *, threads: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.out_of_core", "--fit", how, str(folder)]
    command += ["--threads", str(threads)]
    alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | alone
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _fitted(how: str, folder: Path, threads: int) -> dict[str, Any]:
    paths = sorted(folder.glob("*.npy"))
    whole = "not tried"
    before = _allocated()
    if how == "mapped":
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
        try:
            whole = f"fits: {[np.load(path).shape for path in paths]}"
        except MemoryError as error:
            whole = f"MemoryError: {error}"
    views = [np.load(path, mmap_mode="r" if how == "mapped" else None) for path in paths]
    model = MMC(CLUSTERS, max_iter=ITERATIONS, tol=0.0, random_state=0, n_jobs=threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        seconds = seconds_of(lambda: model.fit(views))
    return {
        "whole": whole,
        "labels": model.labels_.tolist(),
        "objective": model.objective_.tolist(),
        "seconds": seconds,
        "before": before,
        "allocated": _allocated(),
    }


def _allocated() -> float:
    """Return the MiB that count against RLIMIT_DATA."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmData")) / 1024


def _difference(found: list[float], expected: list[float]) -> float:
    return float(np.max(np.abs(np.subtract(found, expected)) / np.abs(expected)))


def _pass(path: Path, *, cold: bool = True, products: bool = True, advice: str = "none") -> float:
    """Return the seconds of a pass over a mapped file, cached by the system or not."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    if cold:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as mapping:
        offset = path.stat().st_size - SAMPLES * WIDTHS[0] * 4
        rows_bytes, rows = WIDTHS[0] * 4, 1024
        x: Any = np.ndarray((SAMPLES, WIDTHS[0]), np.float32, mapping, offset)
        factor = np.ones((WIDTHS[0], 20), dtype=np.float32)
        if advice == "sequential":
            mapping.madvise(mmap.MADV_SEQUENTIAL)
        begin = time.perf_counter()
        for n in range(0, SAMPLES, rows):
            # whole pages; the header before the rows is less than one
            here = n * rows_bytes
            if advice == "will need" and n + rows < SAMPLES:
                mapping.madvise(mmap.MADV_WILLNEED, here + rows * rows_bytes, rows * rows_bytes)
            block = x[n : n + rows]
            # reading one number of each page loads all pages
            _ = block.T @ (block @ factor) if products else block[:, 0].max()
            if advice == "don't need":
                mapping.madvise(mmap.MADV_DONTNEED, here, rows * rows_bytes)
        seconds = time.perf_counter() - begin
        del x, block
    os.close(descriptor)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.out_of_core", description=__doc__)
    parser.add_argument("--fit", nargs=2, metavar=("HOW", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        how, folder = options.fit
        print(json.dumps(_fitted(how, Path(folder), options.threads)))
        return
    for measurement in run():
        print(f"{measurement.name}: {measurement.figure:.4g} ({measurement.detail})", flush=True)


if __name__ == "__main__":
    main()
