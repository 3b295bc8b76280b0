"""Models of one aten node each, made from a call of an operator in PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

import opbridge
from opbridge.base.dtypes import onnx_dtype
from opbridge.nodes.aten_node import DOMAIN, OP_TYPE, VERSION, Input, encode, leaves
from opbridge.onnx import serialize


def as_inputs(value: Any) -> Any:
    """An argument in which tensors are inputs of the node."""
    if isinstance(value, torch.Tensor):
        return Input("complex_tensor" if value.is_complex() else "tensor", value)
    return [as_inputs(item) for item in value] if isinstance(value, (list, tuple)) else value


def as_outputs(result: Any) -> list[torch.Tensor]:
    """What the node's outputs have to be for what the operator returned."""
    found = [
        each if isinstance(each, torch.Tensor) else torch.tensor(each, dtype=_number(each)) for each in leaves(result)
    ]
    return [torch.view_as_real(each.resolve_conj()) if each.is_complex() else each.resolve_neg() for each in found]


def _number(value: Any) -> torch.dtype:
    return torch.bool if isinstance(value, bool) else torch.int64 if isinstance(value, int) else torch.float64


def node_model(
    target: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
) -> tuple[ir.Model, list[torch.Tensor]]:
    """A model of one call, with the tensors to feed it."""
    made = encode(
        target, [as_inputs(each) for each in args], {name: as_inputs(each) for name, each in kwargs.items()}, result
    )
    fed = [torch.view_as_real(each.resolve_conj()) if each.is_complex() else each for each in made.inputs]
    inputs = [_value(f"x{index}", each) for index, each in enumerate(fed)]
    outputs = [_value(f"y{index}", each) for index, each in enumerate(as_outputs(result))]
    node = ir.Node(DOMAIN, OP_TYPE, inputs, list(made.attributes.values()), outputs=outputs, version=VERSION)
    graph = ir.Graph(inputs, outputs, nodes=[node], opset_imports={"": 21, DOMAIN: VERSION}, name="one")
    model = ir.Model(graph, ir_version=10)
    model.metadata_props["opbridge.kernels"] = f"{DOMAIN}::{OP_TYPE}"
    return model, fed


def _value(name: str, tensor: torch.Tensor) -> ir.Value:
    shape = ir.Shape([f"{name}_{axis}" for axis in range(tensor.dim())])
    return ir.Value(name=name, shape=shape, type=ir.TensorType(onnx_dtype(tensor.dtype)))


def session_of(model: ir.Model, aten: Sequence[str] = ()) -> Any:
    return opbridge.session(serialize.to_bytes(model), aten=aten, threads=1)


def run(session: Any, fed: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs for inputs of any dtype that ONNX has."""
    from opbridge.verification import exchange

    names = [each.name for each in session.get_outputs()]
    feeds = {f"x{index}": each.contiguous() for index, each in enumerate(fed)}
    return exchange.run(session, feeds, names)


def call(
    target: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], aten: Sequence[str] = ()
) -> None:
    """Makes a call in PyTorch and by a node, and compares."""
    given, named = pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, (list(args), dict(kwargs)))
    with torch.no_grad():
        expected = target(*given, **named)
    model, fed = node_model(target, args, kwargs, expected)
    actual = run(session_of(model, aten), fed)
    wanted = as_outputs(expected)
    assert len(actual) == len(wanted), (len(actual), len(wanted))
    for got, want in zip(actual, wanted, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, want.dtype, got.shape, want.shape)
        torch.testing.assert_close(got, want, equal_nan=True)
