"""The operators `cond` and `while_loop` that a model of merged paths calls, as nodes of the graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from opbridge.base.torch_private import torch_decisions, torch_known_sizes, torch_sizes
from opbridge.base.torch_private.torch_branch_operators import COND, WHILE_LOOP
from opbridge.capture.tracer.fakes import Fakes
from opbridge.capture.tracer.recorder import Recorder

__all__ = ["ControlFlowOperators"]


class ControlFlowOperators:
    """Runs a model of merged paths, and records what that calls."""

    def __init__(
        self, recording: Callable[[], Recorder], body: Callable[..., GraphModule], fakes: Fakes, merged: Any
    ) -> None:
        """Args:
        recording: Gives the recorder that operators are recorded by at the moment.
        body: Traces a function as the body of an operator.
        fakes: The tensors without values of the trace.
        merged: The merged paths; see `opbridge.capture.control_flow.lowering`.
        """
        self._recording, self._body, self._fakes, self._merged = recording, body, fakes, merged
        self._origin: tuple[Any, str] = tuple, ""

    def run(self, inputs: dict[str, Any]) -> tuple[list[Any], Any]:
        """The leaves of what the model returns for inputs by name, and their structure."""
        merged = self._merged
        merged.begin = self.begin
        merged.branch = self.branch
        merged.repeat = self.repeat
        merged.negated = self.negated
        for symbol, limits in merged.limits.items():
            torch_known_sizes.suppose_limits(self._fakes.sizes.env, symbol, *limits)
        with self._knowing_sizes():
            return list(merged(inputs)), merged.structure

    def _knowing_sizes(self) -> contextlib.AbstractContextManager[None]:
        """Within this context, questions are answered for the sizes of the path that runs, where sizes decide."""
        if self._merged.sizes is None:
            return contextlib.nullcontext()
        return torch_decisions.knowing_sizes(self._fakes.sizes.env, self._merged.sizes.value)

    def begin(self, sources: Any, path: str) -> None:
        """Sets the lines and the module of the operators that follow."""
        self._origin = sources, path

    def note_origin(self, node: Node) -> None:
        """Notes where an operator of a path comes from."""
        node.meta["sources"], node.meta["module_path"] = self._origin

    def branch(self, condition: Any, results_for: Callable[[bool], list[torch.Tensor]]) -> list[torch.Tensor]:
        """What the one branch or the other gives, as an operator `cond`; each is recorded with the condition known."""
        recorder = self._recording()
        value = torch_decisions.known(condition)
        if value is not None:
            return results_for(value)
        bodies = []
        sizes = self._merged.sizes
        for answer in (True, False):
            with torch_decisions.supposing(condition, answer) if sizes is None else contextlib.nullcontext():
                bodies.append(self._body(lambda answer=answer: tuple(results_for(answer))))
        given = list(map(_returned, bodies))
        on_true, on_false = map(self._held, ("true_graph_", "false_graph_"), bodies)
        node = recorder.tracer.create_node(
            "call_function",
            COND,
            (recorder.argument(condition), on_true, on_false, ()),
            {},
            "cond",
        )
        results = [torch_decisions.union(self._fakes.mode, *each) for each in zip(*given, strict=True)]
        if sizes is not None:
            for each in zip(results, *given, strict=True):
                sizes.note_union(condition, *each)
        recorder.bind(results, node)
        torch_sizes.note_unknown_symbols(node, self._fakes.sizes.env, results)
        return results

    def repeat(
        self, goes_on: Callable[..., Any], iteration: Callable[..., list[torch.Tensor]], begin: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        """What the iterations of a loop give in the end, as an operator `while_loop`.

        A size that an iteration changes is one that only data decides, in the iterations and after them.

        Args:
            goes_on: Whether there is a further iteration, for the tensors of now.
            iteration: The tensors after an iteration, for those before it.
            begin: The tensors before the first one.
        """
        recorder, env, mode = self._recording(), self._fakes.sizes.env, self._fakes.mode
        changing: list[set[int]] = [set() for _ in begin]
        while True:
            with torch_decisions.unsupposing(env):
                given = [torch_decisions.like(mode, *each, ignored=True) for each in zip(begin, changing, strict=True)]
                condition = self._body(goes_on, *given)
            with torch_decisions.unsupposing(env):
                body = self._body(lambda *values: tuple(iteration(*values)), *given)
                found = [
                    torch_decisions.differing(*each) - known
                    for *each, known in zip(given, _returned(body), changing, strict=True)
                ]
            if not any(found):
                break
            changing = [known | new for known, new in zip(changing, found, strict=True)]
        carried = tuple(map(recorder.argument, begin))
        bodies = self._held("while_cond_graph_", condition), self._held("while_body_graph_", body)
        node = recorder.tracer.create_node("call_function", WHILE_LOOP, (*bodies, carried, ()), {}, "while_loop")
        results = [torch_decisions.like(mode, *each, ignored=False) for each in zip(begin, changing, strict=True)]
        recorder.bind(results, node)
        torch_sizes.note_unknown_symbols(node, env, results)
        return results

    def negated(self, condition: Any) -> Any:
        """The opposite of a condition."""
        if not isinstance(condition, torch.SymBool):
            return not condition
        recorder = self._recording()
        node = recorder.tracer.create_node("call_function", torch.sym_not, (recorder.argument(condition),), {})
        result = torch_decisions.negated(condition)
        recorder.track_number(result, node)
        return result

    def _held(self, prefix: str, body: GraphModule) -> Node:
        """The node of a body of an operator."""
        tracer = self._recording().tracer
        name = tracer.get_fresh_qualname(prefix)
        setattr(tracer.root, name, body)
        return tracer.create_node("get_attr", name, (), {})


def _returned(body: GraphModule) -> list[Any]:
    """What a body returns, without values."""
    return [each.meta["val"] for each in body.graph.output_node().args[0]]
