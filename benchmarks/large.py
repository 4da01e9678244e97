"""Time and peak memory of the seven baselines on fox and on 10,000 samples.

Each fit has its own process. At first the library assumes a machine with little memory. A fit that
it rejects is repeated with the actual memory and must stay within the memory named in the error.
A fit that it accepts must stay within half of the memory of the small machine.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.alone import fit_alone
from benchmarks.measure import Measurement, data_dir
from manyview import memory

COMPARED = ("SEC", "CoRegSC", "AMGL", "RMKMC", "MultiNMF", "KCTD", "SCMV3DT")
SMALL = 4.0  # GiB
LIMIT = 600.0  # seconds


def run() -> Iterator[Measurement]:
    if data_dir() is None:
        print("MANYVIEW_DATA is not set; the large fits are not measured on fox")
    else:
        for method in COMPARED:
            yield from _measured(method, "fox", "fox")
    for method in COMPARED:
        yield from _measured(method, "large", "10,000 x (50 + 50 + 50)")


def _measured(method: str, data: str, shown: str) -> Iterator[Measurement]:
    outcome, allowed = fit_alone(method, data, limit=LIMIT, memory_gib=SMALL), 0.5 * SMALL
    within = f"half of a machine of {SMALL:g} GiB"
    if outcome.rejected is not None:
        yield Measurement(
            f"GiB that {method} would need and is rejected with {SMALL:g}, {shown}",
            outcome.rejected,
            allowed,
            at_least=True,
            detail=f"in {outcome.seconds:.2f} s: {outcome.message}",
        )
        allowed, within = outcome.rejected, "the memory named in the error"
        outcome = fit_alone(method, data, limit=LIMIT)
    if outcome.rejected is not None:
        yield Measurement(
            f"GiB that {method} would need and is rejected, {shown}",
            outcome.rejected,
            memory._half_of_memory() / 2**30,
            at_least=True,
            detail=f"in {outcome.seconds:.2f} s: {outcome.message}",
        )
        return
    yield Measurement(
        f"seconds of {method}, {shown}",
        float("inf") if outcome.message else outcome.seconds,
        LIMIT,
        detail=outcome.message or f"NMI {outcome.nmi:.3f}",
    )
    if not outcome.message:
        yield Measurement(
            f"GiB of {method} at its peak, beyond the data, {shown}",
            outcome.peak,
            allowed,
            detail=f"within {within}",
        )
