"""Loops with several exits, such as one with a `break`: what runs in an iteration, and what after the last one.

1. Whether there is a further whole iteration is what the decisions of an iteration say that may leave it.
2. An iteration of the loop takes none of its exits.
3. After the loop, the iteration that leaves it is run up to where it does, and what follows that exit.

A loop in it that may leave both has run its whole iterations where an iteration of the outer one comes to it; the
iteration that leaves it is a part of that iteration, in which it does not begin again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from opbridge.capture.control_flow.blocks import Block, Loop
from opbridge.capture.control_flow.branch_oracle import PathsRefused

__all__ = ["MultiExitLoop", "immediate_postdominators", "refuse_random_numbers"]


class MultiExitLoop:
    """The iterations of a loop.

    Args:
        merged: What runs the blocks.
        start: The block that an iteration begins with.
        inputs: The inputs of the model.

    Attributes:
        inner: The loops in it that an exit leaves together with it, by the blocks that their iterations begin with.

    Raises:
        PathsRefused: The loop draws random numbers.
    """

    def __init__(self, merged: Any, start: Block, inputs: Mapping[str, Any]) -> None:
        self._merged, self._start, self._inputs = merged, start, inputs
        self._loop = merged.flow.loops[start]
        self._end = Block({})
        inside = [block for block in merged.flow.blocks if block in self._loop.inside]
        loops = merged.flow.loops.items()
        self.inner = {
            first: loop for first, loop in loops if loop.inside < self._loop.inside and self._is_left_by(loop)
        }
        self._joins = immediate_postdominators([*inside, self._end], self._end, self._following)
        lines = ", ".join(sorted({str(block.sources[0]) for block in self._loop.exits if block.sources}))
        refuse_random_numbers(inside, lines)

    def run(self, scope: dict[Any, Any]) -> Block:
        """Runs the loop and what follows its exits, up to where they join; gives the block there."""
        self._after = self._common_join()
        self.repeat(scope)
        after = self._merged.live(self._after)
        scope.update(zip(after, self._left(self._start, scope), strict=True))
        return self._after

    def repeat(self, scope: dict[Any, Any]) -> None:
        """Runs the whole iterations of the loop."""
        merged = self._merged
        live = merged.live(self._start)

        def goes_on(*values: Any) -> tuple[Any]:
            return tuple(self._stays(self._start, {**scope, **dict(zip(live, values, strict=True))}))

        def turned(*values: Any) -> list[Any]:
            inner = {**scope, **dict(zip(live, values, strict=True))}
            self._iteration(self._start, self._end, inner)
            return merged.kept(live, inner)

        merged.ask(next(iter(self._loop.exits)))
        scope.update(zip(live, merged.repeat(goes_on, turned, [scope[each] for each in live]), strict=True))

    def _is_left_by(self, loop: Loop) -> bool:
        """Whether an exit of a loop in this one leaves both."""
        return any(block.after[not stays] not in self._loop.inside for block, stays in loop.exits.items())

    def _following(self, block: Block) -> list[Block]:
        """The blocks of the same iteration that follow one."""
        return (
            [] if block is self._end else [self._goal(block, each) for each in block.after if self._is_in(block, each)]
        )

    def _is_in(self, block: Block, answer: bool) -> bool:
        """Whether the iteration goes on after an answer, without beginning one of a loop that leaves this one again."""
        after = block.after[answer]
        again = after in self.inner and block in self.inner[after].inside
        return after in self._loop.inside and not again

    def _common_join(self) -> Block:
        """The nearest block that every path from the exits passes."""
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
        """Whether the iteration may be left from a block on."""
        return any(
            each in self._loop.exits and each.after[not self._loop.exits[each]] not in self._loop.inside
            for each in self._reached(block)
        )

    def _may_leave(self, block: Block, answer: bool) -> bool:
        """Whether the iteration is left after an answer, or may be."""
        is_left = block.after[answer] not in self._loop.inside
        return is_left or (self._is_in(block, answer) and self._leaves(self._goal(block, answer)))

    def _may_end(self, block: Block, answer: bool) -> bool:
        """Whether the iteration may be a whole one after an answer."""
        return self._is_in(block, answer) and self._end in self._reached(self._goal(block, answer))

    def _leaves_before_join(self, block: Block) -> bool:
        """Whether the iteration may be left between a decision and where its branches join."""
        join = self._joins[block]
        return any(each in self._loop.exits for after in self._following(block) for each in self._reached(after, join))

    def _reached(self, block: Block, stop: Block | None = None) -> set[Block]:
        found: set[Block] = set()
        waiting = [block]
        while waiting:
            each = waiting.pop()
            if each not in found and each is not stop:
                found.add(each)
                waiting += self._following(each)
        return found

    def _next(self, block: Block, answer: bool, scope: dict[Any, Any]) -> Block:
        """Enters the block of the same iteration after an answer."""
        after = block.after[answer]
        self._merged.enter(after, block, self._inputs, scope)
        return self._end if after is self._start else after

    def _until_decision(
        self, block: Block, stop: Block, scope: dict[Any, Any], may: Callable[[Block, bool], bool]
    ) -> Block:
        """Runs an iteration up to a decision that the iteration may be left after, or to a block.

        Args:
            block: Where to begin.
            stop: The block.
            scope: The values of operators and variables.
            may: Whether an answer is possible.
        """
        merged = self._merged
        while block is not stop:
            if block in self.inner:
                MultiExitLoop(merged, block, self._inputs).repeat(scope)
            elif block in merged.flow.loops and block is not self._start:
                block = merged.loop(block, self._inputs, scope)
                continue
            merged.compute(block, self._inputs, scope)
            answers = [each for each in block.after if may(block, each)] if len(block.after) > 1 else [*block.after]
            if len(answers) == 1 and self._is_in(block, answers[0]):
                if block.decides:
                    merged.suppose(block, answers[0], self._inputs, scope)
                block = self._next(block, answers[0], scope)
            elif len(answers) < 2 or block in self._loop.exits or self._leaves_before_join(block):
                return block
            else:
                join = self._joins[block]
                merged.decide(block, self._start if join is self._end else join, self._inputs, scope)
                block = join
        return block

    def _stays(self, block: Block, scope: dict[Any, Any]) -> list[torch.Tensor]:
        """Whether the iteration is a whole one."""

        def may(block: Block, answer: bool) -> bool:
            return self._may_leave(block, answer) or self._may_end(block, answer)

        block = self._until_decision(block, self._end, scope, may)
        if block is self._end:
            return [torch.ones((), dtype=torch.bool)]

        def results_for(answer: bool) -> list[torch.Tensor]:
            if not self._may_end(block, answer):
                return [torch.zeros((), dtype=torch.bool)]
            inner = dict(scope)
            return self._stays(self._next(block, answer, inner), inner)

        if not any(self._may_end(block, answer) for answer in block.after):
            return results_for(True)
        return self._branched(block, scope, results_for)

    def _iteration(self, block: Block, stop: Block, scope: dict[Any, Any]) -> None:
        """Runs a whole iteration."""
        merged = self._merged
        while (block := self._until_decision(block, stop, scope, self._may_end)) is not stop:
            decision, join = block, self._joins[block]
            live = merged.live(self._start if join is self._end else join)

            def results_for(
                answer: bool, decision: Block = decision, join: Block = join, live: Any = live
            ) -> list[Any]:
                inner = dict(scope)
                self._iteration(self._next(decision, answer, inner), join, inner)
                return merged.kept(live, inner)

            scope.update(zip(live, self._branched(decision, scope, results_for), strict=True))
            block = join

    def _left(self, block: Block, scope: dict[Any, Any]) -> list[torch.Tensor]:
        """What the variables are where the exits join, after the iteration that is left."""
        merged = self._merged
        live = merged.live(self._after)
        block = self._until_decision(block, self._end, scope, self._may_leave)

        def results_for(answer: bool, *, alone: bool = False) -> list[Any]:
            inner = scope if alone else dict(scope)
            if self._is_in(block, answer):
                found = self._left(self._next(block, answer, inner), inner)
            else:
                merged.enter(block.after[answer], block, self._inputs, inner)
                merged.run(block.after[answer], self._after, self._inputs, inner)
                found = [inner[each] for each in live]
            return found if alone else merged.contiguous(found)

        possible = [answer for answer in block.after if self._may_leave(block, answer)]
        if len(possible) == 1:
            merged.suppose(block, possible[0], self._inputs, scope)
            return results_for(possible[0], alone=True)
        return self._branched(block, scope, results_for)

    def _goal(self, block: Block, answer: bool) -> Block:
        after = block.after[answer]
        return self._end if after is self._start else after

    def _branched(self, block: Block, scope: dict[Any, Any], results_for: Callable[[bool], list[Any]]) -> list[Any]:
        self._merged.ask(block)
        found: list[Any] = self._merged.branch(self._merged.condition(block, self._inputs, scope), results_for)
        return found


def refuse_random_numbers(blocks: list[Block], lines: str) -> None:
    """Refuses blocks that run again to say whether a loop ends, where they draw random numbers.

    Args:
        blocks: The blocks.
        lines: The lines of the decisions that end the loop.

    Raises:
        PathsRefused: They draw random numbers.
    """
    if any(
        isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags
        for block in blocks
        for target, *_ in block.operators
    ):
        raise PathsRefused(
            "The model cannot be captured: a loop draws random numbers before a condition that ends the loop: "
            f"{lines}. Draw the random numbers before the loop."
        )


def immediate_postdominators(
    blocks: list[Block], end: Block, following: Callable[[Block], list[Block]] = lambda block: [*block.after.values()]
) -> dict[Block, Block]:
    """For each block, the nearest one that every path from it passes.

    Args:
        blocks: The blocks.
        end: The one that all paths lead to.
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
