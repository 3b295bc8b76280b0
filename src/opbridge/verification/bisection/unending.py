"""Whether a run of a model may never end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx

from opbridge.onnx.subgraphs import bodies

__all__ = ["MOST_ITERATIONS", "may_never_end"]

MOST_ITERATIONS = 1 << 20
"""A Loop with a constant number of iterations up to this one ends, as far as the number is the reason."""


def may_never_end(model: onnx.ModelProto) -> bool:
    """Whether a model has a Loop that only values end: its number of iterations is no constant, or a very large one.

    Loops in bodies and in functions count too.
    """
    stored = {each.name: each for each in model.graph.initializer}
    return _has_unending(model.graph.node, stored) or any(_has_unending(each.node, {}) for each in model.functions)


def _has_unending(nodes: Iterable[onnx.NodeProto], outer: Mapping[str, onnx.TensorProto]) -> bool:
    known = dict(outer)
    for node in nodes:
        known.update((name, each.t) for each in node.attribute if each.name == "value" for name in node.output)
        if node.op_type == "Loop" and node.domain in ("", "ai.onnx") and not _is_short(known.get(node.input[0])):
            return True
        if any(
            _has_unending(body.node, {**known, **{each.name: each for each in body.initializer}})
            for body in bodies(node)
        ):
            return True
    return False


def _is_short(count: onnx.TensorProto | None) -> bool:
    """Whether a number of iterations is known and small."""
    if count is None or count.data_location == onnx.TensorProto.EXTERNAL:
        return False
    numbers = onnx.numpy_helper.to_array(count).reshape(-1)
    return numbers.size == 1 and int(numbers[0]) <= MOST_ITERATIONS
