"""Nodes that are plug-ins of TensorRT: the attributes by which its ONNX parser finds them.

The parser imports a node that it has no importer for as a plug-in: of the name of its operator, the version
`plugin_version` ("1" without it), and the namespace `plugin_namespace`. Since TensorRT 10.10 it also searches in the
namespace that is called like the node's domain. A node with the attributes is a plug-in even where ONNX has an operator
of that name, as the parser does not regard domains.
"""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["BUILTIN_DOMAIN", "INT32", "NAMESPACE", "OUTPUTS", "VERSION", "is_plugin", "marking", "remedy"]

NAMESPACE = "plugin_namespace"
VERSION = "plugin_version"
OUTPUTS = "plugin_outputs"
"""Of plug-ins that opbridge builds: how many outputs a node has whose operator returns a list."""

INT32 = range(-(1 << 31), 1 << 31)
"""The integers that the parser gives to a plug-in as they are; it cuts others to 32 bits (measured on TensorRT-RTX)."""

BUILTIN_DOMAIN = "opbridge_ops"


def is_plugin(node: ir.Node) -> bool:
    """Whether a node names its plug-in."""
    return node.domain not in ("", "ai.onnx") and NAMESPACE in node.attributes


def remedy(node: ir.Node) -> str:
    """Which library a plug-in needs; "" where only its user knows."""
    if node.domain != BUILTIN_DOMAIN:
        return ""
    return (
        "Build the library of the built-in kernels with opbridge build --tensorrt, and load it with trtexec "
        f"--dynamicPlugins={BUILTIN_DOMAIN}.tensorrt.so, or IPluginRegistry::loadLibrary."
    )


def marking(node: ir.Node, target: str) -> str:
    """What to do about a built-in kernel that does not name its plug-in; "" for other nodes."""
    if node.domain != BUILTIN_DOMAIN:
        return ""
    return (
        f"Export the model with --target {target}, which marks the node as a plug-in where its kernel has one for CUDA "
        "devices. Otherwise, use other operators."
    )
