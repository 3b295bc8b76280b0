"""Sessions and forks: a process that was forked has none of the threads that a session runs in."""

from __future__ import annotations

import os
import weakref
from typing import Any

import onnxruntime

from opbridge.errors import RunError, UsageError
from opbridge.runtimes.onnxruntime import cuda_provider, torch_tensors
from opbridge.runtimes.onnxruntime.onnxruntime_private import ERRORS, never_free
from opbridge.runtimes.onnxruntime.refusals import plain_message

__all__ = ["Session"]

_forks = 0
_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _after_fork() -> None:
    """Counts the fork, and keeps the copies of sessions for ever.

    ONNX Runtime ends a session by waiting for its threads. In a copy they do not exist: to collect it waits for ever
    or crashes (seen with 1.31 and 1.32).
    """
    global _forks
    _forks += 1
    for session in list(_sessions):
        never_free(session)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Session(onnxruntime.InferenceSession):
    """An `onnxruntime.InferenceSession` that says so where it cannot run.

    A forked process has a copy of the session without its threads, for which ONNX Runtime would wait for ever. With
    one thread (`threads=1`) a session has none of its own, and runs in forked processes too, unless PyTorch runs nodes
    of the model: it has threads as well. A copy is never freed where it has threads, as freeing it waits for them.
    """

    note = ""
    """How the session runs the model otherwise than the file says; "": it does not."""

    def __init__(
        self, model: str | bytes, options: onnxruntime.SessionOptions, *, has_aten: bool, **given: Any
    ) -> None:
        """Args:
        model: The path of the file, or its content.
        options: The session's options.
        has_aten: Whether PyTorch runs nodes of the model.
        **given: As for `onnxruntime.InferenceSession`.
        """
        self._of_fork = _forks
        self._runs_anywhere = options.intra_op_num_threads == 1 and not has_aten
        self._has_aten = has_aten
        super().__init__(model, options, **given)
        if not self._runs_anywhere:
            _sessions.add(self)

    def run(self, output_names: Any, input_feed: Any, run_options: Any = None) -> Any:
        """Runs the model on NumPy arrays, as ONNX Runtime's sessions do; or on PyTorch's tensors, for tensors."""
        self._check_process()
        try:
            if torch_tensors.are_given(input_feed):
                return torch_tensors.run(self, output_names, input_feed, run_options)
            return super().run(output_names, input_feed, run_options)
        except ERRORS as error:
            if cuda_provider.CUDA in self.get_providers() and (words := cuda_provider.explained(str(error))):
                raise RunError(f"{words} ONNX Runtime reports: {plain_message(str(error))}.") from error
            raise

    def run_async(self, *args: Any, **keywords: Any) -> Any:
        self._check_process()
        return super().run_async(*args, **keywords)

    def run_with_iobinding(self, *args: Any, **keywords: Any) -> Any:
        self._check_process()
        return super().run_with_iobinding(*args, **keywords)

    def run_with_ort_values(self, *args: Any, **keywords: Any) -> Any:
        self._check_process()
        return super().run_with_ort_values(*args, **keywords)

    def run_with_ortvaluevector(self, *args: Any, **keywords: Any) -> Any:
        self._check_process()
        return super().run_with_ortvaluevector(*args, **keywords)

    def _check_process(self) -> None:
        """Checks that this is the process that made the session, or that it needs no thread of that.

        Raises:
            UsageError: It would wait for a thread that is not there.
        """
        if self._of_fork == _forks or self._runs_anywhere:
            return
        alone = "" if self._has_aten else ", create it with threads=1, which uses no other thread"
        raise UsageError(
            "This session was created before the process was forked (multiprocessing's default on Linux, os.fork, "
            "gunicorn --preload), so its threads do not exist in the new process. Create the session in the new "
            f"process, or start it with multiprocessing.get_context('spawn'){alone}."
        )
