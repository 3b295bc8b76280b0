"""What a capture gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from opbridge.capture.functionalize import FunctionalGraph
from opbridge.graph.captured_graph import AskedDimension, CapturedGraph
from opbridge.graph.decisions import Decision
from opbridge.graph.function_calls import FunctionCall
from opbridge.graph.tried_strategies import Tried

__all__ = ["Capture"]


@dataclass
class Capture:
    """A model as a graph of operators.

    Attributes:
        graph: The graph as it was captured: not functional, in the training form. Its ranges leave out sizes that it
            does not cover.
        functional: The same graph with in-place operators as values: what is planned, translated and verified.
        model: The user's module (without what torch.compile put around it), function or ExportedProgram, for
            comparison.
        args: The positional example inputs.
        kwargs: The keyword example inputs.
        mode: "direct", or torch.export's "non-strict" or "strict"; "given" for an ExportedProgram, or "trace": then the
            graph is that of a stand-in with the model's inputs and outputs (see `opbridge.torchscript.interface`).
        dim_names: torch's symbols ("s77") and what their dimensions are called in the ONNX file ("batch").
        dim_sums: Sums of symbols ("s15 + s20"), and what the user calls these dimensions ("past + sequence").
        notes: What a person should know: a fallback that was needed, values that were frozen, sizes that are excluded.
        seconds: How long it took.
        functions: The calls of torch.autograd.Function that are operators of the graph.
        read_inputs: The inputs, by their number among the leaves of `(args, kwargs)`, whose values such a function
            turns into Python numbers.
        asked: The dimensions of the inputs that are to be dynamic.
        demands: The conditions on sizes under which the graph is the model, by the names of the dimensions ("n <= 9"),
            each with the line that causes it ("model.py:12"), or "".
        decisions: The truth values that only data decides, with what the model does for each.
        whole: The operators of other libraries that were kept whole as they tell no shapes (see
            `opbridge.capture.opaque_operators`).
        tried: The strategies that were tried, in order, and how each ended; the last that captured is the one taken.
        no_loop: Why the loop over a dynamic size is unrolled as in the example, as a clause; "" where none is.
    """

    graph: CapturedGraph
    functional: FunctionalGraph
    model: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    mode: str
    dim_names: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    functions: tuple[FunctionCall, ...] = ()
    read_inputs: tuple[int, ...] = ()
    whole: frozenset[str] = frozenset()
    asked: tuple[AskedDimension, ...] = ()
    demands: tuple[tuple[str, str], ...] = ()
    decisions: tuple[Decision, ...] = ()
    dim_sums: dict[str, str] = field(default_factory=dict)
    tried: tuple[Tried, ...] = ()
    no_loop: str = ""
