"""Which inputs of a node sizes of its outputs are computed from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

__all__ = ["SIZE_INPUTS", "size_inputs"]

SIZE_INPUTS: dict[str, tuple[int, ...]] = {
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "Pad": (1,),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Slice": (1, 2),
    "Tile": (1,),
}
"""By the operator, the places of these inputs; a rule may have others besides."""


def size_inputs(node: ir.Node, places: Mapping[str, Sequence[int]]) -> Iterator[ir.Value]:
    """The inputs of a node at the places of its operator, those that are left out excepted."""
    for at in places[node.op_type]:
        value = node.inputs[at] if at < len(node.inputs) else None
        if value is not None:
            yield value
