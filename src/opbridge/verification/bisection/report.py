"""What a search for the first operator that differs has found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from opbridge.base.wording import counted, duration, listed
from opbridge.verification.compare import Comparison, dtype_name

__all__ = ["Bisection", "Culprit", "Operator", "ValueRange"]

_MOST_SHOWN = 8


@dataclass(frozen=True)
class ValueRange:
    """The range of a tensor.

    Attributes:
        name: The name of the value.
        dtype: Its dtype, "float32".
        shape: Its shape.
        min: The smallest finite number; None where there is none.
        max: The largest finite number; None where there is none.
        nans: The number of NaNs.
        infs: The number of infinities.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    min: float | int | None = None
    max: float | int | None = None
    nans: int = 0
    infs: int = 0

    @classmethod
    def of(cls, name: str, tensor: torch.Tensor) -> ValueRange:
        """The range of a tensor."""
        tensor = tensor.detach()
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor.resolve_conj())
        nans = infs = 0
        values = tensor.reshape(-1)
        if tensor.is_floating_point():
            values = values if tensor.dtype in (torch.float32, torch.float64) else values.float()
            nans, infs = int(values.isnan().sum()), int(values.isinf().sum())
            if nans or infs:
                values = values[values.isfinite()]
        elif tensor.dtype in (torch.uint16, torch.uint32, torch.uint64):
            values = values.to(torch.int64)
        least = most = None
        if values.numel():
            least, most = values.min().item(), values.max().item()
        return cls(name, dtype_name(tensor.dtype), tuple(tensor.shape), least, most, nans, infs)

    def kind(self) -> str:
        """ "float32 [2, 3]" """
        return f"{self.dtype} {list(self.shape)}"

    def span(self) -> str:
        """ "-1.2 to 3.4, 2 NaN" """
        if self.min is None or self.max is None:
            parts = ["no finite number"] if self.nans or self.infs else ["empty"]
        elif self.min == self.max:
            parts = [f"all {_number(self.min)}"]
        else:
            parts = [f"{_number(self.min)} to {_number(self.max)}"]
        parts += [f"{self.nans} NaN"] if self.nans else []
        parts += [f"{self.infs} infinite"] if self.infs else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Operator:
    """An operator on one side.

    Attributes:
        side: The name of the side.
        operator: The operator: "Gelu", "com.microsoft::Gelu", or PyTorch's "aten::gelu".
        node: The name of its node.
        module: The path of the module that calls it; "" where it is not known.
        source: The line of the model's code; "" where it is not known.
        torch_operator: For a node of a file, the PyTorch operator that it was made from; "" where it is not known.
    """

    side: str
    operator: str
    node: str
    module: str = ""
    source: str = ""
    torch_operator: str = ""

    def __str__(self) -> str:
        return f"{self.operator} '{self.node}'" if self.node else self.operator


@dataclass(frozen=True)
class Culprit:
    """The first operator that differs.

    Attributes:
        value: The name of the value that differs, in the first file.
        operators: The operator that gives it, on each side; more than one of a side where only all of them together
            can be compared.
        inputs: The ranges of what it reads, of both sides: (expected, actual).
        outputs: The ranges of the value that differs, of both sides.
        comparison: The comparison of that value.
        largest_input: The largest difference of an input, relative to its magnitude.
        inputs_agree: Whether all inputs that are compared agree within the tolerance.
        alone: Whether the operator gives different results on the same inputs; None where that could not be found out.
        within: The nodes that hold it, from the outermost: "If 'cond' (then_branch)".
        fused: Whether the difference disappears when values between these operators are fetched, so that a runtime
            computes them in one.
        note: What there is to say of it beside.
    """

    value: str
    operators: tuple[Operator, ...]
    inputs: tuple[tuple[ValueRange, ValueRange], ...]
    outputs: tuple[ValueRange, ValueRange]
    comparison: Comparison
    largest_input: float = 0.0
    inputs_agree: bool = True
    alone: bool | None = None
    within: tuple[str, ...] = ()
    fused: bool = False
    note: str = ""

    @property
    def first(self) -> Operator:
        """The operator by which it is named: of the actual side, unless that composes it of several."""
        actual = [each for each in self.operators if each.side == self.operators[-1].side]
        return self.operators[0] if len(actual) > 1 and len(self.operators) == len(actual) + 1 else actual[-1]

    def verdict(self) -> str:
        """Whether the operator alone is the cause, in one sentence."""
        if self.fused:
            return (
                "The difference disappears when a value between these operators is fetched: the runtime computes "
                "them in one fused operator."
            )
        if self.alone is None:
            return "Whether it differs on the same inputs could not be tested." + (f" {self.note}" if self.note else "")
        if self.alone:
            return " ".join(filter(None, ("Given the same inputs, the operator alone differs as well.", self.note)))
        return (
            "Given the same inputs, the operator agrees: it amplifies a relative difference of "
            f"{self.largest_input:.1e} that is in its inputs."
        )


