"""The process of a `RuntimeSession`: loads the model in the runtime, and runs it for each request."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opbridge.runtimes import Loaded, known
from opbridge.runtimes.messages import Read
from opbridge.runtimes.serving import Answer, bytes_of, serve, silence
from opbridge.runtimes.tensors import from_message, to_message

__all__ = ["main"]

_TIMES_FILES = 4


def main() -> None:
    """Answers requests until the other end closes."""
    serve(_load, _run)


def _load(asked: Mapping[str, Any], model: str | bytes) -> tuple[Loaded, dict[str, Any]]:
    if asked["runtime"] not in known.ON_DEVICE:
        _limit(asked["limits"]["gigabytes"], model)
    silence()
    loaded = known.find(asked["runtime"]).load(model, *asked["kernels"], **asked["options"])
    return loaded, {"notes": [str(each) for each in getattr(loaded, "notes", ())]}


def _run(loaded: Loaded, asked: Mapping[str, Any], read: Read) -> Answer:
    feeds = {each["name"]: from_message(each, read) for each in asked["feeds"]}
    try:
        results = [to_message(each) for each in loaded.run(feeds)]
    except Exception as error:  # the runtimes' errors have no other common base class
        message = " ".join(str(error).split()) or type(error).__name__
        ends = isinstance(error, known.DeviceLost)
        return {"error": "RunError", "message": message[:4000], "ends": ends}, []
    return {"outputs": [said for said, _ in results]}, [block for _, block in results]


def _limit(gigabytes: float, model: str | bytes) -> None:
    """Limits what this process and those that it starts may write to: address space alone costs nothing, and runtimes
    reserve much of it."""
    most = resource.getrlimit(resource.RLIMIT_DATA)[1]
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    wanted = used + int(gigabytes * 2**30) + _TIMES_FILES * bytes_of(model)
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, most))
