"""A runtime that lists its kernels, measured: ONNX Runtime's execution provider for CUDA.

No model is run. The kernels that the installed package registers, with their opsets and types, say which nodes run on
the GPU; all others run on the CPU. They are read without a GPU (`opbridge.runtimes.cuda_stand_in`).
"""

from __future__ import annotations

import datetime
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import onnx

from opbridge.coverage.measuring.writing import listed
from opbridge.runtimes import known
from opbridge.runtimes.described import type_named
from opbridge.runtimes.onnxruntime import cuda_provider, kernel_table, onnxruntime_private
from opbridge.targets.measured import TARGETS

__all__ = ["LISTED", "Listed", "kernels", "measured", "text_of"]

LISTED = ("cuda",)
"""The targets that are measured so."""

_DOMAINS = ("", "com.ms.internal.nhwc")


class Listed(NamedTuple):
    """A kernel.

    Attributes:
        domain: The domain of its operator.
        op_type: The operator.
        first: The first opset whose nodes it runs.
        last: The last one.
        types: By type variable of the operator's schema, the types that it takes, as in "float32".
    """

    domain: str
    op_type: str
    first: int
    last: int
    types: Mapping[str, frozenset[str]]

    @property
    def operator(self) -> str:
        """As targets name it: "TopK", "com.microsoft::FusedConv"."""
        return f"{self.domain}::{self.op_type}" if self.domain else self.op_type


def kernels() -> list[Listed]:
    """The kernels of the installed package that run nodes of some opset.

    Raises:
        OpbridgeError: They cannot be read here.
    """
    found = []
    for domain in sorted({*onnxruntime_private.schema_versions(), *_DOMAINS}):
        for each in onnxruntime_private.kernel_definitions(domain, cuda_provider.CUDA):
            opsets = kernel_table.opsets_of(domain, each.op_type, *each.versions)
            if opsets is not None:
                named = {name: frozenset(map(_type, types)) for name, types in each.types.items()}
                found.append(Listed(domain, each.op_type, *opsets, named))
    return found


def measured(name: str) -> tuple[str, dict[str, int], int, float]:
    """The text of a target's file, how many kernels of how many operators there are, the facts, and the seconds."""
    start = time.perf_counter()
    found = kernels()
    said = f"the kernels that {known.label(name)} registers for CUDA, read from the package"
    source = f"measured: {said}, {datetime.date.today()}"
    text, facts = text_of(name, known.find(name).version(), source, found)
    counts = {"kernels": len(found), "operators": len({each.operator for each in found})}
    return text, counts, facts, time.perf_counter() - start


def text_of(name: str, version: str, source: str, found: Sequence[Listed]) -> tuple[str, int]:
    """The target's file, and how many facts it has.

    Args:
        name: The target.
        version: The version that was measured.
        source: Where the facts are from.
        found: Its kernels.
    """
    operators = sorted({each.operator for each in found} - {"MemcpyFromHost", "MemcpyToHost"} | {"Constant"})
    facts = [
        {"kind": "only", "operators": operators},
        {"kind": "only", "operators": _functions(operators)},
        *_revisions(found),
        *_types(found),
    ]
    facts = [each for each in facts if each["operators"]]
    lines = [
        "# Written by `opbridge targets measure`; do not edit it.",
        "",
        f"name = {json.dumps(name)}",
        f"title = {json.dumps(TARGETS[name][1])}",
        f"versions = [{json.dumps('.'.join(version.split('.')[:2]))}]",
        f"taken = {listed(operators)}",
        'replaces = ["only", "revision", "types"]',
        "",
        "[sources]",
        f'"measured" = {json.dumps(source)}',
    ]
    for fact in facts:
        lines += ["", "[[fact]]"]
        for key, value in fact.items():
            lines.append(f"{key} = {listed(value) if isinstance(value, list) else json.dumps(value)}")
        lines += ['source = "measured"', 'severity = "warning"', f"note = {json.dumps(_NOTE)}"]
    return "\n".join(lines) + "\n", len(facts)


_NOTE = "ONNX Runtime computes it on the CPU instead."


def _functions(operators: Sequence[str]) -> list[str]:
    """The operators without a kernel, on the GPU and on the CPU, that ONNX Runtime replaces by their ONNX function."""
    on_cpu = kernel_table.cpu_kernels()
    return sorted(
        {
            each.name
            for each in onnx.defs.get_all_schemas()
            if each.domain == "" and (each.has_function or each.has_context_dependent_function)
            if each.name not in operators and each.name not in on_cpu and not each.deprecated
        }
    )


def _revisions(found: Sequence[Listed]) -> Iterator[dict[str, Any]]:
    """The operators whose newest form has no kernel, by the opset up to which there are kernels."""
    newest = max((each.last for each in found if not each.domain), default=0)
    last: dict[str, int] = defaultdict(int)
    for each in found:
        if not each.domain:
            last[each.op_type] = max(last[each.op_type], each.last)
    by_opset: dict[int, list[str]] = defaultdict(list)
    for operator, opset in last.items():
        if opset < newest:
            by_opset[opset].append(operator)
    for opset, operators in sorted(by_opset.items()):
        yield {"kind": "revision", "operators": sorted(operators), "newest": opset}


def _types(found: Sequence[Listed]) -> Iterator[dict[str, Any]]:
    """The inputs that take some of the types of their schema only, with those of all kernels of an operator."""
    taken: dict[tuple[str, str], set[str]] = defaultdict(set)
    open_: set[tuple[str, str]] = set()
    for each in found:
        if each.domain:
            continue
        schema, newest = _schema(each.op_type, each.last), _schema(each.op_type, onnx.defs.onnx_opset_version())
        if schema is None or newest is None or _variables(schema) != _variables(newest):
            continue  # its type variables are those of an older form
        for variable in {one.type_str for one in schema.inputs if "(" not in one.type_str}:
            if variable in each.types:
                taken[each.op_type, variable] |= each.types[variable]
            else:
                open_.add((each.op_type, variable))
    grouped: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = defaultdict(list)
    for (op_type, variable), types in taken.items():
        schema = _schema(op_type, onnx.defs.onnx_opset_version())
        if schema is None:
            continue
        named: Sequence[str] = next(
            (each.allowed_type_strs for each in schema.type_constraints if each.type_param_str == variable), []
        )
        allowed = {_type(each) for each in named if each.startswith("tensor(")}
        if (op_type, variable) in open_ or not allowed - types or any("(" in each for each in types):
            continue
        inputs = tuple(sorted(each.name for each in schema.inputs if each.type_str == variable))
        if inputs:
            grouped[inputs, tuple(sorted(types))].append(op_type)
    for (names, allowed_types), operators in sorted(grouped.items(), key=lambda each: sorted(each[1])):
        yield {"kind": "types", "operators": sorted(operators), "inputs": list(names), "allowed": list(allowed_types)}


def _variables(schema: Any) -> list[tuple[str, str]]:
    return [(each.name, each.type_str) for each in schema.inputs]


def _schema(op_type: str, opset: int) -> Any:
    """The schema of an operator at an opset; None for one that ONNX does not have there, as those that it removed."""
    try:
        return onnx.defs.get_schema(op_type, min(opset, onnx.defs.onnx_opset_version()), "")
    except onnx.defs.SchemaError:
        return None


def _type(text: str) -> str:
    """ "float32" for "tensor(float)"; what is no tensor stays as it is."""
    return type_named(text) or text
