"""Sessions in forked processes, and in many threads at once."""

from __future__ import annotations

import os
import signal

import numpy as np
import onnx
import pytest
from helpers.threads import at_once

from opbridge.errors import UsageError
from opbridge.runtimes import onnxruntime as runtime
from opbridge.runtimes.onnxruntime.isolated import isolated_session

MODEL = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["" : 20]> g (float[n, 256] x) => (float[n, 256] y)'
    " { t = Transpose (x) m = MatMul (x, t) y = MatMul (m, x) }"
).SerializeToString()
FEED = {"x": np.ones((256, 256), np.float32)}


def in_fork(work) -> str:
    """What a call returns in a forked process."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        signal.alarm(60)
        try:
            said = str(work())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "it had to be killed"
    return said


def total(session) -> float:
    return float(session.run(None, FEED)[0].sum())


def test_a_session_of_several_threads_says_what_to_do_after_a_fork():
    session = runtime.session(MODEL, threads=2)
    here = total(session)
    said = in_fork(lambda: total(session))
    assert said.startswith("UsageError: This session was made before the process was forked")
    assert "Make the session in the new process" in said and "threads=1" in said
    assert in_fork(lambda: total(runtime.session(MODEL, threads=2))) == str(here)
    assert total(session) == here


@pytest.mark.parametrize(
    "method", ["run_async", "run_with_iobinding", "run_with_ort_values", "run_with_ortvaluevector"]
)
def test_all_ways_to_run_say_it(method):
    session = runtime.session(MODEL, threads=2)
    assert "made before the process was forked" in in_fork(getattr(session, method))


def test_a_session_of_one_thread_runs_after_a_fork():
    session = runtime.session(MODEL, threads=1)
    assert in_fork(lambda: total(session)) == str(total(session))
    assert in_fork(lambda: in_fork(lambda: total(session))) == str(total(session))


def test_a_session_with_nodes_that_torch_runs_does_not():
    session = runtime.session(MODEL, threads=1)
    session._runs_anywhere, session._has_aten = False, True
    with pytest.raises(UsageError, match=r"get_context\('spawn'\)\.$"):
        session._of_fork -= 1
        session.run(None, FEED)


def test_an_isolated_session_runs_after_a_fork_and_in_many_threads():
    session = isolated_session(MODEL, True, threads=1)
    here = total(session)
    process = session._process.pid
    assert in_fork(lambda: total(session)) == str(here)
    assert in_fork(session.close) == "None"
    assert total(session) == here, "a fork took its answer"
    assert session._process.pid == process, "a fork ended its process"
    scaled = [{"x": np.full((256, 256), each, np.float32)} for each in range(1, 9)]
    found = at_once(*(lambda feed=feed: float(session.run(None, feed)[0].sum()) for feed in scaled))
    assert found == [here * each**3 for each in range(1, 9)]
    session.close()


def test_sessions_in_many_threads_at_once():
    expected = total(runtime.session(MODEL))
    assert at_once(*[lambda: total(runtime.session(MODEL))] * 8) == [expected] * 8
