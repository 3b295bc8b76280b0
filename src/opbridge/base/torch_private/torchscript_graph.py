"""The graphs of torch.onnx's TorchScript exporter: the `g` of symbolic functions, values, types, lists and blocks.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.onnx._internal.torchscript_exporter import jit_utils

__all__ = [
    "GraphContext",
    "absent_input",
    "block_input",
    "block_output",
    "is_value",
    "list_value",
    "new_context",
    "none_value",
    "op_with_blocks",
    "parsed_kinds",
    "reset_shape_inference",
    "set_dtype",
    "set_tensor_type",
    "setting_code",
    "tensor_list",
]


@dataclasses.dataclass
class GraphContext(jit_utils.GraphContext):
    """The `g` that symbolic functions are given.

    Attributes:
        functions: The onnxscript functions that were called through it, by domain and name. torch's own context puts
            them into the process's registry instead, where they stay.
        check: Called with name, opset, number of inputs and kinds of attributes of each of ONNX's own operators, before
            it is built.
    """

    functions: dict[tuple[str, str], Any] = dataclasses.field(default_factory=dict)
    check: Callable[[str, int, int, dict[str, str]], object] | None = None

    def op(self, opname: str, *raw_args: Any, outputs: int = 1, **kwargs: Any) -> Any:
        """A node, as torch's context builds it; one of ONNX's own operators is checked before."""
        domain, _, name = opname.rpartition("::")
        for each in raw_args:
            if each is not None and not isinstance(each, (torch._C.Value, torch.Tensor)):
                raise TypeError(
                    f"it gave {name} {each!r} as an input, and inputs are values of the graph; write "
                    f"g.op('Constant', value_t=torch.tensor({each!r}))"
                )
        if self.check is not None and domain in ("", "onnx"):
            self.check(name, self.opset, len(raw_args), _kinds(kwargs))
        return super().op(opname, *raw_args, outputs=outputs, **kwargs)

    def onnxscript_op(self, onnx_fn: Any, *raw_args: Any, outputs: int = 1, **kwargs: Any) -> Any:
        """A call of an onnxscript function, as torch's context builds it."""
        domain, name = onnx_fn.opset.domain, onnx_fn.name
        self.functions[domain, name] = onnx_fn
        return self.op(f"{domain}::{name}", *raw_args, outputs=outputs, **kwargs)


def _kinds(attributes: Mapping[str, Any]) -> dict[str, str]:
    """The kinds of attributes as `g.op` takes them, `axis_i=1`: a letter, and an s behind it for a list."""
    kinds = {}
    for key, value in attributes.items():
        found = jit_utils._ATTR_PATTERN.match(key)
        if found is not None and value is not None:
            is_list = isinstance(value, Iterable) and not isinstance(value, (str, bytes, torch.Tensor))
            kinds[found[1]] = found[2] + "s" * is_list
    return kinds


def new_context(opset: int, check: Callable[..., object] | None = None) -> GraphContext:
    """A context over an empty graph; `check` is the context's."""
    graph = torch._C.Graph()
    return GraphContext(
        graph=graph,
        block=graph.block(),
        opset=opset,
        original_node=None,
        params_dict={},
        env={},
        values_in_env=set(),
        check=check,
    )


def setting_code(setting: torch.dtype | torch.layout | torch.memory_format) -> int:
    """The number by which TorchScript passes a dtype, a layout or a memory format."""
    if isinstance(setting, torch.dtype):
        return int(torch.onnx.JitScalarType.from_dtype(setting))
    order = (
        (torch.strided, torch.sparse_coo, torch.sparse_csr, torch._mkldnn)
        if isinstance(setting, torch.layout)
        else (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)
    )
    return order.index(setting)


def reset_shape_inference(opset: int) -> None:
    """Makes torch's shape inference, which `g.op` runs, forget what it knows of other graphs.

    It keeps shapes by the names of values, and every graph of ours has the same ones.
    """
    torch._C._jit_pass_onnx_graph_shape_type_inference(torch._C.Graph(), {}, opset)


def set_tensor_type(value: Any, dtype: torch.dtype, sizes: Sequence[int | None]) -> None:
    """Gives a graph's value a dtype and sizes, None for those that are not known."""
    # Memory that is never touched costs nothing; a tensor without any would not be complete, with strides and device.
    value.inferTypeFrom(torch.empty([1 if size is None else size for size in sizes], dtype=dtype))
    if None in sizes:
        value.setType(value.type().with_sizes(list(sizes)))


def parsed_kinds(function: Callable[..., Any]) -> tuple[str, ...]:
    """The kinds of the arguments after `g` in `@parse_args`, such as ("v", "i"); () without that decorator."""
    return tuple(getattr(function, "_arg_descriptors", None) or ())


def is_value(candidate: object) -> bool:
    """Whether an object is a value of a TorchScript graph."""
    return isinstance(candidate, torch._C.Value)


def none_value(graph: Any) -> Any:
    """A new `prim::Constant` of NoneType."""
    node = graph.create("prim::Constant", [], 1)
    graph.insertNode(node)
    node.output().setType(torch._C.NoneType.get())
    return node.output()


def list_value(graph: Any, items: Sequence[Any], *, of_tensors: bool) -> Any:
    """A new `prim::ListConstruct` of tensors or of integers."""
    node = graph.create("prim::ListConstruct", items, 1)
    graph.insertNode(node)
    element = torch._C.TensorType.get() if of_tensors else torch._C.IntType.get()
    node.output().setType(torch._C.ListType(element))
    return node.output()


# What the nodes of translations need when they are built in a graph of the exporter's


def op_with_blocks(
    g: Any, kind: str, inputs: Sequence[Any], outputs: int, blocks: int, attributes: dict[str, Any]
) -> tuple[Any, Sequence[Any]]:
    """A node with blocks: its outputs, and a context for each block."""
    made, contexts, _ = jit_utils.add_op_with_blocks(g, kind, *inputs, outputs=outputs, n_blocks=blocks, **attributes)
    return made, contexts


def block_input(block: Any) -> Any:
    """A new input of a block."""
    return block.addInputToBlock()


def block_output(block: Any, value: Any) -> None:
    """A further output of a block."""
    block.registerOutput(value)


def absent_input(g: Any) -> Any:
    """What the exporter takes for an optional input that is left out."""
    value = g.op("prim::Constant")
    value.setType(torch._C.OptionalType.ofTensor())
    return value


def tensor_list(g: Any, values: Sequence[Any]) -> Any:
    """A list of tensors as one value."""
    made = g.op("prim::ListConstruct", *values)
    made.setType(torch._C.ListType.ofTensors())
    return made


def set_dtype(value: Any, dtype: torch.dtype) -> None:
    """Gives a graph's value a dtype where inference found none."""
    kind = value.type()
    if kind.kind() == "TensorType" and kind.dtype() is None:
        value.setType(kind.with_dtype(dtype))
