"""Where opbridge's capture differs from torch.export's: operator by operator, with shapes, dtypes and source lines.

The models are those of bench/models.py, those of the tests, and examples; with static and with dynamic sizes. The
sequences of operators are aligned, so that one more operator is one difference. Left out are torch.export's assertions,
for which a file has no nodes, and where a size is read from, which the shapes make up for.

    python bench/captures.py             # all models
    python bench/captures.py BERT swin   # those whose names contain one of these; nothing is written
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import logging
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import models
import sympy
import torch
from results import table, write_section
from torch.fx import GraphModule, Node
from torch.fx.proxy import TracerBase
from torch.utils import _pytree as pytree

from opbridge.base.sources import Source, innermost
from opbridge.capture import capture
from opbridge.graph import node_sources

ROOT = Path(__file__).parents[1]
EXAMPLES = ("deform_net", "dynamic_convolution", "export_modes", "function_symbolic", "missing_operators")
Build = Callable[[], models.Built]

REASONS = {
    "tests: deform_conv": "torch.export records slices of whole dynamic dimensions, which change nothing",
    "tests: Wav2Vec2": "torch.export records slices of whole dynamic dimensions, which change nothing",
    "tests: DeBERTa-v2": "a product of sizes is recorded where it is first computed, not where an operator reads it",
    "examples: function_symbolic": "a torch.autograd.Function with `symbolic` stays one operator",
}
"""Why a model's captures differ."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of the names of models; all by default")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    chosen = {
        name: build
        for name, build in all_models().items()
        if not options.names or any(part in name for part in options.names)
    }
    found = []
    for name, build in chosen.items():
        found.append(compare(name, build))
        print(found[-1].line(), flush=True)
        for text in found[-1].explained():
            print(f"    {text}")
    if not options.names:
        write_section("captures", "opbridge's capture and torch.export's", report(found))


@dataclass
class Operator:
    """One operator of a capture.

    Attributes:
        name: Its name: "aten.add.Tensor".
        shapes: The shapes of its results, with symbols that do not depend on the capture.
        dtypes: The dtypes of its results, or what else they are.
        source: The user's line that called it; empty where that is not known.
    """

    name: str
    shapes: str
    dtypes: str
    source: str


@dataclass
class Comparison:
    """What comparing the two captures of a model gives.

    Attributes:
        name: The model's.
        operators: How many operators torch.export's capture has.
        agreeing: How many of them agree with one of opbridge's.
        differences: How often there is each kind of difference, and the first of them.
        refused: Why there is nothing to compare; empty where there is.
    """

    name: str
    operators: int = 0
    agreeing: int = 0
    differences: dict[str, tuple[int, str]] = field(default_factory=dict)
    refused: str = ""

    def note(self, kind: str, example: str) -> None:
        """Counts a difference."""
        count, first = self.differences.get(kind, (0, example))
        self.differences[kind] = count + 1, first

    def line(self) -> str:
        """The result in a line."""
        if self.refused:
            return f"{self.name}: {self.refused}"
        kinds = sum(count for count, _ in self.differences.values())
        return f"{self.name}: {self.operators} operators, {self.agreeing} agree, {kinds} differences"

    def explained(self) -> list[str]:
        """The differences by kind, the most frequent first."""
        ordered = sorted(self.differences.items(), key=lambda item: -item[1][0])
        return [f"{count} x {kind}: {example}" for kind, (count, example) in ordered]


def report(found: list[Comparison]) -> str:
    """The section of RESULTS.md."""
    rows = [
        [each.name, str(each.operators), str(each.agreeing), str(sum(count for count, _ in each.differences.values()))]
        for each in found
        if not each.refused
    ]
    parts = [
        "Operators that agree have the same name, shapes, dtypes and source line. The sequences are aligned.",
        table(["model", "operators of torch.export", "agree", "differences"], rows),
    ]
    for each in found:
        if each.refused or each.differences:
            reason = next((text for name, text in REASONS.items() if each.name.startswith(name)), "")
            line = f"{each.line()}{f': {reason}' if reason else ''}\n"
            parts.append("\n".join([line, *(f"- {text}" for text in each.explained())]))
    return "\n\n".join(parts)