@dataclass
class Bisection:
    """The result of a search for the first operator that differs.

    Attributes:
        sides: What was compared: (expected, actual).
        settings: Where they ran.
        file: The file, where it is compared with itself.
        outputs: The comparisons of the outputs on the inputs of the search.
        culprit: The first operator that differs; None where none does, or none can be named.
        reason: Why there is none.
        nodes: The number of nodes of the first file.
        runs: The number of runs of the two sides, parts of them included.
        notes: What was left out.
        seconds: How long it took.
        files: The files of the reproducer.
    """

    sides: tuple[str, str]
    settings: tuple[str, str]
    file: str = ""
    outputs: tuple[Comparison, ...] = ()
    culprit: Culprit | None = None
    reason: str = ""
    nodes: int = 0
    runs: int = 0
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    files: list[Path] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether all outputs agree."""
        return bool(self.outputs) and all(each.ok for each in self.outputs)

    def to_json(self) -> dict[str, Any]:
        """The result as plain data."""
        culprit = self.culprit
        return {
            "ok": self.ok,
            "sides": list(self.sides),
            "settings": list(self.settings),
            "file": self.file,
            "outputs": [
                {"name": each.name, "ok": each.ok, "excess": each.excess, "text": each.text(self.sides[0])}
                for each in self.outputs
            ],
            "culprit": None
            if culprit is None
            else {
                "value": culprit.value,
                "operators": [asdict(each) for each in culprit.operators],
                "within": list(culprit.within),
                "inputs": [[asdict(each) for each in pair] for pair in culprit.inputs],
                "outputs": [asdict(each) for each in culprit.outputs],
                "difference": culprit.comparison.brief(self.sides[0]),
                "excess": culprit.comparison.excess,
                "largest_input_difference": culprit.largest_input,
                "inputs_agree": culprit.inputs_agree,
                "differs_alone": culprit.alone,
                "fused": culprit.fused,
                "verdict": culprit.verdict(),
            },
            "reason": self.reason,
            "nodes": self.nodes,
            "runs": self.runs,
            "notes": list(self.notes),
            "seconds": self.seconds,
            "files": [str(each) for each in self.files],
        }

    def __str__(self) -> str:
        named = zip(self.sides, self.settings, strict=True)
        between = [side if side == setting else f"{side} ({setting})" for side, setting in named]
        lines = [f"{self.file + ': ' if self.file else ''}{between[0]} and {between[1]}"]
        lines += [f"  output {each.text(self.sides[0])}" for each in self.outputs if not each.ok]
        lines.append("")
        if self.culprit is not None:
            lines += _said(self.culprit, self.sides)
        elif self.ok:
            agree = "The output agrees" if len(self.outputs) == 1 else f"All {len(self.outputs)} outputs agree"
            lines.append(f"{agree}: no operator differs.")
        else:
            lines.append(f"No operator can be named: {self.reason}.")
        lines += [f"Note: {each}." for each in self.notes]
        lines.append(f"{counted(self.nodes, 'node')}, {counted(self.runs, 'run')}, {duration(self.seconds)}.")
        if self.files:
            lines.append(f"Written: {listed([str(each) for each in self.files], 5)}")
        return "\n".join(lines)


def _said(culprit: Culprit, sides: Sequence[str]) -> list[str]:
    first = culprit.first
    what = (
        "The first operators that differ"
        if culprit.fused or (first is culprit.operators[-1] and len(culprit.operators) > 2)
        else "The first operator that differs"
    )
    lines = [f"{what}: {first}"]
    rows: list[tuple[str, str]] = []
    known = next((each for each in (first, *culprit.operators) if each.source or each.module), first)
    if known.source or known.module:
        line = " at ".join(each for each in (known.torch_operator, known.source) if each)
        rows.append(("from", ", ".join(each for each in (line, known.module and f"module {known.module}") if each)))
    rows += [("within", each) for each in culprit.within]
    shown = culprit.operators[:_MOST_SHOWN]
    if len(culprit.operators) > 1:
        rows += [("" if number else "operators", f"{each} in {each.side}") for number, each in enumerate(shown)]
        if len(culprit.operators) > len(shown):
            rows.append(("", f"and {len(culprit.operators) - len(shown)} more"))
    for expected, actual in culprit.inputs[:_MOST_SHOWN]:
        same = expected.span() == actual.span()
        span = expected.span() if same else f"{expected.span()}; in {sides[1]} {actual.span()}"
        rows.append(("reads", f"'{expected.name}' {expected.kind()}, {span}"))
    expected, actual = culprit.outputs
    rows.append(("gives", f"'{culprit.value}' {expected.kind()}"))
    rows += [("", f"{expected.span()} in {sides[0]}"), ("", f"{actual.span()} in {sides[1]}")]
    rows.append(("differs", culprit.comparison.brief(sides[0])))
    agree = "agree" if culprit.inputs_agree else "differ already"
    rows.append(("inputs", f"{agree}; the largest relative difference is {culprit.largest_input:.1e}"))
    width = max(len(name) for name, _ in rows)
    lines += [f"  {name:<{width}}  {text}" for name, text in rows]
    lines.append(culprit.verdict())
    return lines


def _number(value: float | int) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
