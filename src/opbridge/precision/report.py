"""What a cast did to a model, which nodes it left in float32, and how far the results are apart."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import onnx_ir as ir

from opbridge.base.wording import counted, listed
from opbridge.conversion.report import place_of

__all__ = ["Kept", "Narrowed", "Output"]


@dataclass(frozen=True)
class Kept:
    """A node that stays in float32.

    Attributes:
        operator: Its operator.
        node: Its name.
        place: The line of the model's code that it comes from, where the file says it.
        kind: The kind of reason: "asked", "operator", "constant", "range", "error", "index", "between", "output" or
            "target".
        why: The reason, as a sentence.
    """

    operator: str
    node: str
    place: str
    kind: str
    why: str

    @classmethod
    def of(cls, node: ir.Node, kind: str, why: str) -> Kept:
        """Why a node stays."""
        return cls(node.op_type, node.name or "", place_of(node), kind, why)


@dataclass(frozen=True)
class Output:
    """An output of the model, compared with float32's over all runs.

    Attributes:
        name: Its name.
        error: The largest error of a run: the RMS of the difference relative to the RMS of the output; of integers and
            booleans the share of elements that differ.
        largest: The largest difference of an element, relative to the RMS of the output.
    """

    name: str
    error: float
    largest: float


@dataclass
class Narrowed:
    """A model in float16 or bfloat16.

    Attributes:
        model: The model.
        precision: "float16" or "bfloat16".
        cast: How many nodes compute in it.
        kept: The nodes that stay in float32, with the reasons.
        wide: The inputs and outputs that keep float32 although that was not asked.
        outputs: How the outputs compare.
        tolerance: The largest error.
        before: The error of the model before nodes were put back to meet the tolerance, where it was simulated.
        runs: The number of sets of inputs that were compared.
        given: Whether the inputs were given.
        note: Why nothing was compared, or what was left out.
        sizes: The bytes of the float32 model and of this one.
        opsets: The opset that the model had and the one that it has.
        files: The files that were written.
    """

    model: ir.Model
    precision: str
    cast: int
    kept: list[Kept]
    wide: list[str]
    tolerance: float
    outputs: list[Output] = field(default_factory=list)
    before: float | None = None
    runs: int = 0
    given: bool = False
    note: str = ""
    sizes: tuple[int, int] = (0, 0)
    opsets: tuple[int, int] = (0, 0)
    files: list[Path] = field(default_factory=list)

    @property
    def error(self) -> float | None:
        """The largest error of an output; None where nothing was compared."""
        return max((each.error for each in self.outputs), default=0.0) if self.runs else None

    @property
    def ok(self) -> bool:
        """Whether the results are within the tolerance, or nothing speaks against them."""
        return self.error is None or self.error <= self.tolerance

    def counted(self) -> list[tuple[str, str, int]]:
        """How many nodes of which operator stay in float32 for which kind of reason, the most frequent first."""
        counts = Counter((each.operator, each.kind) for each in self.kept)
        return [(operator, kind, count) for (operator, kind), count in counts.most_common()]

    def summary(self) -> str:
        """The result in a few sentences."""
        before, now = self.sizes
        share = f" ({now / before:.0%})" if before else ""
        total = self.cast + len(self.kept)
        said = [f"{self.cast} of {counted(total, 'node')} with float32 values compute in {self.precision}."]
        said.append(f"Size: {_size(before)} before, {_size(now)} after{share}.")
        if self.opsets[0] != self.opsets[1]:
            said.append(f"Opset {self.opsets[0]} to {self.opsets[1]}.")
        if self.wide:
            said.append(f"Still float32, because {self.precision} cannot represent the values: {listed(self.wide, 5)}.")
        said.append(self.compared())
        return " ".join(said)

    def compared(self) -> str:
        """The comparison in a sentence."""
        if self.error is None:
            return f"Not compared. {self.note}".rstrip()
        sets = f"{self.runs} set{'s' * (self.runs > 1)} of {'given' if self.given else 'random'} inputs"
        worst = max(self.outputs, key=lambda each: each.error, default=None)
        where = f" at the output '{worst.name}'" if worst is not None and len(self.outputs) > 1 else ""
        said = (
            f"Error relative to the RMS of the output: {self.error:.2g}{where} on {sets}; tolerance {self.tolerance:g}."
        )
        if self.before is not None and self.before > self.tolerance:
            said += f" It was {self.before:.2g} before nodes were put back to float32."
        return f"{said} {self.note}".rstrip()

    def document(self) -> dict[str, Any]:
        """The result as plain data. Infinite errors are null."""
        return {
            "ok": self.ok,
            "precision": self.precision,
            "nodes": {"cast": self.cast, "kept": len(self.kept)},
            "kept": [asdict(each) for each in self.kept],
            "wide": self.wide,
            "outputs": [
                {"name": each.name, "error": _finite(each.error), "largest": _finite(each.largest)}
                for each in self.outputs
            ],
            "error": _finite(self.error),
            "error_before": _finite(self.before),
            "tolerance": self.tolerance,
            "runs": self.runs,
            "note": self.note,
            "size": {"before": self.sizes[0], "after": self.sizes[1]},
            "opset": {"from": self.opsets[0], "to": self.opsets[1]},
            "files": [str(each) for each in self.files],
        }

    def to_bytes(self) -> bytes:
        """The content of an ONNX file with the model."""
        from opbridge.onnx.serialize import to_bytes

        return to_bytes(self.model)


def _finite(number: float | None) -> float | None:
    return number if number is None or abs(number) < float("inf") else None


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
