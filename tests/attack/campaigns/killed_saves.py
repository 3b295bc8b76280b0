"""Saves that are killed: at random moments, and before each system call that renames, links, removes or changes a file.

Whatever stood at the path before, and whatever was being saved, the old model or the new one can be loaded afterwards;
and the next save leaves nothing behind of the one that was killed.
"""

from __future__ import annotations

import collections
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

__all__ = ["run"]

_CALLS = (
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.chmod",
    "os.chown",
    "os.truncate",
)
"""What Python announces before it makes such a system call (sys.addaudithook)."""

_FORMS = {"one file": False, "external data": True}
_BEFORE = ("nothing", *_FORMS)
_ELEMENTS = 5000
_LONGEST_SAVE_SECONDS = 60.0


def run(seconds: float, seed: int, most: int | None = None) -> dict[str, Any]:
    """Kills saves before each of their calls, and then at random until the time is over or `most` were killed so.

    Returns:
        The number of kills before a call and at random, what could be loaded afterwards, and the findings.
    """
    counts: collections.Counter[str] = collections.Counter()
    found: list[str] = []
    random_ = random.Random(seed)
    end = time.monotonic() + seconds
    cases = [(before, after) for before in _BEFORE for after in _FORMS]
    with tempfile.TemporaryDirectory(prefix="opbridge-attack-") as folder:
        for before, after in cases:
            call = 1
            while _case(Path(folder), before, after, _KillBefore(call), counts, found):
                counts["kills before a call"] += 1
                call += 1
        for after in _FORMS:
            call = 1
            while _set_case(Path(folder), after, call, counts, found):
                counts["kills of a set"] += 1
                call += 1
        longest = max(_seconds_of(Path(folder), before, after) for before, after in cases)
        while time.monotonic() < end and (most is None or counts["kills at random"] < most):
            before, after = random_.choice(cases)
            # Beyond its end in a few cases.
            kill = _KillAfter(random_.random() * longest * 1.1)
            counts["kills at random"] += _case(Path(folder), before, after, kill, counts, found)
    return {
        "kills": counts["kills before a call"] + counts["kills at random"] + counts["kills of a set"],
        **counts,
        "findings": found,
    }


class _KillBefore:
    """Kills the process that calls it before its n-th system call."""

    def __init__(self, call: int) -> None:
        self.call = call
        self.after = _LONGEST_SAVE_SECONDS

    def arm(self) -> None:
        left = self.call

        def count(event: str, arguments: Any) -> None:
            nonlocal left
            if event in _CALLS:
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)

    def __str__(self) -> str:
        return f"before call {self.call}"


class _KillAfter:
    """Kills another process after a time."""

    def __init__(self, seconds: float) -> None:
        self.after = seconds

    def arm(self) -> None:
        """Nothing: the parent waits."""

    def __str__(self) -> str:
        return f"after {self.after * 1e3:.2f} ms"


def _case(
    folder: Path,
    before: str,
    after: str,
    kill: _KillBefore | _KillAfter,
    counts: collections.Counter[str],
    found: list[str],
) -> bool:
    """One save that is killed, and what is there then. Returns whether it was killed before it was over."""
    path = folder / "model.onnx"
    _clear(folder)
    if before != "nothing":
        _save(path, 1, _FORMS[before])
    was_killed = _killed(lambda: _save(path, 2, _FORMS[after]), kill)
    value, why = _loaded(path)
    allowed = {2} if not was_killed else {1, 2} if before != "nothing" else {None, 2}
    if value not in allowed or (value is None and path.exists()):
        found.append(f"{before} -> {after}, killed {kill}: {why or f'the model gives {value}'}")
    counts[{None: "nothing", 1: "the old model", 2: "the new model"}.get(value, "something else")] += 1
    _save(path, 3, _FORMS[after])
    left = sorted(each.name for each in folder.iterdir())
    if _loaded(path)[0] != 3 or len(left) != 1 + _FORMS[after]:
        found.append(f"{before} -> {after}, killed {kill}: the next save leaves {left}")
    return was_killed


