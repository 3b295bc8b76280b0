"""Which value of one file is which of another: by names, or by the operators that give them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import onnx

from opbridge.onnx.subgraphs import GraphIndex

__all__ = ["Matched", "matched"]

_ENOUGH = 0.5
"""The share of a file's nodes with the name and operator of one of the other's from which on names are believed."""


class Matched(dict[str, str]):
    """By the name of a value of the first file, that of the second.

    Attributes:
        how: By what they were matched: "names" or "operators".
        share: The share of the nodes of the smaller file that have a counterpart.
    """

    how = "names"
    share = 1.0


def matched(left: GraphIndex, right: GraphIndex, digest: Callable[[onnx.TensorProto], bytes]) -> Matched:
    """Matches the values of two files.

    1. Where at least half of the nodes of the smaller file have an output of the same name by the same operator in the
       other one, values of the same name are the same, whichever operators give them.
    2. Else nodes are the same that have the same operator and read the same values, and weights of the same content,
       or, where there are none, of the same type and shape. Of several, the first of one is the first of the other.
    3. Outputs are the same by their position.

    Args:
        left: The first file.
        right: The second file.
        digest: What stands for the content of a weight.
    """
    least = max(1, min(len(left.nodes), len(right.nodes)))
    common = {name: name for name in left.makers if name in right.makers}
    alike = {
        left.makers[name]
        for name in common
        if left.nodes[left.makers[name]].op_type == right.nodes[right.makers[name]].op_type
    }
    if len(alike) >= _ENOUGH * least:
        found = Matched(common)
        found.share = len(alike) / least
    else:
        found = Matched(_by_operators(left, right, digest))
        found.how = "operators"
        found.share = len({left.makers[name] for name in found}) / least
    taken = {other: name for name, other in found.items()}
    for name, other in zip(left.outputs, right.outputs, strict=False):
        if name in left.makers and other in right.makers and found.get(name) != other:
            if other in taken:
                del found[taken[other]]
            found[name] = other
    return found


def _by_operators(left: GraphIndex, right: GraphIndex, digest: Callable[[onnx.TensorProto], bytes]) -> dict[str, str]:
    found = dict(zip(left.inputs, right.inputs, strict=False))
    own = {*right.inputs, *right.makers}
    # A node of the second file by what it reads: with the content of weights, and without.
    exact: dict[tuple[object, ...], list[int]] = {}
    loose: dict[tuple[object, ...], list[int]] = {}
    digests: dict[tuple[int, str], bytes] = {}

    def read(index: GraphIndex, name: str, with_content: bool) -> object:
        tensor = index.constants.get(name)
        if tensor is None:
            return name if index is right else found.get(name)
        kind = (tensor.data_type, tuple(tensor.dims))
        if not with_content:
            return kind
        key = (id(index), name)
        if key not in digests:
            digests[key] = digest(tensor)
        return (*kind, digests[key])

    def key(index: GraphIndex, at: int, with_content: bool) -> tuple[object, ...] | None:
        node = index.nodes[at]
        names = [read(index, name, with_content) if name else "" for name in node.input]
        if any(each is None for each in names):
            return None
        attributes = b"".join(sorted(each.SerializeToString() for each in node.attribute)) if with_content else b""
        return (node.domain, node.op_type, len(node.output), *names, hashlib.sha1(attributes).digest())

    for at in range(len(right.nodes)):
        for table, with_content in ((exact, True), (loose, False)):
            made = key(right, at, with_content)
            if made is not None:
                table.setdefault(made, []).append(at)
    used: set[int] = set()
    for at, node in enumerate(left.nodes):
        for table, with_content in ((exact, True), (loose, False)):
            made = key(left, at, with_content)
            free = [other for other in table.get(made, ()) if other not in used] if made is not None else []
            if free:
                used.add(free[0])
                pairs = zip(node.output, right.nodes[free[0]].output, strict=True)
                found.update((name, other) for name, other in pairs if name and other)
                break
    return {name: other for name, other in found.items() if name in left.makers and other in own}
