"""Aten nodes as somebody hostile would write them: mutated attributes and inputs, run in processes that may crash.

A call that takes too long, as one that fills gigabytes does, is ended and counted.
"""

from __future__ import annotations

import collections
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

__all__ = ["run", "watch"]

KERNELS = Path(__file__).parents[2] / "kernels"
MOST_SECONDS = 30
MEMORY = 4 << 30
"""Bytes that a process may have beside what it starts with; more is refused, as where there is no memory left."""

_INTEGERS = (
    0,
    1,
    -1,
    2,
    3,
    5,
    7,
    16,
    100,
    -2,
    -100,
    127,
    2**15,
    2**31 - 1,
    2**31,
    -(2**31),
    2**32,
    2**62,
    2**63 - 1,
    -(2**63),
)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 1e-300, 1e300, float("inf"), float("-inf"), float("nan"), 1e9, -1e18)
_TEXTS = (
    "",
    "mean",
    "none",
    "float32",
    "int8",
    "complex64",
    "bool",
    "qint8",
    "strided",
    "sparse_coo",
    "cpu",
    "cuda:0",
    "meta",
    "channels_last",
    "preserve_format",
    "ij",
    "reflect",
    "\x00",
    "x" * 5000,
    "float32\n",
    "../dtype",
    "trunc",
    "floor",
    "sum",
)
_KINDS = (
    "tensor",
    "complex_tensor",
    "input_int",
    "input_float",
    "input_bool",
    "none",
    "int",
    "bool",
    "float",
    "complex",
    "str",
    "dtype",
    "layout",
    "device",
    "memory_format",
    "ints",
    "bools",
    "floats",
    "[]",
    "[none]",
    "[tensor]",
    "[int,int]",
    "[",
    "]",
)


# -- one mutation -----------------------------------------------------------------------------------------------------


def mutated(draw: random.Random, model: Any, fed: list[Any]) -> list[Any]:
    """Changes a model's node, and the tensors to feed, in one to three ways."""
    node = next(iter(model.graph))
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        if fed and draw.random() < 0.5:
            at = draw.randrange(len(fed))
            fed[at] = _other_tensor(draw, fed[at])
        else:
            _mutate_node(draw, node)
    return fed


def _mutate_node(draw: random.Random, node: Any) -> None:
    import onnx_ir as ir

    own = [
        name
        for name in node.attributes
        if name not in ("operator", "overload_name", "schema", "torch_version", "arguments", "results", "output_types")
    ]
    structural = draw.random() < 0.15 or not own
    name = (
        draw.choice(("arguments", "results", "output_types", "overload_name", "schema", "operator"))
        if structural
        else draw.choice(own)
    )
    attribute = node.attributes[name]
    if draw.random() < 0.03:
        del node.attributes[name]
        return
    if draw.random() < 0.03:
        made = draw.choice(
            (ir.AttrInt64(name, 3), ir.AttrString(name, "x"), ir.AttrInt64s(name, []), ir.AttrFloat32(name, 1.5))
        )
    elif name in ("arguments", "results"):
        tokens = attribute.as_string().split()
        if tokens:
            at = draw.randrange(len(tokens))
            head = tokens[at].partition("=")[0]
            tokens[at] = draw.choice((f"{head}={draw.choice(_KINDS)}", head, f"x{tokens[at]}"))
            if draw.random() < 0.1:
                del tokens[at]
        made = ir.AttrString(name, " ".join(tokens))
    elif attribute.type == ir.AttributeType.INT:
        made = ir.AttrInt64(name, draw.choice(_INTEGERS))
    elif attribute.type == ir.AttributeType.INTS:
        made = ir.AttrInt64s(name, _other_list(draw, list(attribute.as_ints()), _INTEGERS))
    elif attribute.type == ir.AttributeType.STRING:
        made = ir.AttrString(name, draw.choice(_TEXTS))
    elif attribute.type == ir.AttributeType.TENSOR:
        import numpy as np

        values = attribute.as_tensor().numpy()
        changed = _other_list(draw, values.reshape(-1).tolist(), _FLOATS) if values.ndim else draw.choice(_FLOATS)
        made = ir.AttrTensor(name, ir.Tensor(np.asarray(changed, dtype=np.float64)))
    else:
        return
    node.attributes[name] = made


