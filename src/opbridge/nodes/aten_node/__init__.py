"""The `aten` node: one ONNX node that calls one PyTorch operator. `format` describes what such a node holds.

format          the node's identity, its attributes, and the kinds that describe arguments and results
encoding        a call of an operator -> the inputs and attributes of its node
decoding        a node -> the call that it describes
call            a decoded call, and how it is made in Python
older_form      the node that TorchScript-based exporters wrote, decoded
older_models    models with such nodes, rewritten into the current form
"""

from __future__ import annotations

from opbridge.nodes.aten_node.call import AtenCall, called_operators
from opbridge.nodes.aten_node.decoding import decode
from opbridge.nodes.aten_node.encoding import Encoded, bind_arguments, encode
from opbridge.nodes.aten_node.format import DOMAIN, OP_TYPE, VERSION, Input, leaves

__all__ = [
    "DOMAIN",
    "OP_TYPE",
    "VERSION",
    "AtenCall",
    "Encoded",
    "Input",
    "bind_arguments",
    "called_operators",
    "decode",
    "encode",
    "leaves",
]
