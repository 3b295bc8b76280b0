"""Operators that stay one node: the aten node, its older form, the fallthrough node.

In: a node of the captured graph, or of a file.
Out: one ONNX node, or the call that it stands for.
May import: onnx, graph, base.
"""
