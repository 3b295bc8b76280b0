"""Where two sides part whose values are matched by what they hold.

What is the same on both sides is known; what is not is either computed otherwise, or wrong. The first operator whose
inputs are known and whose value the other side does not have, on the way to a wrong output, is where the sides part.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
import torch
from torch.fx import Node

from opbridge.errors import UsageError
from opbridge.onnx.subgraphs import GraphIndex
from opbridge.verification.bisection import by_values
from opbridge.verification.bisection.files import FileSide
from opbridge.verification.bisection.locating import budget_of, values_of
from opbridge.verification.bisection.pytorch import TorchSide
from opbridge.verification.bisection.types import size_of, tensors

__all__ = ["MOST_VALUES", "Parting", "beside_pytorch", "between_files"]

MOST_VALUES = 20_000
"""A file with more values is not matched by what these hold."""

_MOST_CANDIDATES = 64


@dataclass(frozen=True)
class Parting:
    """Where two sides part.

    Attributes:
        same: The values that are the same, by the names of the first side; and those that part.
        value: The first side's value that the second does not have.
        parents: The values of the first side that it depends on and that are the same.
    """

    same: dict[str, str]
    value: str
    parents: list[str]


def between_files(left: FileSide, right: FileSide, wrong: str, other: str) -> Parting:
    """Where two files part.

    Args:
        left: The file whose values are expected.
        right: The other file.
        wrong: The output of the first that differs.
        other: The same output of the second.

    Raises:
        OpbridgeError: A run fails, or a file is too large for this.
    """
    budget = budget_of(left, right)
    prints = []
    for side in (left, right):
        values, _ = values_of(side, {name: name for name in side.index.makers})
        _check_count(side, len(values.order))
        prints.append(list(by_values.prints_of_file(side, values.order, values.sizes, budget)))
    same = by_values.same_values(*prints)
    same.pop(wrong, None)
    known = set(same.values())
    others = dict(_candidates(right.index, other, known))
    operators = {node.op_type for node in right.index.nodes}
    for value, reads in itertools.islice(_candidates(left.index, wrong, same), _MOST_CANDIDATES):
        wanted = {same[name] for name in reads}
        fitting = [name for name, its in others.items() if its == wanted]
        mine = left.fetch([value])[value]
        its = right.fetch(fitting[:_MOST_CANDIDATES]) if fitting else {}
        # The other file may compose an operator that it has nowhere of several.
        is_composed = left.index.nodes[left.index.makers[value]].op_type not in operators
        direct = [name for name in fitting if wanted == known.intersection(_reads(right.index, name))]
        for names in (fitting,) if is_composed else (direct[:1], fitting):
            chosen = _nearest(mine, {name: its[name] for name in names if name in its})
            if chosen is not None:
                return Parting({**same, value: chosen}, value, sorted(reads))
    return Parting({**same, wrong: other}, wrong, sorted(_boundary(left.index, wrong, same)))


def beside_pytorch(
    file: FileSide, model: TorchSide, types: Mapping[str, onnx.TypeProto], wrong: str
) -> tuple[Parting, dict[str, Node]]:
    """Where PyTorch and a file part, by the names of the file; and the nodes of the captured graph.

    Args:
        file: The file.
        model: PyTorch's side.
        types: The types of the file's values.
        wrong: The output that differs.

    Raises:
        OpbridgeError: A run fails, or the file is too large for this.
        Unusable: PyTorch raises.
    """
    names = tensors(file.index, types)
    _check_count(file, len(names))
    sizes = {name: size_of(types.get(name)) for name in names}
    mine = [(key, by_values.printed(value)) for key, value in model.walk()]
    theirs = list(by_values.prints_of_file(file, names, sizes, budget_of(file, file)))
    same = by_values.same_values(mine, theirs)
    output = model.nodes[wrong]
    same.pop(output.name, None)
    known = set(same.values())
    nodes = {node.name: node for node in model.functional.graph.graph.nodes}
    counterparts = {name: key for key, name in same.items()}
    found = {name: nodes[key.partition(":")[0]] for name, key in counterparts.items()}
    candidates = dict(_candidates(file.index, wrong, known))
    for node in _parting_nodes(model, output, same):
        reads = {same[each.name] for each in node.all_input_nodes if each.name in same}
        fitting = [name for name, its in candidates.items() if its <= reads and bool(its) == bool(reads)]
        fitting = fitting[:_MOST_CANDIDATES]
        value = next((value for key, value in model.walk({node}) if key == node.name), None)
        chosen = _nearest(value, file.fetch(fitting)) if value is not None and fitting else None
        if chosen is not None:
            counterparts[chosen], found[chosen] = node.name, node
            return Parting(counterparts, chosen, sorted(candidates[chosen])), found
    counterparts[wrong], found[wrong] = output.name, output
    return Parting(counterparts, wrong, sorted(_boundary(file.index, wrong, known))), found


def _check_count(side: FileSide, count: int) -> None:
    if count > MOST_VALUES:
        raise UsageError(
            f"{side.label} has {count} values, and at most {MOST_VALUES} can be matched by what they hold. Give files "
            "whose values have the same names."
        )


def _reads(index: GraphIndex, name: str) -> Sequence[str]:
    return index.reads[index.makers[name]]


def _candidates(index: GraphIndex, wrong: str, known: Collection[str]) -> Iterator[tuple[str, set[str]]]:
    """The values on the way to a wrong one that are not known, in order, with the known ones that they depend on."""
    around: dict[str, set[str]] = {}
    for at in index.ancestors([wrong], known):
        reads: set[str] = set()
        for name in index.reads[at]:
            reads |= {name} if name in known else around.get(name, set())
        for name in filter(None, index.nodes[at].output):
            around[name] = reads
            if name not in known:
                yield name, reads


def _boundary(index: GraphIndex, wrong: str, known: Collection[str]) -> set[str]:
    """The known values that a wrong one depends on."""
    return next((reads for name, reads in _candidates(index, wrong, known) if name == wrong), set())


def _parting_nodes(model: TorchSide, output: Node, known: Collection[str]) -> list[Node]:
    """The nodes of a captured graph on the way to an output whose values the file does not have, in order."""
    seen = {output}
    pending = [output]
    while pending:
        for each in pending.pop().all_input_nodes:
            if each.op == "call_function" and each not in seen and each.name not in known:
                seen.add(each)
                pending.append(each)
    return [node for node in model.functional.graph.graph.nodes if node in seen][:_MOST_CANDIDATES]


def _nearest(value: torch.Tensor, others: Mapping[str, torch.Tensor]) -> str | None:
    """Of several values, the one of the same dtype and shape that differs least."""
    found = {
        name: float((value.double() - each.double()).abs().nan_to_num(nan=0, posinf=0).sum())
        for name, each in others.items()
        if each.shape == value.shape and each.dtype == value.dtype and not value.is_complex()
    }
    return min(found, key=found.__getitem__) if found else None
