"""The decisions of a model: truth values that only data or sizes decide, each with its line and what the model does."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule, Node

from opbridge.base.sources import Source
from opbridge.base.wording import counted, listed
from opbridge.graph.control_flow import bodies
from opbridge.graph.operators import calls_in, operator_of

__all__ = ["Asked", "Branch", "Decision", "condition_of", "decision_of", "decisions_of", "summary_of"]

_MOST_OPERATORS = 4
_OF_ONE_NODE = ("higher_order::cond", "higher_order::while_loop")


@dataclass(frozen=True)
class Asked:
    """Where a model decides: the origin of a decision's nodes in a graph, as `node.meta["sources"]`.

    Attributes:
        number: Which of the graph's decisions it is, from 0.
        sources: The lines that were running, the innermost first.
        stays: For a loop, the answer with which it goes on.
        on_sizes: Where sizes of the inputs decide it, the condition on these: "x.shape[0] >= 2".
    """

    number: int
    sources: tuple[Source, ...]
    stays: bool = True
    on_sizes: str = ""

    def __call__(self) -> tuple[Source, ...]:
        return self.sources


@dataclass(frozen=True)
class Branch:
    """What a model does for one answer.

    Attributes:
        answer: Whether the condition holds.
        operators: The operators that run for this answer only, in order.
        raises: Whether the model raises an error, so that the file has no such branch.
    """

    answer: bool
    operators: tuple[str, ...] = ()
    raises: bool = False

    def __str__(self) -> str:
        if self.raises:
            return "raises an error"
        counts = Counter(self.operators)
        told = [name if count == 1 else f"{name} ({count}x)" for name, count in counts.items()]
        return listed(told, _MOST_OPERATORS) if told else "nothing"


@dataclass(frozen=True)
class Decision:
    """A truth value that only data decides, or sizes of the inputs.

    Attributes:
        number: Which of the graph's decisions it is, from 0; -1 where the model raises for one answer, so that the file
            does not decide.
        sources: The lines that were running, the innermost first.
        branches: What the model does where the condition holds, and where it does not. For a loop the one is an
            iteration, and the other one nothing.
        on_sizes: Where sizes decide it, the condition on these.
    """

    number: int
    sources: tuple[Source, ...]
    branches: tuple[Branch, Branch]
    on_sizes: str = ""

    @property
    def place(self) -> str:
        """The line, "model.py:12"; empty where it is not known."""
        return str(self.sources[0]) if self.sources else ""

    @property
    def condition(self) -> str:
        """The condition: for data as the line has it, "x.sum() > 0"; for sizes in those of the inputs."""
        if self.on_sizes:
            return self.on_sizes
        return condition_of(self.sources[0].code) if self.sources else ""

    @property
    def is_in_file(self) -> bool:
        """Whether both branches are in the file."""
        return not any(branch.raises for branch in self.branches)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "source": self.place,
            "condition": self.condition,
            "in_file": self.is_in_file,
            "branches": [
                {"answer": branch.answer, "operators": list(branch.operators), "raises": branch.raises}
                for branch in self.branches
            ],
        }


def decisions_of(module: GraphModule) -> tuple[Decision, ...]:
    """The decisions of a graph and of the graphs inside it, in their order."""
    found: dict[int, Decision] = {}
    for node, inside in _nodes(module):
        asked = decision_of(node)
        if asked is not None and asked.number not in found:
            branches = _branches(node, inside, asked.stays)
            found[asked.number] = Decision(asked.number, asked.sources, branches, asked.on_sizes)
    return tuple(found[number] for number in sorted(found))


def decision_of(node: Node) -> Asked | None:
    """The decision that a node is; None for any other node, a torch.cond of the model's own among them."""
    asked = node.meta.get("sources")
    is_one = node.op == "call_function" and isinstance(asked, Asked) and operator_of(node) in _OF_ONE_NODE
    return asked if is_one else None


def summary_of(decisions: Iterable[Decision]) -> str:
    """One line: "3 decisions that depend on data, all branches in the file"; empty where there are none."""
    in_file = [each for each in decisions if each.is_in_file]
    if not in_file:
        return ""
    kinds = sorted({"sizes" if each.on_sizes else "data" for each in in_file})
    verb = "depends" if len(in_file) == 1 else "depend"
    return f"{counted(len(in_file), 'condition')} that {verb} on {' or '.join(kinds)}, both branches in the file"


def condition_of(code: str) -> str:
    """The condition in a line of Python; the line where it has several, or is a part of a statement."""
    if code.startswith("elif "):
        code = code[2:]
    if not code.startswith(("if ", "while ", "assert ", "return ")) and code.endswith(":"):
        return code
    try:
        tree = ast.parse(f"{code} pass" if code.endswith(":") else code)
    except SyntaxError:
        return code
    tests = [node.test for node in ast.walk(tree) if isinstance(node, (ast.If, ast.While, ast.Assert, ast.IfExp))]
    return ast.unparse(tests[0]) if len(tests) == 1 else code


def _nodes(module: GraphModule) -> Iterator[tuple[Node, GraphModule]]:
    for node in module.graph.nodes:
        yield node, module
        for body in bodies(node, module):
            yield from _nodes(body)


def _branches(node: Node, module: GraphModule, stays: bool) -> tuple[Branch, Branch]:
    found: Sequence[GraphModule] = list(bodies(node, module))
    if operator_of(node) == "higher_order::while_loop":
        iteration = Branch(stays, tuple(_operators(found[-1])))
        return (iteration, Branch(False)) if stays else (Branch(True), iteration)
    return Branch(True, tuple(_operators(found[0]))), Branch(False, tuple(_operators(found[-1])))


def _operators(module: GraphModule) -> Iterator[str]:
    """The operators of a graph and of the graphs inside it, without what a decision itself needs."""
    for node, operator in calls_in(module):
        if not isinstance(node.meta.get("sources"), Asked) and "::" in operator and operator[0] != "_":
            yield operator
        for body in bodies(node, module):
            yield from _operators(body)
