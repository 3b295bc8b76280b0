"""Operators that stay one node: the aten node, its older form, the fallthrough node.

In: a node of the captured graph, or an `aten` node of an ONNX file.
Out: one ONNX node, or the call that the `aten` node describes.
May import: onnx, graph, base.
"""
