"""Sessions, exports and builds in 8 threads and in 8 processes at once, built-in kernels included.

Each does a few of them in an order of its own, and all of the results are what one alone gives.
"""

from __future__ import annotations

import copy
import functools
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from helpers.threads import at_once

__all__ = ["run"]

_AT_ONCE = 8
_STEPS = 3
_HANGING_SECONDS = 600
_KERNEL = 'extern "C" __attribute__((visibility("default"))) int answer() { return ANSWER; }\n'


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Lets crowds of threads and of processes work until the time is over, one of each at least.

    Returns:
        The number of crowds, and the findings: what raised, differed or did not end.
    """
    found: list[str] = []
    crowds = 0
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="opbridge-attack-") as folder:
        place = Path(folder)
        (place / "answer.h").write_text("#define ANSWER 42\n")
        found += _in_process(lambda: _prepare(place))
        while not found and (not crowds or time.monotonic() < end):
            for crowd in (_threads, _processes):
                found += crowd(place, f"{seed} {crowds}")
                crowds += 1
    return {"crowds": crowds, "findings": found}


class _WithKernel(torch.nn.Module):
    """A model that needs a built-in kernel."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x.double(), scale_factor=2, mode="bicubic").float()


@functools.cache
def _models() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).eval()
    return {"layers": (layers, (torch.randn(3, 8),)), "kernel": (_WithKernel(), (torch.randn(1, 2, 5, 5),))}


def _prepare(folder: Path) -> None:
    import opbridge

    for name, (model, args) in _models().items():
        opbridge.export(model, args, folder / f"{name}.onnx")


def _threads(folder: Path, seed: str) -> list[str]:
    works = [functools.partial(_work, folder, f"{seed} {each}") for each in range(_AT_ONCE)]

    def crowd() -> None:
        _models()  # the generator of random numbers is one for all threads
        at_once(*works)

    # In a process of its own: a thread that waits for ever is stopped with it.
    return _in_process(crowd)


def _processes(folder: Path, seed: str) -> list[str]:
    works = [functools.partial(_work, folder, f"{seed} {each}") for each in range(_AT_ONCE)]
    children = [_started(work) for work in works]
    return [problem for child in children for problem in _ended(*child)]


def _work(folder: Path, seed: str) -> None:
    """A few steps, each of which is compared."""
    random_ = random.Random(seed)
    for step in range(_STEPS):
        random_.choice((_session, _export, _build))(folder, f"{seed} {step}".replace(" ", "-"), random_)


def _session(folder: Path, name: str, random_: random.Random) -> None:
    import opbridge

    which = random_.choice(("layers", "kernel"))
    model, (x,) = _models()[which]
    session = opbridge.session(folder / f"{which}.onnx", threads=random_.choice((1, 2)))
    (result,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(result), model(x), rtol=1e-3, atol=1e-4)


def _export(folder: Path, name: str, random_: random.Random) -> None:
    import opbridge

    model, args = _models()[random_.choice(("layers", "kernel"))]
    # Several save to one path.
    path = folder / f"exported-{random_.randrange(2)}.onnx"
    opbridge.export(copy.deepcopy(model), args, path, external_data=random_.random() < 0.5)


def _build(folder: Path, name: str, random_: random.Random) -> None:
    import ctypes

    from opbridge.kernels.build import build_parts

    source = folder / f"small-{random_.randrange(3)}-{name[:3]}.cpp"
    if not source.exists():
        own = source.with_name(f"{name}.tmp")
        own.write_text('#include "answer.h"\n' + _KERNEL)
        own.replace(source)
    if ctypes.CDLL(str(build_parts([source]))).answer() != 42:
        raise AssertionError("the library gives another answer")


def _in_process(work: Callable[[], object]) -> list[str]:
    return _ended(*_started(work))


def _started(work: Callable[[], object]) -> tuple[int, int]:
    """Starts a process. Returns its number, and a pipe on which it says what it raised."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.close(reading)
        signal.alarm(_HANGING_SECONDS)
        status = 0
        try:
            work()
        except BaseException:
            status = 1
            os.write(writing, traceback.format_exc()[-4000:].encode())
        os._exit(status)
    os.close(writing)
    return child, reading


def _ended(child: int, reading: int) -> list[str]:
    with os.fdopen(reading) as file:
        said = file.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return [said or f"a process ended with {status}"] if status else []


if __name__ == "__main__":
    print(json.dumps(run(float(sys.argv[1]), int(sys.argv[2])), indent=1))
