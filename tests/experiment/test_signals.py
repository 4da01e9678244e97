import os
import signal
import threading

import pytest

from manyview.experiment.signals import handlers_held, interrupts_held


def test_an_interrupt_while_a_process_starts_comes_once_it_has():
    order = []
    # whoever runs the tests in the background may have set interrupts aside
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - what follows it is what counts
            with interrupts_held():
                # to another thread, as one that shows progress, where it is not held back
                thread = threading.Thread(target=lambda: os.kill(os.getpid(), signal.SIGINT))
                thread.start()
                thread.join()
                order.append("started")
            order.append("never")
        assert order == ["started"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("ignored", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_is_ignored_hides_no_other(ignored):
    came = []
    other = {signal.SIGINT: signal.SIGTERM, signal.SIGTERM: signal.SIGINT}[ignored]
    before = {
        ignored: signal.signal(ignored, signal.SIG_IGN),
        other: signal.signal(other, lambda number, frame: came.append(number)),
    }
    try:
        with handlers_held():
            signal.raise_signal(ignored)
            signal.raise_signal(other)
            assert not came
        assert came == [other]
        assert signal.getsignal(ignored) is signal.SIG_IGN
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