def all_models() -> dict[str, Build]:
    """The models by name."""
    found: dict[str, Build] = {name: lambda name=name: models.build(name) for name in models.EXPORTED}
    zoo = load(ROOT / "tests" / "models" / "zoo.py")
    for name, make in {**zoo.VISION, **zoo.TRANSFORMERS}.items():
        found[f"tests: {name}"] = lambda make=make: from_zoo(make, dynamic=False)
        if name != "raft_small":  # it has no dynamic sizes
            found[f"tests: {name}, dynamic sizes"] = lambda make=make: from_zoo(make, dynamic=True)
    for name in EXAMPLES:
        found[f"examples: {name}"] = lambda name=name: from_example(name)
    return found


def from_zoo(make: Callable[[], tuple[Any, ...]], *, dynamic: bool) -> models.Built:
    """A model of the tests."""
    torch.manual_seed(0)
    model, args, kwargs, shapes = make()
    return models.Built(model, args, kwargs, shapes if dynamic else None)


def from_example(name: str) -> models.Built:
    """The model of an example."""
    model, args, *more = load(ROOT / "examples" / f"{name}.py").build()
    settings = more[0] if more else {}
    return models.Built(model, args, settings.get("kwargs", {}), settings.get("dynamic_shapes"))


def load(path: Path) -> Any:
    """The module in a file. Modules of the tests have names that those of this folder have too."""
    name = f"compared_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def with_dims(shapes: Any) -> Any:
    """Dynamic shapes that torch.export takes, with one Dim for each name."""
    dims: dict[str, Any] = {}
    return pytree.tree_map(
        lambda size: dims.setdefault(size, torch.export.Dim(size)) if isinstance(size, str) else size, shapes
    )


def without_names(shapes: Any) -> Any:
    """The same where torch.export refuses a Dim: it is to leave these sizes open, and does not know which are equal."""
    return pytree.tree_map(lambda size: torch.export.Dim.DYNAMIC if isinstance(size, str) else size, shapes)


def compare(name: str, build: Build) -> Comparison:
    """Captures a model in both ways; each has an instance of its own, as a capture may change it."""
    found = Comparison(name)
    try:
        theirs = of_torch_export(build())
    except Exception as error:
        found.refused = f"torch.export refuses it: {first_line(error)}"
        return found
    try:
        ours = of_opbridge(build())
    except Exception as error:
        found.refused = f"opbridge refuses it: {first_line(error)}"
        return found
    found.operators = len(theirs)
    align(found, theirs, ours)
    return found


def align(found: Comparison, theirs: list[Operator], ours: list[Operator]) -> None:
    """Counts what agrees and notes what does not."""
    matcher = SequenceMatcher(None, [each.name for each in theirs], [each.name for each in ours], autojunk=False)
    for tag, begin, end, other, until in matcher.get_opcodes():
        if tag != "equal":
            for each in theirs[begin:end]:
                found.note(f"only torch.export has {each.name}", described(each))
            for each in ours[other:until]:
                found.note(f"only opbridge has {each.name}", described(each))
            continue
        for one, two in zip(theirs[begin:end], ours[other:until], strict=True):
            if one == two:
                found.agreeing += 1
            for what in ("shapes", "dtypes", "source"):
                expected, got = getattr(one, what), getattr(two, what)
                if expected != got:
                    found.note(f"{what} of {one.name}", f"{expected or 'none'}, opbridge: {got or 'none'}")


def described(operator: Operator) -> str:
    return f"{operator.dtypes} {operator.shapes} {operator.source}".strip()


def first_line(error: Exception) -> str:
    text = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {text[:200]}"


def of_torch_export(built: models.Built) -> list[Operator]:
    """The operators as torch.export captures them, in the training form and with gradients off, as opbridge does."""
    model, args, kwargs, dynamic_shapes = built
    with torch.no_grad(), keeping_frames():
        try:
            program = torch.export.export(model, args, kwargs, dynamic_shapes=with_dims(dynamic_shapes), strict=False)
        except torch._dynamo.exc.UserError:
            program = torch.export.export(
                model, args, kwargs, dynamic_shapes=without_names(dynamic_shapes), strict=False
            )
    given = set(program.graph_signature.user_inputs)
    inputs = [node for node in program.graph.nodes if node.op == "placeholder" and node.name in given]
    return operators(program.graph_module, inputs, lambda node: innermost(node.meta.get("stack_trace")))


