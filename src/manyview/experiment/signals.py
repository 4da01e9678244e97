"""Interrupts that wait until a process has started."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

__all__ = ["handlers_held", "interrupts_held"]


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold interrupts back, here while a process starts, and in that process for good."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its start would let them through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with handlers_held():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def handlers_held() -> Iterator[None]:
    """Put off what signals do here: other threads let them through, and this one acts on them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    # interrupts last, as they may come while the others are put back; a handler that was not set
    # from Python is None, and cannot be put back
    held = [
        (number, handler)
        for number in (signal.SIGTERM, signal.SIGINT)
        if (handler := signal.getsignal(number)) is not None
    ]
    for number, _ in held:
        signal.signal(number, lambda came, frame: received.append(came))
    try:
        yield
    finally:
        for number, handler in held:
            signal.signal(number, handler)
        for came in received:
            signal.raise_signal(came)
