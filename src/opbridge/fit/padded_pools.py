"""A correction for ONNX Runtime, which pads the input of MaxPool with the lowest number where a model pads with zeros.

ONNX Runtime (1.31.1) takes a Pad of zeros before MaxPool for padding of the MaxPool itself, whose value is the lowest
one. It leaves a MaxPool alone that has `auto_pad`:

    1. Without padding of its own, MaxPool gets auto_pad="VALID", which means that.
    2. Where it pads too, or rounds sizes up, a Max of one input keeps the two apart.
"""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["keep_apart"]


def keep_apart(model: ir.Model) -> None:
    """Rewrites each MaxPool that follows a Pad of zeros, in place.

    Args:
        model: The model. The types of its values are known.
    """
    for graph in [model.graph, *model.graph.subgraphs()]:
        for node in list(graph):
            if node.op_type == "MaxPool" and node.domain == "" and len(node.outputs) == 1:
                padded = node.inputs[0]
                producer = padded.producer() if padded is not None else None
                if padded is not None and producer is not None and _pads_with_zeros(producer):
                    _rewrite(graph, node, padded)


def _pads_with_zeros(node: ir.Node) -> bool:
    """Whether a node may be a Pad of zeros: the value may be known only at run time."""
    if node.op_type != "Pad" or node.domain != "" or node.attributes.get_string("mode", "constant") != "constant":
        return False
    value = node.inputs[2] if len(node.inputs) > 2 else None
    constant = ir.convenience.get_const_tensor(value) if value is not None else None
    return constant is None or not constant.numpy().any()


def _rewrite(graph: ir.Graph, node: ir.Node, padded: ir.Value) -> None:
    pads = node.attributes.get_ints("pads", ())
    if not any(pads) and not node.attributes.get_int("ceil_mode", 0):
        node.attributes.pop("pads", None)
        node.attributes.add(ir.AttrString("auto_pad", "VALID"))
        return
    kept = ir.node("Max", [padded], name=f"{node.name}/input")
    kept.metadata_props.update({key: text for key, text in node.metadata_props.items() if key != "opbridge.node"})
    kept.outputs[0].name, kept.outputs[0].type, kept.outputs[0].shape = f"{node.name}/input", padded.type, padded.shape
    graph.insert_before(node, kept)
    node.replace_input_with(0, kept.outputs[0])
