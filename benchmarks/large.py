"""The seven compared methods on fox and on 10,000 samples: seconds and peak memory, or a refusal.

Each fit has a process of its own. First the library is told that the machine is small: what it
then refuses, with the memory it says it would need, is tried again with what there is, and must
stay within what it said. What it does not refuse must stay within half of the small machine.
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
        print("MANYVIEW_DATA is not set: fox is left out of the large fits")
    else:
        for method in COMPARED:
            yield from _measured(method, "fox", "fox")
    for method in COMPARED:
        yield from _measured(method, "large", "10,000 x (50 + 50 + 50)")


def _measured(method: str, data: str, shown: str) -> Iterator[Measurement]:
    outcome, allowed = fit_alone(method, data, limit=LIMIT, memory_gib=SMALL), 0.5 * SMALL
    within = f"half of a machine of {SMALL:g} GiB"
    if outcome.refused is not None:
        yield Measurement(
            f"GiB that {method} would need and is refused with {SMALL:g}, {shown}",
            outcome.refused,
            allowed,
            at_least=True,
            detail=f"in {outcome.seconds:.2f} s: {outcome.message}",
        )
        allowed, within = outcome.refused, "what it says it would need"
        outcome = fit_alone(method, data, limit=LIMIT)
    if outcome.refused is not None:
        yield Measurement(
            f"GiB that {method} would need and is refused, {shown}",
            outcome.refused,
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
