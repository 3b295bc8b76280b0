"""The first operator that differs between a PyTorch model and a file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from opbridge.base.wording import counted
from opbridge.capture import capture as capture_model
from opbridge.errors import OpbridgeError, UsageError
from opbridge.graph.operators import UNINITIALIZED, functional_operator_of
from opbridge.onnx import reading, subgraphs
from opbridge.runtimes.onnxruntime.model_file import checked_model
from opbridge.save import writer
from opbridge.verification.bisection import metadata, regions
from opbridge.verification.bisection.cases import Case, Located
from opbridge.verification.bisection.files import FileSide, Setting
from opbridge.verification.bisection.graphs import comparable, nodes_between
from opbridge.verification.bisection.judging import Judge
from opbridge.verification.bisection.locating import budget_of, operators_of, typed, values_of
from opbridge.verification.bisection.metadata import PYTORCH
from opbridge.verification.bisection.pytorch import TorchSide
from opbridge.verification.bisection.report import Bisection, Culprit, ValueRange
from opbridge.verification.bisection.search import Probe, Search, search
from opbridge.verification.bisection.types import coarsest
from opbridge.verification.compare import Comparison, rms
from opbridge.verification.dispatch import checked_example
from opbridge.verification.fresh_inputs import fresh_inputs
from opbridge.verification.intermediate import Unusable, counterparts, feeds_of, keyed
from opbridge.verification.taken_branches import along_taken_branches

__all__ = ["bisect"]

_SAMPLES = 2
"""So many sets of fresh inputs are tried where the example agrees."""


def bisect(
    stack: contextlib.ExitStack,
    file: Any,
    model: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    setting: Setting,
    rtol: float | None,
    atol: float | None,
) -> tuple[Bisection, Located | None]:
    """Searches for the first operator of a file that differs from PyTorch's.

    Args:
        stack: Keeps the file's parts until the reproducer is written.
        file: The path of the file, or its content.
        model: The PyTorch model.
        args: Its example inputs.
        kwargs: Its example keyword inputs.
        setting: Where the file runs.
        rtol: As for `opbridge.bisect`.
        atol: As for `opbridge.bisect`.

    Raises:
        OpbridgeError: See `opbridge.bisect`.
    """
    args, kwargs = checked_example("opbridge.bisect", model, args, kwargs)
    content, label = checked_model(file)
    side = stack.enter_context(FileSide.of_file(content, setting))  # a damaged file is refused before the capture
    capture = capture_model(model, args, kwargs)
    found = Bisection((PYTORCH, label), (f"captured graph, torch {torch.__version__}", setting.label))
    found.nodes = len(side.index.nodes)
    loaded = reading.load(content)
    judge = Judge((PYTORCH, label), coarsest(side.index, {k: v.type for k, v in side.index.types.items()}), rtol, atol)
    for number in range(_SAMPLES + 1):
        inputs = fresh_inputs(args, kwargs, number) if number else (args, kwargs)
        leaves = pytree.tree_leaves(inputs)
        try:
            run = _Run(stack, loaded, content, capture, leaves, side, judge)
            found.outputs = tuple(run.outputs())
        except Unusable as error:
            if number:  # fresh inputs that the model does not take
                break
            raise UsageError(f"{label} cannot be compared with the PyTorch model: {error}.") from error
        found.runs += 1 + run.torch.runs
        if not all(each.ok for each in found.outputs):
            break
    if found.ok or not found.outputs:
        return found, None
    located: Located | None = None
    before = run.file.runs + run.torch.runs
    try:
        located = run.located(found)
    except (Unusable, OpbridgeError) as error:
        found.reason = str(error).rstrip(".")
    found.runs += run.file.runs + run.torch.runs - before
    if located is not None:
        found.culprit = located.culprit
    return found, located


class _Run:
    """Both sides on one set of inputs, with the sides of decisions that these take."""

    def __init__(
        self,
        stack: contextlib.ExitStack,
        loaded: ir.Model,
        content: str | bytes,
        capture: Any,
        leaves: Sequence[Any],
        side: FileSide,
        judge: Judge,
    ) -> None:
        self._judge = judge
        model, functional = along_taken_branches(loaded, capture.functional, leaves, lambda node: True)
        self.file = side
        if model is not loaded:
            path = side.workspace.path / f"taken{side.runs}.onnx"
            writer.save(model, path)
            self.file = stack.enter_context(FileSide.of_file(str(path), side.setting))
            self.file.label = self.file.index.label = side.label
        self.file.feeds = feeds_of(model, functional.graph, leaves)
        self.reason = ""
        try:
            values = counterparts(model.graph, functional.graph)
        except Unusable as error:
            values, self.reason = {}, str(error)
        usable = _usable(functional.graph.graph.nodes)
        names = {str(value.name): key for key, value in values.items() if key in usable}
        self.torch = TorchSide(functional, leaves, names, PYTORCH)
        self._results = [leaf.node for leaf in functional.graph.outputs if leaf.node is not None]
        if len(self._results) != len(self.file.index.outputs):
            raise Unusable(
                f"the file has {counted(len(self.file.index.outputs), 'output')}, but the model returns "
                f"{len(self._results)}"
            )

    def outputs(self) -> list[Comparison]:
        """The comparisons of the outputs."""
        wanted = {node.name for node in self._results}
        expected = {key: value.clone() for key, value in self.torch.walk() if key in wanted}
        given = {
            leaf.node: value for leaf, value in zip(self.torch.functional.graph.inputs, self.torch.leaves, strict=True)
        }
        names = self.file.index.outputs
        actual = self.file.fetch(names)
        found = []
        for name, node in zip(names, self._results, strict=True):
            value = expected.get(node.name, given.get(node))
            if value is None and node in self.torch.functional.graph.weights:
                value = self.torch.functional.graph.weights[node].tensor
            if isinstance(value, torch.Tensor):
                found.append(self._judge.compare(name, value, actual[name]))
                self.torch.counterparts.setdefault(name, node.name)
                self.torch.nodes.setdefault(name, node)
        return found

    def located(self, found: Bisection) -> Located | None:
        """The first operator that differs.

        Raises:
            Unusable: PyTorch raises.
            OpbridgeError: A run of the file fails.
        """
        index = self.file.index
        wrong = min((each.name for each in found.outputs if not each.ok), key=lambda name: index.makers.get(name, 0))
        if wrong not in index.makers:
            found.reason = f"the output '{wrong}' is an input or an initializer of the file"
            return None
        mapping = {name: name for name in self.torch.counterparts}
        values, types = values_of(self.file, mapping)
        if self.reason:
            found.notes.append(f"{self.reason}; values are matched by what they hold")
            parting, self.torch.nodes = regions.beside_pytorch(self.file, self.torch, types, wrong)
            self.torch.counterparts = parting.same
            return self._examined({parting.value: parting.parents}, Search(parting.value, [parting.value]))
        if wrong not in values.parents:
            values = comparable(index, [*values.order, wrong], types)
        plain = self.file.setting.is_plain

        def probe(names: Sequence[str]) -> Probe:
            asked = list(names) if plain or wrong in names else [*names, wrong]
            actual = self.file.fetch(asked)
            expected = self.torch.fetch(asked)
            differing = {
                name
                for name in asked
                if name in expected and not self._judge.compare(name, expected[name], actual[name]).ok
            }
            return Probe(frozenset(differing), plain or wrong in differing)

        return self._examined(values.parents, search(values, wrong, probe, budget_of(self.file, self.file)))

    def _examined(self, parents_of: Mapping[str, Sequence[str]], found: Search) -> Located:
        index, value = self.file.index, found.value
        inside = set(found.region)
        parents = sorted({each for name in found.region for each in parents_of[name] if each not in inside})
        nodes = nodes_between(index, [value], parents)
        part = subgraphs.part(index, [value], parents, nodes=nodes)
        read = subgraphs.inputs_of(part)
        actual = self.file.fetch([*read, value])
        expected = self.torch.fetch([*[name for name in read if name in self.torch.counterparts], value])
        expected.update((name, self.file.feeds[name]) for name in read if name in self.file.feeds)
        pairs = {name: (expected[name], actual[name]) for name in read if name in expected}
        inputs = [self._judge.compare(name, *pair) for name, pair in pairs.items()]
        comparison = self._judge.compare(value, expected[value], actual[value])
        given = {name: actual[name] for name in read}
        typed(part, given, {value: actual[value]})
        alone, note, call = None, "", None
        scale = max([1.0, *(rms(each) for each in given.values())])
        try:
            its, arguments = self.torch.alone(value, given)
            call = arguments
            mine = self.file.compute(part, given)[value]
            if its is not None:
                apart = self._judge.compare(value, its, mine, scale=scale)
                alone = not apart.ok
                comparison = apart if alone and comparison.ok else comparison
        except (Unusable, OpbridgeError) as error:
            note = str(error)
        node = self.torch.nodes[value]
        operators = operators_of(self.file, nodes)
        culprit = Culprit(
            value,
            (metadata.torch_operator(node, self.torch.counterparts[value]), *operators),
            tuple((ValueRange.of(name, one), ValueRange.of(name, two)) for name, (one, two) in pairs.items()),
            (ValueRange.of(value, expected[value]), ValueRange.of(value, actual[value])),
            comparison,
            max((each.relative for each in inputs), default=0.0),
            all(each.ok for each in inputs),
            alone,
            fused=bool(found.disturbing) and len(found.region) > 1,
            note=note,
        )
        case = Case((part,), (given,), (value,), (self.file,), (node, self.torch.counterparts[value], call))
        return Located(culprit, case)


def _usable(nodes: Any) -> set[str]:
    """The keys of values of a captured graph that can be compared: tensors that are not what memory held before."""
    found: set[str] = set()
    for node in nodes:
        if node.op == "call_function":
            if functional_operator_of(node).partition("::")[2].partition(".")[0] in UNINITIALIZED:
                continue
            found.update(_tensor_keys(node))
    return found


def _tensor_keys(node: Node) -> Iterator[str]:
    for key, value in keyed(node.name, node.meta.get("val")):
        if isinstance(value, torch.Tensor):
            yield key