def _other_list(draw: random.Random, values: list[Any], choices: tuple[Any, ...]) -> list[Any]:
    how = draw.randrange(4)
    if how == 0 or not values:
        return values + [draw.choice(choices) for _ in range(draw.choice((1, 1, 2, 70)))]
    if how == 1:
        return values[:-1]
    if how == 2:
        return [draw.choice(choices) for _ in values]
    values[draw.randrange(len(values))] = draw.choice(choices)
    return values


def _other_tensor(draw: random.Random, tensor: Any) -> Any:
    import torch

    how = draw.randrange(6)
    if how == 0:
        kinds = (
            torch.float32,
            torch.float64,
            torch.float16,
            torch.bfloat16,
            torch.int64,
            torch.int32,
            torch.uint8,
            torch.bool,
            torch.uint16,
        )
        return tensor.nan_to_num().to(draw.choice(kinds))
    if how == 1:
        sizes = list(tensor.shape)
        if sizes:
            at = draw.randrange(len(sizes))
            sizes[at] = draw.choice((0, 1, 2, sizes[at] + 1, sizes[at] + 7, max(sizes[at] - 1, 0)))
        return _filled(draw, sizes, tensor)
    if how == 2:
        return _filled(draw, [draw.choice((0, 1, 2, 3, 5)) for _ in range(draw.randrange(6))], tensor)
    if how == 3 or tensor.numel() == 0:
        return _filled(draw, list(tensor.shape), tensor)
    changed = tensor.clone().reshape(-1)
    for _ in range(draw.choice((1, 1, 3))):
        changed[draw.randrange(changed.numel())] = _number(draw, tensor)
    return changed.reshape(tensor.shape)


def _filled(draw: random.Random, sizes: list[int], like: Any) -> Any:
    import torch

    made = torch.empty(sizes, dtype=like.dtype).reshape(-1)
    usual = draw.random() < 0.5 and like.numel() > 0
    source = like.reshape(-1)
    for at in range(made.numel()):
        made[at] = source[at % source.numel()] if usual else _number(draw, like)
    return made.reshape(sizes)


def _number(draw: random.Random, like: Any) -> Any:
    import torch

    if like.dtype == torch.bool:
        return draw.random() < 0.5
    if like.is_floating_point():
        return draw.choice((*_FLOATS, draw.uniform(-3, 3)))
    limits = torch.iinfo(like.dtype)
    return draw.choice([each for each in _INTEGERS if limits.min <= each <= limits.max])


# -- the process that may crash ---------------------------------------------------------------------------------------


def work(seeds: Path, seed: int, start: int, stop: int, deadline: float) -> None:
    """Runs mutations until the deadline and says, before each, which one it is."""
    import onnx_ir as ir
    import torch
    from aten_calls import run

    import opbridge
    from opbridge.onnx import serialize

    torch.set_num_threads(1)
    models = torch.load(seeds, weights_only=False)
    opbridge.session(models[0][0], threads=1)  # what the first one builds and loads is not counted below
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(start, stop):
        if time.monotonic() > deadline:
            return
        draw = random.Random(f"{seed} {number}")
        content, fed = draw.choice(models)
        model = ir.from_proto(_parsed(content))
        said = ""
        print(json.dumps({"start": number}), flush=True)
        try:
            fed = mutated(draw, model, [each.clone() for each in fed])
            said = _described(model, fed)
            print(json.dumps({"node": said}), flush=True)
            for index, (value, tensor) in enumerate(zip(model.graph.inputs, fed, strict=True)):
                value.shape = ir.Shape([f"x{index}_{axis}" for axis in range(tensor.dim())])
                value.type = ir.TensorType(_onnx(tensor))
            session = opbridge.session(serialize.to_bytes(model), threads=1)
        except Exception as error:  # any error is a good end: only a crash is none
            print(json.dumps({"end": "refused", "words": str(error)[:300]}), flush=True)
            continue
        try:
            run(session, fed)
            print(json.dumps({"end": "ran"}), flush=True)
        except Exception as error:  # as above
            print(json.dumps({"end": "raised", "words": str(error)[:300]}), flush=True)


