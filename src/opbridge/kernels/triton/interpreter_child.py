"""The process that runs Triton kernels in Triton's interpreter; started by `opbridge.kernels.triton.interpreting`.

It imports nothing of opbridge. Requests and answers are pickled, with their length before them; a request is a kernel's
file, its grid, blocks of memory, and its arguments, and the answer the blocks that have changed.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
import tempfile
import traceback
import types
from typing import Any


def _load(text: str, known: dict[str, Any], folder: str) -> Any:
    if text not in known:
        path = os.path.join(folder, f"kernel_{len(known)}.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        module = types.ModuleType(f"opbridge_kernel_{len(known)}")
        sys.modules[module.__name__] = module
        exec(compile(text, path, "exec"), module.__dict__)
        known[text] = module
    return known[text]


def _run(request: Any, known: dict[str, Any], folder: str) -> dict[int, bytes]:
    import torch

    module = _load(request["source"], known, folder)
    memory = [
        torch.frombuffer(bytearray(each), dtype=torch.uint8) if each else torch.empty(0, dtype=torch.uint8)
        for each in request["memory"]
    ]
    before = [each.clone() for each in memory]
    arguments = {}
    for name, value in request["arguments"].items():
        if isinstance(value, dict):
            tensor = torch.empty(0, dtype=getattr(torch, value["dtype"]))
            storage = memory[value["memory"]].untyped_storage()
            value = tensor.set_(storage, value["offset"], value["sizes"], value["strides"])
        arguments[name] = value
    module.KERNEL[tuple(request["grid"])](**arguments, **module.CONSTANTS)
    changed = {}
    for number, (now, then) in enumerate(zip(memory, before, strict=True)):
        if not torch.equal(now, then):
            changed[number] = now.numpy().tobytes()
    return changed


def main() -> None:
    # What a kernel prints goes where errors go; the answers have a stream of their own.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    known: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        while True:
            head = sys.stdin.buffer.read(8)
            if len(head) < 8:
                return
            request = pickle.loads(sys.stdin.buffer.read(struct.unpack("<q", head)[0]))
            try:
                answer: dict[str, Any] = {"changed": _run(request, known, folder)}
            except BaseException as error:  # whatever a kernel raises is told to who asked
                inner = error.__cause__ or error
                lines = traceback.format_exception_only(type(inner), inner)
                answer = {"error": "".join(lines).strip(), "trace": traceback.format_exc()}
            data = pickle.dumps(answer)
            answers.write(struct.pack("<q", len(data)) + data)
            answers.flush()


if __name__ == "__main__":
    main()
