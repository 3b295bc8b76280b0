"""What a control-flow graph consists of: blocks, the values in them, and loops; and which blocks dominate which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch.fx import Node

from opbridge.capture.control_flow.branch_oracle import PathsRefused
from opbridge.capture.control_flow.unify_arguments import Pass

__all__ = ["Block", "Local", "Loop", "Outer", "Phi", "dominators_of", "in_order"]


@dataclass(frozen=True, eq=False, repr=False)
class Outer:
    """An input, or a tensor with values.

    Attributes:
        name: The name of the input; empty for a tensor.
        tensor: The tensor.
    """

    name: str
    tensor: Any = None


@dataclass(frozen=True)
class Local:
    """The result of an operator of a block."""

    block: Block
    index: int


@dataclass(eq=False, repr=False)
class Phi:
    """A value that is another one after each of the blocks that lead to one.

    Attributes:
        nodes: The node that it is, in each pass of its block.
        values: What it is after each block that leads here, as a form.
    """

    nodes: Mapping[Pass, Node]
    values: dict[Block, Any] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class Block:
    """What is computed after an answer, or after several blocks, until the next decision.

    Attributes:
        passes: The paths through it, each with the first and the last operator in the segment.
        before: The blocks that lead here.
        after: The blocks that follow: one, or one for each answer.
        condition: What decides between them, as a form.
        operators: For each operator its target, arguments and keyword arguments as forms, and a node for its origin.
        variables: What it takes that differs between the blocks before it.
        decides: Whether a decision is at its end. Where one answer alone is there, the model raises after the other.
        sources: The lines of the decision.
        results: For the last block, what the model returns, as forms.
        is_common_end: Whether several blocks end with these operators.
        asks: Whether the decision at its end is whether a loop has a further iteration.
    """

    passes: dict[Pass, tuple[int, int]]
    before: list[Block] = field(default_factory=list)
    after: dict[bool, Block] = field(default_factory=dict)
    condition: Any = None
    operators: list[tuple[Any, Any, Any, Node]] = field(default_factory=list)
    variables: list[Phi] = field(default_factory=list)
    decides: bool = False
    sources: tuple[Any, ...] = ()
    results: Any = None
    is_common_end: bool = False
    asks: bool = False

    def nodes(self, each: Pass) -> tuple[Node, ...]:
        """The operators of a pass."""
        path, segment = each
        first, last = self.passes[each]
        return path.segments[segment][first:last]


@dataclass(frozen=True)
class Loop:
    """Blocks that run iteration by iteration.

    Attributes:
        inside: The blocks.
        exits: The blocks whose decisions end it, each with the answer after which the iteration goes on.
        always: Whether there is one exit, to which each iteration comes.
    """

    inside: frozenset[Block]
    exits: dict[Block, bool]
    always: bool

    @property
    def decision(self) -> Block:
        """The block whose decision ends it, where there is one exit."""
        return next(iter(self.exits))

    @property
    def stays(self) -> bool:
        """The answer after which the iteration goes on, where there is one exit."""
        return next(iter(self.exits.values()))

    @classmethod
    def of(cls, start: Block, ends: list[Block], dominators: Mapping[Block, set[Block]]) -> Loop:
        """The loop whose iterations begin with one block and end with others.

        Raises:
            PathsRefused: It cannot be left.
        """
        inside = {start}
        waiting = list(ends)
        while waiting:
            block = waiting.pop()
            if block not in inside:
                inside.add(block)
                waiting += block.before
        leaving = [(block, answer) for block in inside for answer, after in block.after.items() if after not in inside]
        if not leaving or any(not block.decides or len(block.after) != 2 for block, _ in leaving):
            lines = ", ".join(sorted({str(block.sources[0]) for block, _ in leaving if block.sources}))
            raise PathsRefused(
                "The model cannot be captured: a loop with a data-dependent number of iterations is left at a line "
                f"without a condition: {lines}. Let a single condition end the loop; torch.logical_and combines "
                "two."
            )
        exits = {block: not answer for block, answer in leaving}
        always = len(exits) == 1 and all(leaving[0][0] in dominators[end] for end in ends)
        return cls(frozenset(inside), exits, always)


def in_order(start: Block) -> Iterator[Block]:
    """The blocks, each after all that lead to it, but for those that lead back to it in a loop."""
    found: dict[Block, None] = {}
    seen = {start}
    stack = [(start, iter(start.after.values()))]
    while stack:
        block, following = stack[-1]
        after = next((each for each in following if each not in seen), None)
        if after is None:
            found[block] = None
            stack.pop()
        else:
            seen.add(after)
            stack.append((after, iter(after.after.values())))
    yield from reversed(found)


def dominators_of(blocks: list[Block]) -> dict[Block, set[Block]]:
    """For each block, those that every path to it passes, and itself."""
    found = {block: set(blocks) for block in blocks[1:]}
    found[blocks[0]] = {blocks[0]}
    changed = True
    while changed:
        changed = False
        for block in blocks[1:]:
            above = {block} | set.intersection(*(found[before] for before in block.before))
            changed = changed or above != found[block]
            found[block] = above
    return found