def _parsed(content: bytes) -> Any:
    import onnx

    return onnx.ModelProto.FromString(content)


def _onnx(tensor: Any) -> Any:
    from opbridge.base.dtypes import onnx_dtype

    return onnx_dtype(tensor.dtype)


def _described(model: Any, fed: list[Any]) -> str:
    node = next(iter(model.graph))
    attributes = {name: str(each.value)[:200] for name, each in node.attributes.items()}
    return json.dumps(
        {
            "attributes": attributes,
            "inputs": [f"{each.dtype} {list(each.shape)} {each.reshape(-1)[:12].tolist()}" for each in fed],
        }
    )


# -- the process that watches -----------------------------------------------------------------------------------------


def watch(
    seeds: Path, seed: int, count: int, deadline: float = float("inf")
) -> tuple[collections.Counter[str], list[dict[str, Any]]]:
    """Runs mutations, in a new process after each crash or call that takes too long.

    Args:
        seeds: What `aten_seeds` wrote.
        seed: What the mutations are drawn from.
        count: How many to run.
        deadline: When to stop, as `time.monotonic` has it.
    """
    tally: collections.Counter[str] = collections.Counter()
    crashes: list[dict[str, Any]] = []
    number = 0
    while number < count and time.monotonic() < deadline:
        command = [sys.executable, __file__, "--work", str(seeds), *map(str, (seed, number, count, deadline))]
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=_environment())
            last, node = _followed(process, tally)
            status = process.wait()
            errors.seek(0)
            words = errors.read()[-2000:]
        if status == 0:
            return tally, crashes
        if last is None:
            raise RuntimeError(f"the process that runs mutations does not start: {words}")
        tally["took too long" if status == -9 else "crashed"] += 1
        if status != -9:
            crashes.append({"number": last, "status": status, "node": node, "words": words})
        number = last + 1
    return tally, crashes


def _environment() -> dict[str, str]:
    """Another process imports what this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, [*sys.path, KERNELS]))}


def _followed(process: Any, tally: collections.Counter[str]) -> tuple[int | None, str]:
    """Reads what a process says until it ends; ends it when a call takes too long."""
    import threading

    at: dict[str, Any] = {"number": None, "node": "", "since": time.monotonic() + 120}

    def guard() -> None:
        while process.poll() is None:
            if time.monotonic() - at["since"] > MOST_SECONDS:
                process.kill()
            time.sleep(0.5)

    threading.Thread(target=guard, daemon=True).start()
    for line in process.stdout:
        try:
            said = json.loads(line)
        except ValueError:
            continue  # what an operator printed
        if "start" in said:
            at.update(number=said["start"], node="", since=time.monotonic())
        at["node"] = said.get("node", at["node"])
        if "end" in said:
            tally[said["end"]] += 1
    return at["number"], at["node"]


def run(seconds: float, seed: int, most: int | None = None) -> dict[str, Any]:
    """Tries mutated nodes until the time is over, or `most` of them were tried.

    Making what they begin with takes a quarter of a minute of one core, in addition.

    The calls that they begin with are those of one in twenty of the entries of PyTorch's test database, of other ones
    for each seed.

    Returns:
        The number of nodes, how they ended, and the crashes.
    """
    with tempfile.TemporaryDirectory() as folder:
        seeds = Path(folder) / "seeds.pt"
        command = [sys.executable, KERNELS / "aten_seeds.py", seeds, "20", str(seed % 20)]
        subprocess.run(command, check=True, env=_environment(), capture_output=True)
        tally, crashes = watch(seeds, seed, 10**9 if most is None else most, time.monotonic() + seconds)
    return {"nodes": sum(tally.values()), **tally, "findings": crashes}


if __name__ == "__main__":
    work(Path(sys.argv[2]), *map(int, sys.argv[3:6]), float(sys.argv[6]))
