"""Runs a flow of blocks as a model: each decision is an operator `cond`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from opbridge.base.sources import note_sources
from opbridge.base.torch_private import torch_decisions, torch_proxies
from opbridge.capture.control_flow.blocks import Block, Local, Outer, Phi
from opbridge.capture.control_flow.cfg import ControlFlowGraph
from opbridge.capture.control_flow.multi_exit_loops import (
    MultiExitLoop,
    immediate_postdominators,
    refuse_random_numbers,
)
from opbridge.capture.control_flow.unify_arguments import Computed
from opbridge.graph.decisions import Asked

__all__ = ["CFGLowering", "Limits"]

Limits = Mapping[str, tuple[int | None, int | None]]


class CFGLowering:
    """A function that does what the paths do, and decides between them as the model does.

    Args:
        flow: The paths.
        structure: The pytree structure of what the model returns.
        sizes: Where sizes decide: those of the path that runs; see `size_branches.running_sizes`.
        limits: The smallest and the largest value of sizes, by symbol, that the graph is for in any case.

    Attributes:
        structure: The same.
        sizes: The same.
        limits: The same.
        begin: Called with the sources and the path of the module of what runs next.
        branch: Called with a condition and a function that runs one of its branches; gives what the branch gives.
        repeat: Called with functions for the condition and the iterations of a loop, and what these begin with.
        negated: Called with a condition; gives its opposite.
        decisions: The lines of each decision, the innermost first.
    """

    def __init__(self, flow: ControlFlowGraph, structure: Any, sizes: Any = None, limits: Limits | None = None) -> None:
        self.flow = flow
        self.sizes = sizes
        self.limits: Limits = limits or {}
        self.structure = structure
        self.joins = immediate_postdominators(flow.blocks, flow.end)
        self._needed = self._find_needed()
        self.begin: Callable[[Any, str], None] = lambda sources, path: None
        self.branch: Callable[[Any, Callable[[bool], list[torch.Tensor]]], list[torch.Tensor]]
        self.repeat: Callable[[Callable[..., Any], Callable[..., list[torch.Tensor]], list[torch.Tensor]], list[Any]]
        self.negated: Callable[[Any], Any]
        deciding = [block for block in flow.blocks if block in self._needed]
        stays = {block: answer for loop in flow.loops.values() for block, answer in loop.exits.items()}
        self._asked = {
            block: Asked(number, block.sources, stays.get(block, True), sizes.told(block) if sizes else "")
            for number, block in enumerate(deciding)
        }
        self.decisions = [block.sources for block in deciding]

    def __call__(self, inputs: Mapping[str, Any]) -> Any:
        """What the model returns, leaf by leaf, for inputs by their names."""
        scope: dict[Any, Any] = {}
        self.run(self.flow.start, None, inputs, scope)
        return self._value(self.flow.end.results, inputs, scope)

    def run(
        self,
        block: Block,
        stop: Block | None,
        inputs: Mapping[str, Any],
        scope: dict[Any, Any],
        iteration: Block | None = None,
    ) -> None:
        """Runs blocks up to one, or to the end.

        Args:
            block: The first.
            stop: Where to stop.
            inputs: The inputs of the model.
            scope: The values of operators and variables.
            iteration: The loop, by its first block, that this is a part of one iteration of.
        """
        while block is not stop:
            if block in self.flow.loops and block is not iteration:
                block = self.loop(block, inputs, scope)
                continue
            self.compute(block, inputs, scope)
            if not block.after:
                return
            if len(block.after) == 1:
                ((answer, after),) = block.after.items()
                if block.decides and self.sizes is None:
                    self.suppose(block, answer, inputs, scope)
                self.enter(after, block, inputs, scope)
            else:
                after = self.joins[block]
                if block in self._needed:
                    self.decide(block, after, inputs, scope)
            block = after

    def compute(self, block: Block, inputs: Mapping[str, Any], scope: dict[Any, Any]) -> None:
        """Runs the operators of a block."""
        for index, (target, args, kwargs, node) in enumerate(block.operators):
            if Local(block, index) in self._needed:
                sources = node.meta.get("sources", tuple)
                self.begin(sources, node.meta.get("module_path", ""))
                given = self._value(kwargs, inputs, scope)
                try:
                    scope[Local(block, index)] = target(*self._value(args, inputs, scope), **given)
                except Exception as error:  # whatever torch raises; the model's line is not running now
                    note_sources(error, sources())
                    raise

    def suppose(self, block: Block, answer: bool, inputs: Mapping[str, Any], scope: dict[Any, Any]) -> None:
        """Makes the answer of a decision known, where what it asks for is computed."""
        if self._needed.issuperset(_places(block.condition)):
            condition = self._value(block.condition, inputs, scope)
            if torch_decisions.known(condition) is None:
                torch_decisions.suppose(condition, answer)

    def live(self, block: Block) -> list[Phi]:
        """The variables of a block that are read."""
        return [variable for variable in block.variables if variable in self._needed]

    def kept(self, variables: list[Phi], scope: Mapping[Any, Any]) -> list[torch.Tensor]:
        """The values of variables, as a body of an operator may return them."""
        return self.contiguous([scope[each] for each in variables])

    @staticmethod
    def contiguous(values: list[torch.Tensor]) -> list[torch.Tensor]:
        """Copies of values, as a body of an operator may return them."""
        return [each.clone(memory_format=torch.contiguous_format) for each in values]

    def ask(self, block: Block) -> None:
        """Notes that what runs next is a decision."""
        self.begin(self._asked[block], "")

    def condition(self, block: Block, inputs: Mapping[str, Any], scope: Mapping[Any, Any]) -> Any:
        """What a decision asks for."""
        return self._value(block.condition, inputs, scope)

    def decide(self, block: Block, join: Block, inputs: Mapping[str, Any], scope: dict[Any, Any]) -> None:
        """Runs a decision, up to where both branches go on together."""
        live = self.live(join)

        def results_for(answer: bool) -> list[Any]:
            inner = dict(scope)
            with self.sizes.on_branch(block.after[answer]) if self.sizes is not None else contextlib.nullcontext():
                self.enter(block.after[answer], block, inputs, inner)
                self.run(block.after[answer], join, inputs, inner)
                self.ask(block)
                return self.kept(live, inner)

        self.ask(block)
        condition = self._value(block.condition, inputs, scope)
        found = self.branch(condition, results_for)
        scope.update(zip(live, found, strict=True))

    def loop(self, start: Block, inputs: Mapping[str, Any], scope: dict[Any, Any]) -> Block:
        """Runs a loop, and enters the block after it."""
        loop = self.flow.loops[start]
        if not loop.always:
            return MultiExitLoop(self, start, inputs).run(scope)
        decision = loop.decision
        if decision is not start:
            blocks = self.flow.blocks
            again = blocks[blocks.index(start) : blocks.index(decision) + 1]
            refuse_random_numbers([block for block in again if block in loop.inside], str(decision.sources[0]))
        live = self.live(start)

        def begun(values: tuple[Any, ...]) -> tuple[dict[Any, Any], Any]:
            """An iteration up to the decision whether there is one."""
            inner = {**scope, **dict(zip(live, values, strict=True))}
            self.run(start, decision, inputs, inner, start)
            self.ask(decision)
            return inner, self._value(decision.condition, inputs, inner)

        def goes_on(*values: Any) -> tuple[Any]:
            _, condition = begun(values)
            return (condition if loop.stays else self.negated(condition),)

        def turned(*values: Any) -> list[Any]:
            inner, condition = begun(values)
            if torch_decisions.known(condition) is None:
                torch_decisions.suppose(condition, loop.stays)
            self.enter(decision.after[loop.stays], decision, inputs, inner)
            self.run(decision.after[loop.stays], start, inputs, inner)
            self.ask(decision)
            return self.kept(live, inner)

        if decision in self._needed:
            self.ask(decision)
            begin = [scope[variable] for variable in live]
            scope.update(zip(live, self.repeat(goes_on, turned, begin), strict=True))
        self.run(start, decision, inputs, scope, start)
        after = decision.after[not loop.stays]
        self.enter(after, decision, inputs, scope)
        return after

    def enter(self, block: Block, before: Block, inputs: Mapping[str, Any], scope: dict[Any, Any]) -> None:
        """Gives the variables of a block their values."""
        live = self.live(block)
        values = [self._value(variable.values[before], inputs, scope) for variable in live]
        scope.update(zip(live, values, strict=True))

    def _value(self, form: Any, inputs: Mapping[str, Any], scope: Mapping[Any, Any]) -> Any:
        if isinstance(form, (Local, Phi)):
            return scope[form]
        if isinstance(form, Outer):
            return inputs[form.name] if form.name else form.tensor
        if isinstance(form, Computed):
            args = self._value(form.args, inputs, scope)
            if isinstance(form.target, torch._ops.OpOverload):
                return form.target(*args)
            with torch_proxies.Disabled():  # what uses a number computes it, in the graph that it is of
                return form.target(*args)
        if type(form) in (list, tuple):
            return type(form)(self._value(item, inputs, scope) for item in form)
        if isinstance(form, dict):
            return {key: self._value(item, inputs, scope) for key, item in form.items()}
        if isinstance(form, slice):
            return slice(*self._value((form.start, form.stop, form.step), inputs, scope))
        return form

    def _find_needed(self) -> set[Any]:
        """The operators, variables and decisions that what the model returns depends on."""
        flow = self.flow
        found: set[Any] = set()
        waiting = list(_places(flow.end.results))
        waiting += [block for loop in flow.loops.values() if not loop.always for block in loop.exits]
        while waiting:
            place = waiting.pop()
            if place in found:
                continue
            found.add(place)
            if isinstance(place, Local):
                _, args, kwargs, _ = place.block.operators[place.index]
                waiting += _places((args, kwargs))
            elif isinstance(place, Phi):
                waiting += _places(list(place.values.values()))
                waiting += self._deciding(place)
            else:
                waiting += _places(place.condition)
        return found

    def _deciding(self, variable: Phi) -> Iterator[Block]:
        """The decisions that a variable depends on."""
        (home,) = (block for block in self.flow.blocks if variable in block.variables)
        for block in self.flow.blocks:
            if len(block.after) > 1 and home in _region(block, self.joins[block]):
                yield block


def _places(form: Any) -> Iterator[Any]:
    if isinstance(form, (Local, Phi)):
        yield form
    elif isinstance(form, Computed):
        yield from _places(form.args)
    elif isinstance(form, (list, tuple)):
        for item in form:
            yield from _places(item)
    elif isinstance(form, dict):
        yield from _places(list(form.values()))
    elif isinstance(form, slice):
        yield from _places((form.start, form.stop, form.step))


def _region(block: Block, join: Block) -> set[Block]:
    """The blocks after a decision, up to and with the one where its branches join."""
    found: set[Block] = set()
    waiting = list(block.after.values())
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            if each is not join:
                waiting += each.after.values()
    return found
