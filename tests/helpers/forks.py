"""Work in a forked process, which is killed where it hangs."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable

__all__ = ["code_in_fork", "said_in_fork"]

SECONDS = 60


def code_in_fork(work: Callable[[], object]) -> int:
    """The exit code of a forked process that does some work: 0 where the work returns, 1 where it raises."""
    gc.collect()  # or the forked process frees the sessions of ONNX Runtime that other tests have left, and hangs
    if not (child := os.fork()):
        signal.alarm(SECONDS)
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def said_in_fork(work: Callable[[], object]) -> str:
    """What a call returns in a forked process, or the error that it raises, as text."""
    reading, writing = os.pipe()

    def say() -> None:
        try:
            said = str(work())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())

    code = code_in_fork(say)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    assert code == 0, f"the process ended with {code}"
    return said
