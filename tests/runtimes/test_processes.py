"""Sessions in forked processes, and in many threads at once."""

from __future__ import annotations

import gc

import numpy as np
import onnx
import pytest
from helpers.forks import said_in_fork
from helpers.threads import at_once

from opbridge.errors import UsageError
from opbridge.runtimes import onnxruntime as runtime
from opbridge.runtimes.onnxruntime.isolated import isolated_session

MODEL = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["" : 20]> g (float[n, 256] x) => (float[n, 256] y)'
    " { t = Transpose (x) m = MatMul (x, t) y = MatMul (m, x) }"
).SerializeToString()
FEED = {"x": np.ones((256, 256), np.float32)}


def total(session) -> float:
    return float(session.run(None, FEED)[0].sum())


@pytest.mark.slow
def test_a_session_of_several_threads_says_what_to_do_after_a_fork():
    session = runtime.session(MODEL, threads=2)
    here = total(session)
    said = said_in_fork(lambda: total(session))
    assert said.startswith("UsageError: This session was created before the process was forked")
    assert "Create the session in the new process" in said and "threads=1" in said
    assert said_in_fork(lambda: total(runtime.session(MODEL, threads=2))) == str(here)
    assert total(session) == here


@pytest.mark.slow
def test_all_ways_to_run_say_it():
    session = runtime.session(MODEL, threads=2)

    def said() -> dict[str, str]:
        found = {}
        for method in ("run_async", "run_with_iobinding", "run_with_ort_values", "run_with_ortvaluevector"):
            with pytest.raises(UsageError) as caught:
                getattr(session, method)()
            found[method] = str(caught.value)
        return found

    assert said_in_fork(said).count("created before the process was forked") == 4


@pytest.mark.slow
def test_a_session_of_one_thread_runs_after_a_fork():
    session = runtime.session(MODEL, threads=1)
    assert said_in_fork(lambda: total(session)) == str(total(session))
    assert said_in_fork(lambda: said_in_fork(lambda: total(session))) == str(total(session))


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_a_session_may_be_collected_after_a_fork(threads):
    sessions = [runtime.session(MODEL, threads=threads)]

    def collect() -> str:
        sessions.clear()
        gc.collect()
        return "collected"

    assert said_in_fork(collect) == "collected"
    assert total(sessions[0]) == 256.0**3 * 256.0


def test_a_session_with_nodes_that_torch_runs_does_not():
    session = runtime.session(MODEL, threads=1)
    session._runs_anywhere, session._has_aten = False, True
    with pytest.raises(UsageError, match=r"get_context\('spawn'\)\.$"):
        session._of_fork -= 1
        session.run(None, FEED)


@pytest.mark.slow
def test_an_isolated_session_runs_after_a_fork_and_in_many_threads():
    session = isolated_session(MODEL, True, threads=1)
    here = total(session)
    process = session._child.process.pid
    assert said_in_fork(lambda: total(session)) == str(here)
    assert said_in_fork(session.close) == "None"
    assert total(session) == here, "a fork took its answer"
    assert session._child.process.pid == process, "a fork ended its process"
    scaled = [{"x": np.full((256, 256), each, np.float32)} for each in range(1, 9)]
    found = at_once(*(lambda feed=feed: float(session.run(None, feed)[0].sum()) for feed in scaled))
    assert found == [here * each**3 for each in range(1, 9)]
    session.close()


def test_sessions_in_many_threads_at_once():
    expected = total(runtime.session(MODEL))
    assert at_once(*[lambda: total(runtime.session(MODEL))] * 8) == [expected] * 8