@contextlib.contextmanager
def keeping_frames() -> Iterator[None]:
    """Within this context, torch.export records all frames of the model's code, not only those of `forward`."""
    folder = f"{Path(torch.__file__).parent}{os.sep}"
    kept = TracerBase._filter_traceback_frames

    def of_the_model(self: Any, summary: traceback.StackSummary) -> traceback.StackSummary:
        frames = itertools.takewhile(lambda frame: frame.filename != __file__, reversed(summary))
        inner = [frame for frame in frames if not frame.filename.startswith(folder)]
        return traceback.StackSummary.from_list(inner[::-1])

    TracerBase._filter_traceback_frames = of_the_model
    try:
        yield
    finally:
        TracerBase._filter_traceback_frames = kept


def of_opbridge(built: models.Built) -> list[Operator]:
    """The operators as opbridge captures them."""
    model, args, kwargs, dynamic_shapes = built
    graph = capture(model, args, kwargs, dynamic_shapes=dynamic_shapes).graph
    inputs = [leaf.node for leaf in graph.inputs if leaf.node is not None]
    return operators(graph.module, inputs, node_sources.sources_of)


def operators(
    module: GraphModule, inputs: Iterable[Node], sources: Callable[[Node], Iterable[Source]]
) -> list[Operator]:
    """The operators of a graph and then those of its subgraphs, and what the graph returns as the last."""
    symbols = Symbols()
    for node in inputs:  # the sizes of the inputs are the first symbols, in any order of the weights
        symbols.describe(node.meta.get("val"))
    found = []
    for node in nodes_of(module):
        if node.op == "call_function" and not is_bookkeeping(node):
            shapes, dtypes = symbols.describe(node.meta.get("val"))
            source = next(iter(sources(node)), None)
            found.append(Operator(str(node.target), shapes, dtypes, str(source) if source else ""))
    returned = pytree.tree_leaves(module.graph.output_node().args[0])
    values = [leaf.meta.get("val") if isinstance(leaf, Node) else leaf for leaf in returned]
    return [*found, Operator("output", *symbols.describe(values), "")]


def is_bookkeeping(node: Node) -> bool:
    """Whether a node is no operator of the model's.

    1. torch.export asserts the dtype of each tensor that is converted, and the conditions on sizes of data; the file
       has no nodes for these.
    2. Where a size is read: opbridge reads it from the first tensor that has it, torch.export from the one that was
       asked for it, and for its own assertions. What a size is, the shapes compare.
    """
    name = str(node.target)
    return name.startswith(("aten._assert_", "aten.sym_constrain_range", "aten.sym_size"))


def nodes_of(module: GraphModule) -> Iterator[Node]:
    """The nodes of a graph, and those of the subgraphs in the order in which it names them."""
    yield from module.graph.nodes
    for node in module.graph.nodes:
        if node.op == "get_attr" and isinstance(inner := getattr(module, str(node.target), None), GraphModule):
            yield from nodes_of(inner)


class Symbols:
    """Names for the symbols of a capture, in the order in which they are first seen."""

    def __init__(self) -> None:
        self._names: dict[Any, Any] = {}

    def describe(self, value: Any) -> tuple[str, str]:
        """The shapes and the dtypes of the tensors and numbers in a value."""
        leaves = pytree.tree_leaves(value)
        return ", ".join(map(self._shape, leaves)), ", ".join(map(_kind, leaves))

    def _shape(self, leaf: Any) -> str:
        if isinstance(leaf, torch.Tensor):
            return f"({', '.join(map(self._size, leaf.shape))})"
        return self._size(leaf)

    def _size(self, size: Any) -> str:
        if not isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool):
            return str(size)
        expression = size.node.expr
        for symbol in sorted(expression.free_symbols, key=str):
            self._names.setdefault(symbol, sympy.Symbol(f"d{len(self._names)}", integer=True, positive=True))
        return str(expression.xreplace(self._names))


def _kind(leaf: Any) -> str:
    return str(leaf.dtype).removeprefix("torch.") if isinstance(leaf, torch.Tensor) else type(leaf).__name__


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"took {time.perf_counter() - started:.0f} s", file=sys.stderr)