def _set_case(folder: Path, after: str, call: int, counts: collections.Counter[str], found: list[str]) -> bool:
    """A set of two models that is replaced by another one: never some of each. Returns whether it was killed."""
    from opbridge.save import staging, writer

    _clear(folder)
    paths = [folder / "first.onnx", folder / "second.onnx"]

    def save(value: int) -> None:
        models = {path: _model(value) for path in paths}
        with writer.staged_set(models, folder / "weights.data", external_data=_FORMS[after]) as files:
            files.commit()

    save(1)
    was_killed = _killed(lambda: save(2), _KillBefore(call))
    case = f"a set, {after}, killed before call {call}"
    if {1, 2} <= {_loaded(path)[0] for path in paths}:
        found.append(f"{case}: models of two saves")
    staging.clear_abandoned(folder)
    values = [_loaded(path) for path in paths]
    if values not in ([(1, "")] * 2, [(2, "")] * 2):
        found.append(f"{case}: {values} after the rest was finished")
    save(3)
    left = sorted(each.name for each in folder.iterdir())
    if len(left) != 2 + _FORMS[after]:
        found.append(f"{case}: the next save leaves {left}")
    return was_killed


def _killed(work: Callable[[], None], kill: _KillBefore | _KillAfter) -> bool:
    """Does some work in a process that is killed. Returns whether that came before its end."""
    ready, go = os.pipe()
    if not (child := os.fork()):
        status = 1
        try:
            kill.arm()
            os.write(go, b"1")
            work()
            status = 0
        finally:
            os._exit(status)
    os.read(ready, 1)
    os.close(ready)
    os.close(go)
    end = time.perf_counter() + kill.after
    while time.perf_counter() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return _was_killed(status)
    os.kill(child, signal.SIGKILL)
    return _was_killed(os.waitpid(child, 0)[1])


def _was_killed(status: int) -> bool:
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, -signal.SIGKILL):
        raise RuntimeError(f"a save failed with {code}")
    return code != 0


def _seconds_of(folder: Path, before: str, after: str) -> float:
    """How long a save takes."""
    path = folder / "model.onnx"
    _clear(folder)
    if before != "nothing":
        _save(path, 1, _FORMS[before])
    start = time.perf_counter()
    _save(path, 2, _FORMS[after])
    return time.perf_counter() - start


def _clear(folder: Path) -> None:
    for each in sorted(folder.rglob("*"), reverse=True):
        each.rmdir() if each.is_dir() and not each.is_symlink() else each.unlink()


def _model(value: int) -> ir.Model:
    """A model that returns its weight, all elements of which are a value."""
    weight = ir.Value(
        name="w",
        const_value=ir.Tensor(np.full(_ELEMENTS, value, np.float32), name="w"),
        shape=ir.Shape((_ELEMENTS,)),
        type=ir.TensorType(ir.DataType.FLOAT),
    )
    node = ir.node("Identity", [weight])
    node.outputs[0].name, node.outputs[0].type = "y", weight.type
    graph = ir.Graph([], node.outputs, nodes=[node], initializers=[weight], opset_imports={"": 20}, name="g")
    return ir.Model(graph, ir_version=10)


def _save(path: Path, value: int, external: bool) -> None:
    from opbridge.save import writer

    writer.save(_model(value), path, external_data=external)


def _loaded(path: Path) -> tuple[int | None, str]:
    """What the model at a path returns, in ONNX Runtime as it is; None, and why, where it does not load."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        (result,) = session.run(None, {})
    except Exception as error:
        return None, str(error)[:300]
    values = set(result.tolist())
    return (int(values.pop()) if len(values) == 1 else -1), ""


if __name__ == "__main__":
    print(json.dumps(run(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if sys.argv[3:] else None), indent=1))
