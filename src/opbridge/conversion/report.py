"""What a conversion did to a model, what it could not do, and how the two models compare."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import onnx_ir as ir

from opbridge.conversion.step import Refused
from opbridge.side_by_side import SideBySide

__all__ = ["Change", "Conversion", "Refusal"]


@dataclass(frozen=True)
class Change:
    """What was done to one node.

    Attributes:
        operator: Its operator.
        what: What was done.
        node: Its name.
        place: The line of the model's code that it comes from, where the file says it.
    """

    operator: str
    what: str
    node: str
    place: str

    @classmethod
    def of(cls, node: ir.Node, what: str) -> Change:
        """What was done to a node."""
        return cls(node.op_type, what, node.name or "", place_of(node))


@dataclass(frozen=True)
class Refusal:
    """A node that cannot be put at an opset.

    Attributes:
        operator: Its operator.
        why: What it is about the call, as a sentence.
        node: Its name.
        place: The line of the model's code that it comes from, where the file says it.
        needed: The oldest opset that has the call; None where the opset is too new for it.
        remedy: What to do.
    """

    operator: str
    why: str
    node: str
    place: str
    needed: int | None
    remedy: str

    @classmethod
    def of(cls, node: ir.Node, refused: Refused) -> Refusal:
        """Why a node was refused."""
        inner = refused.operator or node.op_type
        why = f"{inner} {refused.why}".rstrip()
        if inner != node.op_type:
            why = f"{node.op_type}, which is composed of {why},"
        return cls(node.op_type, why, node.name or "", place_of(node), refused.needed, refused.remedy)

    def line(self) -> str:
        """The refusal in one line."""
        where = " at ".join(each for each in (self.node and f"'{self.node}'", self.place) if each)
        needs = f" needs opset {self.needed}." if self.needed is not None else " has no equivalent there."
        return f"{self.why}{f' ({where})' if where else ''}{needs}{f' {self.remedy}' if self.remedy else ''}"


def place_of(node: ir.Node) -> str:
    """The line of the model's code: what opbridge wrote, or the innermost one that torch.onnx wrote."""
    own = node.metadata_props.get("opbridge.source", "")
    stack = node.metadata_props.get("pkg.torch.onnx.stack_trace", "")
    lines = [each.strip() for each in stack.splitlines() if each.strip().startswith('File "')]
    if own or not lines:
        return own
    file, _, rest = lines[-1].removeprefix('File "').partition('", line ')
    return f"{file}:{rest.partition(',')[0]}"


@dataclass
class Conversion:
    """A model at another opset.

    Attributes:
        model: The converted model.
        source: The opset that the model had.
        opset: The opset that it has now.
        ir_versions: The version of the file format that it had and the one that it has.
        changes: What was done to which node.
        comparison: How it compares with the original.
        files: The files that were written.
    """

    model: ir.Model
    source: int
    opset: int
    ir_versions: tuple[int, int]
    changes: list[Change]
    comparison: SideBySide
    files: list[Path] = field(default_factory=list)

    def counted(self) -> list[tuple[str, str, int]]:
        """How many nodes of which operator were changed in which way, the most frequent first."""
        counts = Counter((each.operator, each.what) for each in self.changes)
        return [(operator, what, count) for (operator, what), count in counts.most_common()]

    def summary(self) -> str:
        """The conversion in a sentence."""
        before, now = self.ir_versions
        nodes = len({(each.node, each.operator) for each in self.changes})
        versions = f"IR version {before} to {now}" if before != now else f"IR version {now}"
        return f"Opset {self.source} to {self.opset}, {versions}: {nodes or 'no'} node{'s' * (nodes != 1)} changed."

    def document(self) -> dict[str, Any]:
        """The conversion as plain data."""
        return {
            "ok": self.comparison.ok,
            "opset": {"from": self.source, "to": self.opset},
            "ir_version": {"from": self.ir_versions[0], "to": self.ir_versions[1]},
            "changes": [asdict(each) for each in self.changes],
            "comparison": {
                "runs": [asdict(each) for each in self.comparison.runs],
                "largest": self.comparison.largest,
                "note": self.comparison.note,
            },
            "files": [str(each) for each in self.files],
        }

    def to_bytes(self) -> bytes:
        """The content of an ONNX file with the converted model."""
        from opbridge.onnx.serialize import to_bytes

        return to_bytes(self.model)
