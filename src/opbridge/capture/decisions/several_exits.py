"""Loops that are left at several places, as one with a `break` is: what is run of a turn, and what after the last one.

1. Whether there is a further whole turn is what the decisions of a turn say that may leave it.
2. A turn of the loop takes none of its exits.
3. After the loop, the turn that leaves it is run up to where it does, and what follows that exit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from opbridge.capture.decisions.flow import Block
from opbridge.capture.decisions.ways import WaysRefused

__all__ = ["Turns", "joins", "refuse_random_numbers"]


class Turns:
    """The turns of a loop.

    Args:
        merged: What runs the blocks.
        start: The block that a turn begins with.
        inputs: The inputs of the model.

    Raises:
        WaysRefused: The loop is left to several places of a loop around it, or draws random numbers.
    """

    def __init__(self, merged: Any, start: Block, inputs: Mapping[str, Any]) -> None:
        self._merged, self._start, self._inputs = merged, start, inputs
        self._loop = merged.flow.loops[start]
        self._end = Block({})
        inside = [block for block in merged.flow.blocks if block in self._loop.inside]
        self._joins = joins([*inside, self._end], self._end, self._following)
        self._after = self._common_join()
        lines = ", ".join(sorted({str(block.sources[0]) for block in self._loop.exits if block.sources}))
        around = [other for other in merged.flow.loops.values() if other.inside > self._loop.inside]
        if any(self._after not in other.inside for other in around):
            raise WaysRefused(
                f"The model cannot be captured: a loop in another one is left at several places, one of which leaves "
                f"both: {lines}. Let one condition end it: torch.logical_and joins two."
            )
        refuse_random_numbers(inside, lines)

    def run(self, scope: dict[Any, Any]) -> Block:
        """Runs the loop and what follows its exits, up to where they join; gives the block there."""
        merged = self._merged
        live = merged.live(self._start)

        def goes_on(*values: Any) -> tuple[Any]:
            return tuple(self._stays(self._start, {**scope, **dict(zip(live, values, strict=True))}))

        def turned(*values: Any) -> list[Any]:
            inner = {**scope, **dict(zip(live, values, strict=True))}
            self._turn(self._start, self._end, inner)
            return merged.kept(live, inner)

        merged.ask(next(iter(self._loop.exits)))
        scope.update(zip(live, merged.repeat(goes_on, turned, [scope[each] for each in live]), strict=True))
        after = merged.live(self._after)
        scope.update(zip(after, self._left(self._start, scope), strict=True))
        return self._after

    def _following(self, block: Block) -> list[Block]:
        """The blocks of the same turn that follow one."""
        if block is self._end:
            return []
        after = [each for each in block.after.values() if each in self._loop.inside]
        return [self._end if each is self._start else each for each in after]

    def _common_join(self) -> Block:
        """The nearest block that every way from the exits passes."""
        chains = [
            list(self._chain(after))
            for block, stays in self._loop.exits.items()
            for answer, after in block.after.items()
            if answer is not stays
        ]
        return next(each for each in chains[0] if all(each in other for other in chains[1:]))

    def _chain(self, block: Block) -> Iterator[Block]:
        found: Block | None = block
        while found is not None:
            yield found
            found = self._merged.joins.get(found)

    def _leaves(self, block: Block) -> bool:
        """Whether the turn may be left from a block on."""
        return any(each in self._loop.exits for each in self._reached(block))

    def _leaves_before_join(self, block: Block) -> bool:
        """Whether the turn may be left between a decision and where its sides join."""
        join = self._joins[block]
        return any(each in self._loop.exits for after in self._following(block) for each in self._reached(after, join))

    def _reached(self, block: Block, stop: Block | None = None) -> set[Block]:
        found: set[Block] = set()
        waiting = [block]
        while waiting:
            each = waiting.pop()
            if each not in found and each is not stop and each is not self._end:
                found.add(each)
                waiting += self._following(each)
        return found

    def _next(self, block: Block, answer: bool, scope: dict[Any, Any]) -> Block:
        """Enters the block of the same turn after an answer."""
        after = block.after[answer]
        self._merged.enter(after, block, self._inputs, scope)
        return self._end if after is self._start else after

    def _until_decision(self, block: Block, stop: Block, scope: dict[Any, Any]) -> Block:
        """Runs a turn up to a decision that the turn may be left after, or to a block."""
        merged = self._merged
        while block is not stop:
            if block in merged.flow.loops and block is not self._start:
                block = merged.loop(block, self._inputs, scope)
                continue
            merged.compute(block, self._inputs, scope)
            if len(block.after) == 1:
                ((answer, _),) = block.after.items()
                if block.decides:
                    merged.suppose(block, answer, self._inputs, scope)
                block = self._next(block, answer, scope)
            elif block in self._loop.exits or self._leaves_before_join(block):
                return block
            else:
                join = self._joins[block]
                merged.decide(block, self._start if join is self._end else join, self._inputs, scope)
                block = join
        return block

    def _stays(self, block: Block, scope: dict[Any, Any]) -> list[torch.Tensor]:
        """Whether the turn is a whole one."""
        block = self._until_decision(block, self._end, scope)
        if block is self._end:
            return [torch.ones((), dtype=torch.bool)]

        def side(answer: bool) -> list[torch.Tensor]:
            if self._loop.exits.get(block, answer) is not answer:
                return [torch.zeros((), dtype=torch.bool)]
            inner = dict(scope)
            return self._stays(self._next(block, answer, inner), inner)

        return self._branched(block, scope, side)

    def _turn(self, block: Block, stop: Block, scope: dict[Any, Any]) -> None:
        """Runs a whole turn."""
        merged = self._merged
        while (block := self._until_decision(block, stop, scope)) is not stop:
            stays = self._loop.exits.get(block)
            if stays is not None:
                merged.suppose(block, stays, self._inputs, scope)
                block = self._next(block, stays, scope)
                continue
            decision, join = block, self._joins[block]
            live = merged.live(self._start if join is self._end else join)

            def side(answer: bool, decision: Block = decision, join: Block = join, live: Any = live) -> list[Any]:
                inner = dict(scope)
                self._turn(self._next(decision, answer, inner), join, inner)
                return merged.kept(live, inner)

            scope.update(zip(live, self._branched(decision, scope, side), strict=True))
            block = join

    def _left(self, block: Block, scope: dict[Any, Any]) -> list[torch.Tensor]:
        """What the variables are where the exits join, after the turn that is left."""
        merged = self._merged
        live = merged.live(self._after)
        block = self._until_decision(block, self._end, scope)
        sides = {
            answer: answer is not self._loop.exits.get(block, answer) or self._leaves(self._goal(block, answer))
            for answer in block.after
        }

        def side(answer: bool, *, alone: bool = False) -> list[Any]:
            inner = scope if alone else dict(scope)
            if self._loop.exits.get(block, answer) is answer:
                found = self._left(self._next(block, answer, inner), inner)
            else:
                merged.enter(block.after[answer], block, self._inputs, inner)
                merged.run(block.after[answer], self._after, self._inputs, inner)
                found = [inner[each] for each in live]
            return found if alone else merged.contiguous(found)

        possible = [answer for answer, is_possible in sides.items() if is_possible]
        if len(possible) == 1:
            merged.suppose(block, possible[0], self._inputs, scope)
            return side(possible[0], alone=True)
        return self._branched(block, scope, side)

    def _goal(self, block: Block, answer: bool) -> Block:
        after = block.after[answer]
        return self._end if after is self._start else after

    def _branched(self, block: Block, scope: dict[Any, Any], side: Callable[[bool], list[Any]]) -> list[Any]:
        self._merged.ask(block)
        found: list[Any] = self._merged.branch(self._merged.condition(block, self._inputs, scope), side)
        return found


def refuse_random_numbers(blocks: list[Block], lines: str) -> None:
    """Refuses blocks that run again to say whether a loop ends, where they draw random numbers.

    Args:
        blocks: The blocks.
        lines: The lines of the decisions that end the loop.

    Raises:
        WaysRefused: They draw random numbers.
    """
    if any(
        isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags
        for block in blocks
        for target, *_ in block.operators
    ):
        raise WaysRefused(
            f"The model cannot be captured: a loop draws random numbers before a decision in its turn that ends it: "
            f"{lines}. Draw them before the loop."
        )


def joins(
    blocks: list[Block], end: Block, following: Callable[[Block], list[Block]] = lambda block: [*block.after.values()]
) -> dict[Block, Block]:
    """For each block, the nearest one that every way from it passes.

    Args:
        blocks: The blocks.
        end: The one that all ways lead to.
        following: Gives the blocks that follow one.
    """
    beyond = {block: set(blocks) for block in blocks}
    beyond[end] = {end}
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            after = following(block)
            if after:
                found = {block} | set.intersection(*(beyond[each] for each in after))
                changed = changed or found != beyond[block]
                beyond[block] = found
    return {
        block: max(found - {block}, key=lambda each: len(beyond[each]))
        for block, found in beyond.items()
        if block is not end
    }
