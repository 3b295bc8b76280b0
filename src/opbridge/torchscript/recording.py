"""The choice of a symbolic function for each operator of a trace, and the outcome of each call.

The order of preference: the user's symbolic function or translation, our translation, torch's own symbolic function,
torchlib's translation.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from opbridge.base.routes import ALLOWED_BY_DEFAULT, ROUTES
from opbridge.base.sources import Source, innermost
from opbridge.base.torch_private import torch_operators, torchscript_export, torchscript_registry
from opbridge.nodes.operator_nodes import ROUTES as NODE_ROUTES
from opbridge.nodes.operator_nodes import permission_advice
from opbridge.plan.rows import PlanRow
from opbridge.symbolics.bridging import TranslationOutcome, as_symbolic, translations_by_base_name
from opbridge.symbolics.single_nodes import as_node
from opbridge.translations.registry import Registry

__all__ = ["Recorder", "Recording"]

_FRAME = re.compile(r"^(?P<file>.*)\((?P<line>\d+)\): (?P<function>.*)$", re.MULTILINE)
_MARK = re.compile(r"opbridge_(\d+)(\.|$)")

# Nodes of a trace that are no operators. The rest of this namespace is control flow, and Python's operators.
_PRIMITIVE = re.compile(r"prim::(?!If$|Loop$|PythonOp$)")

_TORCH = "torch.onnx symbolic function"
_NODE_DESCRIPTIONS = {"aten": "run by libtorch", "fallthrough": "one custom node"}


@dataclass
class Recording:
    """One call of a symbolic function.

    Attributes:
        operator: The operator, with its overload where that is known.
        how: The origin of the function.
        source: The model's line.
        module: The submodule of the model that it is called in.
        failure: Why the call failed; "" where it did not.
        route: "standard", or "function" where the nodes call ONNX functions.
        schema: The operator's arguments, as torch declares them.
    """

    operator: str
    how: str = ""
    source: Source | None = None
    module: str = ""
    failure: str = ""
    route: str = "standard"
    schema: str = ""


@dataclass
class Recorder:
    """Chooses the symbolic functions, and records their calls in order.

    Attributes:
        registry: The translations and the user's symbolic functions.
        opset: The opset of the model.
        allow: The routes permitted.
        pinned: Returns the route that an operator, by its base name, is pinned to, or None.
        recordings: One for each operator of the trace.
        functions: The ONNX functions that translations called.
    """

    registry: Registry
    opset: int
    allow: Sequence[str] = ALLOWED_BY_DEFAULT
    pinned: Callable[[str], str | None] = lambda name: None
    recordings: list[Recording] = field(default_factory=list)
    functions: dict[Any, ir.Function] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_name = translations_by_base_name(self.registry)

    def find(self, name: str, opset: int) -> Callable[..., Any] | None:
        """The symbolic function for an operator's base name; never None, so that what is missing is recorded too."""

        def called(g: Any, /, *args: Any, **attributes: Any) -> Any:
            return self._call_recorded(name, g, args, attributes)

        return called

    def python_operator(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Records the call of the `symbolic` of a torch.autograd.Function."""

        def called(g: Any, *args: Any, **kwargs: Any) -> Any:
            recording = Recording(f"python::{name}", "user symbolic function", route="standard")
            return self._run(recording, function, g, args, kwargs)

        return called

    def recording_of(self, node: Any) -> Recording | None:
        """The call that a node of the finished graph comes from."""
        for output in node.outputs():
            found = _MARK.match(output.debugName())
            if found:
                recording = self.recordings[int(found[1])]
                if recording.source is None:  # for a torch.autograd.Function, only the nodes have them
                    recording.source = _source(node.sourceRange())
                    recording.module = recording.module or _module(node.scopeName())
                return recording
        return None

    def _call_recorded(self, name: str, g: Any, args: tuple[Any, ...], attributes: Mapping[str, Any]) -> Any:
        node = g.original_node
        recording = Recording(name, source=_source(node.sourceRange()), module=_module(node.scopeName()))
        schema = node.schema()
        if schema.startswith(f"{name}.") or schema.startswith(f"{name}("):
            recording.operator, recording.schema = schema.partition("(")[0], schema
        if name == "prim::PythonOp":
            recording.operator = f"python::{node.pyname()}"
        function = self._as_pinned_node(name, recording) or self._function(name, recording)
        if function is None:
            recording.failure = "It has no translation, and torch.onnx has no symbolic function for it."
        return self._run(recording, function, g, args, attributes)

    def _run(
        self,
        recording: Recording,
        function: Callable[..., Any] | None,
        g: Any,
        args: tuple[Any, ...],
        attributes: Mapping[str, Any],
    ) -> Any:
        mark = f"opbridge_{len(self.recordings)}"
        self.recordings.append(recording)
        # Names from the model would be passed on to the results.
        if g.original_node is not None:
            for output in g.original_node.outputs():
                output.setDebugName(mark)
        before = len(g.new_nodes)
        try:
            built = self._built(recording, function, g, args, attributes)
        except Exception as error:
            recording.failure = recording.failure or f"Its {recording.how} failed: {_first_line(error)}"
            raise torchscript_export.unsupported_error(recording.failure) from error
        for node in g.new_nodes[before:]:
            for output in node.outputs():
                if not _MARK.match(output.debugName()):
                    output.setDebugName(mark)
        return built

    def _built(
        self,
        recording: Recording,
        function: Callable[..., Any] | None,
        g: Any,
        args: tuple[Any, ...],
        attributes: Mapping[str, Any],
    ) -> Any:
        """Calls the function; where it fails, or there is none, builds the node of an allowed route instead."""
        try:
            if function is None:
                raise torchscript_export.unsupported_error(recording.failure)
            return function(g, *args, **attributes)
        except Exception as error:
            said = recording.failure or f"Its {recording.how} failed: {_first_line(error)}"
            for route in NODE_ROUTES:
                carry = as_node(_base(recording.operator), route) if route in self.allow else None
                if carry is not None and recording.route not in NODE_ROUTES:
                    built = carry(g, *args, **attributes)
                    recording.route, recording.failure = route, ""
                    recording.how = f"{_NODE_DESCRIPTIONS[route]}: {said}"
                    return built
            raise

    def _as_pinned_node(self, name: str, recording: Recording) -> Callable[..., Any] | None:
        """The symbolic function that builds one node, for an operator that is pinned to such a route."""
        route = self.pinned(name)
        function = as_node(name, route) if route in NODE_ROUTES and not name.startswith("prim::") else None
        if function is not None and route is not None:
            recording.route, recording.how = route, f"{_NODE_DESCRIPTIONS[route]}, pinned to this route"
        return function

    def _function(self, name: str, recording: Recording) -> Callable[..., Any] | None:
        entries = self._by_name.get(name, [])
        symbolic = self.registry.find(name, self.opset)
        if symbolic is not None and symbolic.form == "symbolic" and symbolic.origin == "user":
            recording.how = symbolic.describe()
            return symbolic.function
        builtin = torchscript_registry.builtin_symbolic(name, self.opset) or torchscript_registry.user_symbolic(
            name, self.opset
        )
        if entries and (builtin is None or any(entry.origin != "torchlib" for entry in entries)):
            recording.how = "translation"
            on_outcome = functools.partial(self._note_outcome, recording, name)
            return as_symbolic(entries, fallback=lambda opset: builtin, on_outcome=on_outcome)
        recording.how = _TORCH
        return builtin

    def _note_outcome(self, recording: Recording, name: str, outcome: TranslationOutcome) -> None:
        if outcome.operator:
            recording.operator = outcome.operator
            target = torch_operators.operator_object(outcome.operator)
            recording.schema = str(target._schema) if target is not None else ""
        if outcome.translation is not None:
            recording.how = outcome.translation.describe()
            self.functions.update(outcome.functions)
            if outcome.translation.route == "function" and outcome.functions:
                recording.route = "function"
        else:
            recording.how = f"{_TORCH} (no translation applies: {outcome.reason})"

    # For the plan

    def rows(self) -> list[PlanRow]:
        """The rows of the plan, one for each operator."""
        grouped: dict[str, list[Recording]] = {}
        for recording in self.recordings:
            if not _PRIMITIVE.match(recording.operator) or recording.failure:
                grouped.setdefault(recording.operator, []).append(recording)
        return [self._row(operator, each) for operator, each in grouped.items()]

    def _row(self, operator: str, recorded: list[Recording]) -> PlanRow:
        lost = [each for each in recorded if each.failure]
        sources = tuple(dict.fromkeys(each.source for each in lost or recorded if each.source))
        schema = next((each.schema for each in recorded if each.schema), "")
        row = PlanRow(operator, len(recorded), None, "", sources, schema=schema)
        if lost:
            known = bool(torch_operators.overloads(_base(operator)))
            permissions = tuple(route for route in NODE_ROUTES if known and route not in self.allow)
            remedy = _remedy(operator, permissions)
            return dataclasses.replace(row, reason=lost[0].failure, remedy=remedy, permissions=permissions)
        how = "; ".join(dict.fromkeys(each.how for each in recorded))
        if operator in ("prim::If", "prim::Loop"):
            how = "control flow"
        return dataclasses.replace(row, route=max((each.route for each in recorded), key=ROUTES.index), how=how)


def _base(operator: str) -> str:
    return operator.partition(".")[0]


def _remedy(operator: str, permissions: Sequence[str]) -> str:
    base = _base(operator)
    if base.startswith(("prim::", "python::")):
        return "Replace it in the model, or add a symbolic method to the torch.autograd.Function."
    return (
        f'Write a translation, @opbridge.translation("{operator}"), or a symbolic function, '
        f'@opbridge.symbolic("{base}").{permission_advice(permissions)}'
    )


@functools.lru_cache(maxsize=4096)
def _source(stack: str) -> Source | None:
    """The model's line, from a stack as the tracer stores it, the innermost frame first."""
    frames = [
        traceback.FrameSummary(found["file"], int(found["line"]), found["function"]) for found in _FRAME.finditer(stack)
    ]
    return next(iter(innermost("".join(traceback.format_list(reversed(frames))))), None)


def _module(scope: str) -> str:
    """`Flat::/Net::model/Sequential::layer1/Conv2d::layer1.0` as `layer1.0`; the outer two are opbridge's."""
    path: list[str] = []
    for part in scope.split("/")[2:]:
        name = part.rpartition("::")[2]
        if path and name.startswith(f"{path[-1]}."):
            path.pop()
        if name:
            path.append(name)
    return ".".join(path)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    text = lines[0].strip() if lines else type(error).__name__
    return text if text.endswith(".") else f"{text}."
