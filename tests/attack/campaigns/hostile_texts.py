"""Texts for the parser of schemas and the reader of aten nodes, mutated towards code that none has reached yet.

Both are compiled with the sanitizers of addresses and of undefined behaviour; see `parsers.cpp`. A text that ends the
process, takes ten seconds or raises an error that is not meant for texts is a finding. Building takes about ten seconds
of one core, in addition.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from opbridge.kernels.compiler import INCLUDE, find_compiler

__all__ = ["run"]

_SOURCE = Path(__file__).parents[1] / "parsers.cpp"
_ATEN = INCLUDE.parent / "aten"
_FLAGS = (
    *("-std=c++17", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "-fsanitize-coverage=trace-pc",
)
_SEEDS = 300
_MOST_FINDINGS = 20
_KINDS = {
    **{"Tensor": "tensor", "int": "int", "SymInt": "int", "float": "float", "bool": "bool", "Scalar": "int"},
    **{"str": "str", "ScalarType": "dtype", "Layout": "layout", "Device": "device", "MemoryFormat": "memory_format"},
    **{"int[]": "ints", "SymInt[]": "ints", "float[]": "floats", "bool[]": "bools", "Tensor[]": "[tensor,tensor]"},
    "Tensor?[]": "[tensor,none]",
}
_VALUES = {
    **{"int": "3", "float": "0.5", "bool": "1", "str": "mean", "dtype": "float32", "layout": "strided"},
    **{"device": "cpu", "memory_format": "channels_last", "ints": "2 3", "floats": "0.5 2", "bools": "0 1"},
}


def run(seconds: float, seed: int, most: int | None = None) -> dict[str, Any]:
    """Tries texts until the time is over, or `most` were findings.

    Returns:
        The number of texts, of those that were taken, of seeds and of texts that reached new code, and the findings.
    """
    counts: dict[str, int] = {"texts": 0, "taken": 0, "seeds": 0, "kept": 0}
    findings: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="opbridge-attack-") as folder:
        program = build(Path(folder))
        seeds, present = Path(folder, "seeds"), Path(folder, "present")
        seeds.write_bytes(b"".join(map(_entry, _texts(random.Random(seed)))))
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and len(findings) < (most or _MOST_FINDINGS):
            command = [program, str(left), str(seed + len(findings)), seeds, present]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace")
            if done.returncode == 0:
                counts = {name: value + json.loads(done.stdout)[name] for name, value in counts.items()}
                continue
            text = present.read_bytes()
            size, _, rest = text.partition(b"\n")
            words = [line for line in done.stderr.splitlines() if "rror" in line] or [f"ended with {done.returncode}"]
            findings.append({"what": words[0][:300], "text": rest[: int(size)].decode(errors="backslashreplace")})
    return {**counts, "findings": findings}


def build(folder: Path) -> Path:
    """Compiles the program into a folder."""
    program = folder / "parsers"
    sources = [_SOURCE, *(_ATEN / f"{name}.cpp" for name in ("node", "allowed", "evidence"))]
    command = [*find_compiler().command, *_FLAGS, f"-I{INCLUDE}", *sources, "-o", program]
    subprocess.run(command, check=True)
    return program


def _entry(text: str) -> bytes:
    content = text.encode()
    return b"%d\n%s" % (len(content), content)


def _texts(draw: random.Random) -> Iterator[str]:
    """Schemas as torch prints them, and nodes for them."""
    schemas = sorted(str(each) for each in torch._C._jit_get_all_schemas() if str(each).startswith("aten::"))
    for schema in draw.sample(schemas, _SEEDS):
        yield schema
        yield _node(schema)


def _node(schema: str) -> str:
    """A node for an operator: lines "key=value"."""
    name, _, rest = schema.partition("(")
    inside, _, returned = rest.rpartition(" -> ")
    operator, _, overload = name.partition(".")
    lines = {"schema": schema, "operator": operator, "overload_name": overload, "torch_version": "2.15"}
    arguments, inputs = [], 0
    for each in _items(inside.removesuffix(")")):
        type_, _, rest = each.rpartition(" ")
        kind = "none" if type_.endswith("?") else _KINDS.get(type_, "int")
        arguments.append(f"{rest}:{type_}={kind}")
        inputs += kind.count("tensor")
        if kind in _VALUES:
            lines[rest] = _VALUES[kind]
    returned = returned[1:-1] if returned.startswith("(") else returned
    results = [each.partition(" ")[0] for each in _items(returned)]
    lines["arguments"] = " ".join(arguments)
    lines["results"] = " ".join(f"{each}={_KINDS.get(each, 'int')}" for each in results)
    outputs = lines["results"].count("tensor")
    lines.update(inputs=str(inputs), outputs=str(outputs), output_types=" ".join(["1"] * outputs))
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def _items(text: str) -> list[str]:
    """The arguments or results of a schema, each as its type without aliases and lengths, and its name."""
    plain = re.sub(r"=(\"[^\"]*\"|\[[^]]*\]|[^,]*)", "", text)
    plain = re.sub(r"\[\d+\]", "[]", re.sub(r"\([^)]*\)", "", plain))
    return [each for each in plain.split(", ") if each not in ("", "*")]
