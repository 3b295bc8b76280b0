"""Runs calls in threads at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["at_once"]

Result = TypeVar("Result")


def at_once(*calls: Callable[[], Result]) -> list[Result]:
    """Runs each call in a thread of its own, all of them from the same moment on, and waits for them.

    Returns:
        The results, in the order of the calls.

    Raises:
        BaseException: what the first of the calls that failed has raised.
    """
    start = threading.Barrier(len(calls))

    def begun(call: Callable[[], Result]) -> Result:
        start.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(begun, call) for call in calls]
    return [future.result() for future in futures]
