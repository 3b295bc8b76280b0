"""The first operator that differs between a captured graph and the nodes of a file that were made of it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import torch
from torch.fx import Node

from opbridge.capture.functionalize import FunctionalGraph
from opbridge.errors import OpbridgeError
from opbridge.graph.operators import UNINITIALIZED, functional_operator_of, operator_of
from opbridge.onnx import reading, subgraphs
from opbridge.save import writer
from opbridge.verification.bisection import iterations, metadata, regions
from opbridge.verification.bisection.captured_loops import CapturedLoop, captured_loop
from opbridge.verification.bisection.cases import Case, Located
from opbridge.verification.bisection.files import FileSide
from opbridge.verification.bisection.fresh_translation import holds_nodes
from opbridge.verification.bisection.graphs import comparable, nodes_between
from opbridge.verification.bisection.judging import Judge
from opbridge.verification.bisection.locating import FEW_VALUES, MOST_LEVELS, budget_of, operators_of, values_of
from opbridge.verification.bisection.metadata import PYTORCH
from opbridge.verification.bisection.pytorch import TorchSide
from opbridge.verification.bisection.report import Culprit, ValueRange
from opbridge.verification.bisection.search import Probe, Search, search
from opbridge.verification.bisection.types import typed
from opbridge.verification.bisection.within_translation import located_within
from opbridge.verification.compare import Comparison, rms
from opbridge.verification.intermediate import Unusable, counterparts, keyed
from opbridge.verification.taken_branches import along_taken_branches

__all__ = ["CapturedPair"]

_Kept = tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]
"""Values that a run has fetched, by their names in the file: PyTorch's, and the file's."""


class CapturedPair:
    """A captured graph and the nodes of a file that were made of it, on the same inputs.

    Both are taken with the branches that these inputs take in the place of their decisions.

    Args:
        stack: Keeps the file's parts until the reproducer is written.
        file: The file, with its inputs.
        model: The same file.
        functional: The captured graph.
        leaves: The inputs of the captured graph.
        judge: Compares values.
        within: The nodes that hold these nodes, in words.

    Attributes:
        whole: The file's side, with its decisions.
        file: The same without them.
        torch: PyTorch's side.
        note: Why values have to be matched by what they hold; "": the file says which belong together.

    Raises:
        Unusable: PyTorch cannot compute a node.
    """

    def __init__(
        self,
        stack: contextlib.ExitStack,
        file: FileSide,
        model: ir.Model,
        functional: FunctionalGraph,
        leaves: Sequence[Any],
        judge: Judge,
        within: Sequence[str] = (),
    ) -> None:
        self._stack, self._judge, self._within = stack, judge, tuple(within)
        self.whole = self.file = file
        conditions: dict[str, str] = {}
        note = conditions.__setitem__
        taken, functional = along_taken_branches(model, functional, leaves, lambda node: True, note)
        by_name = {node.name: node for node in functional.graph.graph.nodes}
        self._conditions = [(name, by_name[each]) for name, each in conditions.items() if each in by_name]
        if taken is not model:
            path = Path(tempfile.mkdtemp(dir=file.workspace.path)) / "taken.onnx"
            writer.save(taken, path)
            self.file = stack.enter_context(FileSide.of_file(str(path), file.setting))
            self.file.label = self.file.index.label = file.label
            self.file.feeds = file.feeds
        self.note = ""
        try:
            values = counterparts(taken.graph, functional.graph)
        except Unusable as error:
            values, self.note = {}, str(error)
        usable = _usable(functional.graph.graph.nodes)
        names = {str(value.name): key for key, value in values.items() if key in usable}
        self.torch = TorchSide(functional, leaves, names, PYTORCH)

    @property
    def runs(self) -> int:
        """How many times either side, or a part of it, has run."""
        return self.file.runs + self.torch.runs + (0 if self.whole is self.file else self.whole.runs)

    @property
    def results(self) -> list[Node | None]:
        """The outputs of the captured graph; None for a constant."""
        return [leaf.node for leaf in self.torch.functional.graph.outputs]

    def first_wrong(self, pairs: Sequence[tuple[str, Node | None]]) -> str | None:
        """The first output or decision that differs, by its name in the file; None where none does that a node gives.

        Args:
            pairs: The name of each output in the file, and the node of the captured graph; None for a constant.

        Raises:
            Unusable: PyTorch raises.
            OpbridgeError: A run of the file fails.
        """
        makers = self.file.index.makers
        # A decision that differs is in no output, as both sides are taken with PyTorch's.
        given = [(name, node) for name, node in (*pairs, *self._conditions) if node is not None and name in makers]
        wrong = [each.name for each in self.outputs(given, self.file) if not each.ok]
        return min(wrong, key=makers.__getitem__, default=None)

    def outputs(self, pairs: Sequence[tuple[str, Node]], file: FileSide) -> list[Comparison]:
        """The comparisons of outputs.

        Args:
            pairs: The name of each output in the file, and the node of the captured graph.
            file: The file, with its decisions or without them.

        Raises:
            Unusable: PyTorch raises.
            OpbridgeError: A run of the file fails.
        """
        wanted = {node.name for _, node in pairs}
        expected = {key: value.clone() for key, value in self.torch.walk() if key in wanted}
        functional = self.torch.functional
        given = {leaf.node: value for leaf, value in zip(functional.graph.inputs, self.torch.leaves, strict=True)}
        actual = file.fetch([name for name, _ in pairs])
        found = []
        for name, node in pairs:
            value = expected.get(node.name, given.get(node))
            if value is None and node in functional.graph.weights:
                value = functional.graph.weights[node].tensor
            if isinstance(value, torch.Tensor):
                found.append(self._judge.compare(name, value, actual[name]))
                self.torch.counterparts.setdefault(name, node.name)
                self.torch.nodes.setdefault(name, node)
        return found

    def located(self, wrong: str) -> Located:
        """The first operator that differs.

        Args:
            wrong: The name of an output or a decision that differs.

        Raises:
            Unusable: PyTorch raises.
            OpbridgeError: A run of the file fails.
        """
        index = self.file.index
        mapping = {name: name for name in self.torch.counterparts}
        values, types = values_of(self.file, mapping)
        if self.note:
            parting, self.torch.nodes = regions.beside_pytorch(self.file, self.torch, types, wrong)
            self.torch.counterparts = parting.same
            return self._examined({parting.value: parting.parents}, Search(parting.value, [parting.value]))
        if wrong not in values.parents:
            values = comparable(index, [*values.order, wrong], types)
        plain = self.file.setting.is_plain
        few = len(values.order) <= FEW_VALUES
        kept: _Kept = ({}, {})

        def probe(names: Sequence[str]) -> Probe:
            asked = list(names) if wrong in names or (plain and not few) else [*names, wrong]
            for each in kept:
                each.clear()
            kept[0].update(self.torch.fetch(asked))
            kept[1].update(self.file.fetch(asked))
            differing = {
                name
                for name in asked
                if name in kept[0] and not self._judge.compare(name, kept[0][name], kept[1][name]).ok
            }
            return Probe(frozenset(differing), plain or wrong in differing)

        found = search(values, wrong, probe, budget_of(self.file, self.file))
        return self._examined(values.parents, found, kept if plain else ({}, {}))

    def _examined(self, parents_of: Mapping[str, Sequence[str]], found: Search, kept: _Kept = ({}, {})) -> Located:
        index, value = self.file.index, found.value
        inside = set(found.region)
        parents = sorted({each for name in found.region for each in parents_of[name] if each not in inside})
        nodes = nodes_between(index, [value], parents)
        part = subgraphs.part(index, [value], parents, nodes=nodes)
        read = subgraphs.inputs_of(part)
        actual = {**kept[1], **self.file.fetch([name for name in (*read, value) if name not in kept[1]])}
        known = [name for name in (*read, value) if name in self.torch.counterparts]
        expected = {**kept[0], **self.torch.fetch([name for name in known if name not in kept[0]])}
        expected.update((name, self.file.feeds[name]) for name in read if name in self.file.feeds)
        pairs = {name: (expected[name], actual[name]) for name in read if name in expected}
        inputs = [self._judge.compare(name, *pair) for name, pair in pairs.items()]
        comparison = self._judge.compare(value, expected[value], actual[value])
        given = {name: actual[name] for name in read}
        typed(part, given, {value: actual[value]})
        node, arguments, alone, note = self.torch.nodes[value], None, None, ""
        fused = bool(found.disturbing) and len(found.region) > 1
        scale = max([1.0, *(rms(each) for each in given.values())])
        try:
            its, arguments = self.torch.alone(value, given)
            deeper = None if fused else self._entered(part, given, node, arguments)
            if deeper is not None and deeper.culprit.alone:
                return deeper
            mine = self.file.compute(part, given)[value]
            if its is not None:
                apart = self._judge.compare(value, its, mine, scale=scale)
                alone = not apart.ok
                comparison = apart if alone and comparison.ok else comparison
                if alone and not fused and holds_nodes(part):
                    call = node, self.torch.counterparts[value], arguments
                    deeper = located_within(self._stack, self.file, part, given, call, its, self._judge, self._within)
                    if deeper is not None:
                        return deeper
        except (Unusable, OpbridgeError) as error:
            note = str(error)
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
            self._within,
            fused,
            note,
        )
        case = Case((part,), (given,), (value,), (self.file,), (node, self.torch.counterparts[value], arguments))
        return Located(culprit, case)

    def _entered(
        self, part: onnx.ModelProto, given: Mapping[str, torch.Tensor], node: Node, arguments: Sequence[Any]
    ) -> Located | None:
        """The operator in the first iteration of a loop that differs.

        None where the node is no loop, where PyTorch cannot give what its iterations compute, or where none of them
        differs by itself.

        Args:
            part: The nodes of the file.
            given: The inputs of the part.
            node: The node of the captured graph.
            arguments: The values of the nodes that it reads.
        """
        if not operator_of(node).startswith("higher_order::") or len(self._within) == MOST_LEVELS:
            return None
        try:
            loop = iterations.loop_within(self.file, part, given)
            captured = captured_loop(node, arguments, loop) if loop is not None else None
            if loop is None or captured is None:
                return None
            try:
                number = iterations.first_difference(captured, loop, self._judge)
                if number is None:
                    return None
                # What decides whether there is an iteration is in the one before it.
                return self._in_iteration(loop, captured, number) or self._in_iteration(loop, captured, number - 1)
            finally:
                self.torch.runs += captured.runs
        except (Unusable, OpbridgeError):  # the loop is named as a whole
            return None

    def _in_iteration(self, loop: iterations.Repeated, captured: CapturedLoop, number: int) -> Located | None:
        """The operator that differs in an iteration; None where there is none, or the loop ends before.

        Raises:
            Unusable: PyTorch raises.
            OpbridgeError: A run of the file fails.
        """
        iteration = captured.iteration(number) if number >= 0 else None
        if iteration is None:
            return None
        body, feeds = loop.body(number, iteration.carried)
        file = self.file.part(body)
        file.feeds = feeds
        path = file.workspace.write(body)
        try:
            model = reading.load(str(path))
            within = [*self._within, iterations.holder_of(loop, number)]
            inner = CapturedPair(self._stack, file, model, iteration.functional, iteration.leaves, self._judge, within)
        finally:
            path.unlink()
        try:
            wrong = inner.first_wrong(list(zip(inner.file.index.outputs, inner.results, strict=True)))
            return None if wrong is None else inner.located(wrong)
        finally:
            self.file.runs += inner.file.runs
            self.torch.runs += inner.torch.runs


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
