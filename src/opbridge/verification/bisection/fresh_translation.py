"""The nodes that opbridge makes of one operator now, beside those that a file has of it.

PyTorch gives what an operator returns, and not the values within its translation. A new translation has these values:
where it agrees with PyTorch and has the nodes of the file in the same order, each of its values is that of the file's
node in the same place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx
import torch
from torch.fx import Node

from opbridge.errors import OpbridgeError
from opbridge.fixing import repaired_copy
from opbridge.onnx import serialize, subgraphs
from opbridge.onnx.subgraphs import bodies
from opbridge.request import export_request
from opbridge.targets import onnxruntime
from opbridge.torchscript.capture_methods import capture_model
from opbridge.verification import exchange
from opbridge.verification.bisection.files import FileSide
from opbridge.verification.bisection.same_nodes import with_names_of
from opbridge.verification.intermediate import keyed

__all__ = ["fresh_translation", "holds_nodes"]


def holds_nodes(part: onnx.ModelProto) -> bool:
    """Whether nodes of a part hold others: a Loop, an If, or a call of a function."""
    return bool(part.functions) or any(True for node in part.graph.node for _ in bodies(node))


def fresh_translation(
    file: FileSide, part: onnx.ModelProto, given: Mapping[str, torch.Tensor], call: tuple[Node, str, Sequence[Any]]
) -> onnx.ModelProto | None:
    """A new translation of an operator, whose values have the names of those of the file.

    It is for the opset and the target that the file says it was exported for.

    Args:
        file: The file.
        part: Its nodes that were made of the operator, with one output.
        given: The inputs of the part.
        call: The node of the captured graph, the key of the value, and the values of the nodes that it reads.

    Returns:
        None where opbridge cannot translate the operator by itself, or the translation has other nodes.
    """
    for dims in _possible_dims(file, part):
        try:
            model = _translated(file, given, call, dims)
        except OpbridgeError:  # it has no translation without the rest of the model
            continue
        named = None if model is None else with_names_of(model, part)
        if named is not None:
            return named
    return None


_Dims = Mapping[str, Mapping[int, str]]


def _possible_dims(file: FileSide, part: onnx.ModelProto) -> Iterator[_Dims]:
    """The dynamic dimensions of the inputs of a part: those that the file declares, and none."""
    found: dict[str, dict[int, str]] = {}
    names: dict[str, str] = {}
    for name in subgraphs.inputs_of(part):
        declared = file.index.types.get(name)
        for at, dim in enumerate(declared.type.tensor_type.shape.dim if declared is not None else ()):
            if dim.dim_param:
                found.setdefault(name, {})[at] = names.setdefault(dim.dim_param, f"size{len(names)}")
    if found:
        yield found
    yield {}


class _Call(torch.nn.Module):
    """One operator, of which some arguments are inputs."""

    def __init__(self, node: Node, key: str, values: Mapping[Node, Any], inputs: Sequence[Node]) -> None:
        super().__init__()
        self._node, self._key, self._values, self._inputs = node, key, dict(values), list(inputs)

    def forward(self, *given: torch.Tensor) -> Any:
        values = {**self._values, **dict(zip(self._inputs, given, strict=True))}
        args, kwargs = torch.fx.node.map_arg((self._node.args, self._node.kwargs), values.__getitem__)
        target: Any = self._node.target
        return dict(keyed(self._node.name, target(*args, **kwargs)))[self._key]


def _translated(
    file: FileSide, given: Mapping[str, torch.Tensor], call: tuple[Node, str, Sequence[Any]], dims: _Dims
) -> onnx.ModelProto | None:
    """A new translation, whose inputs have the names of those of the part; None where it takes none of them.

    Raises:
        OpbridgeError: There is none.
    """
    node, key, arguments = call
    values = dict(zip(node.all_input_nodes, arguments, strict=True))
    names = {each: name for each, value in values.items() if (name := _same(value, given)) is not None}
    if not names:
        return None
    said = {each.key: each.value for each in file.index.model.metadata_props}
    target, _, version = said.get("opbridge.target", "").partition(" ")
    request = export_request(
        _Call(node, key, {each: value for each, value in values.items() if each not in names}, list(names)).eval(),
        tuple(values[each] for each in names),
        input_names=list(names.values()),
        dynamic_shapes=tuple(dict(dims.get(name, {})) for name in names.values()) if dims else None,
        opset_version=next(each.version for each in file.index.model.opset_import if each.domain in ("", "ai.onnx")),
        target=None if target in ("", onnxruntime.NAME) else f"{target}:{version}",
        verify=False,
    )
    captured = capture_model(request)
    built, plan = captured.build(captured.plan())
    if not plan.ok or plan.faults:
        return None
    if captured.target.limits is not None:
        built = repaired_copy(built, [captured.target.limits]).model
    return onnx.load_from_string(serialize.to_bytes(built))


def _same(value: Any, given: Mapping[str, torch.Tensor]) -> str | None:
    """The input that holds a value."""
    if not isinstance(value, torch.Tensor):
        return None
    form = exchange.runtime_form(value)
    for name, each in given.items():
        if each.dtype == form.dtype and each.shape == form.shape:
            same = (each == form) | ((each != each) & (form != form))  # NaN is the same as NaN here
            if bool(same.all()):
                return name
    return None
