"""What the rules find in a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opbridge.base.wording import within
from opbridge.targets import Target

if TYPE_CHECKING:
    import onnx_ir as ir

    from opbridge.reports.report import Report

__all__ = ["Finding", "Findings"]


@dataclass(frozen=True)
class Finding:
    """One place in a model that a target does not take.

    Attributes:
        rule: The rule's identifier, as in "constant-input".
        severity: "error" where the target refuses the model or answers wrongly, else "warning".
        message: What is so, in one sentence.
        remedy: What to do, in one sentence.
        target: The target, with its version; "": any, by the rules of ONNX.
        source: Where it is known from that the target does not take it; "": by the rules of ONNX.
        node: The node's name, or that of its first output where it has none; "": of the whole model.
        operator: The node's operator.
        place: The line of the model's code that the node comes from, where the file says it.
        module: The path of the submodule that it comes from, where the file says it.
    """

    rule: str
    severity: str
    message: str
    remedy: str
    target: str = ""
    source: str = ""
    node: str = ""
    operator: str = ""
    place: str = ""
    module: str = ""

    def document(self) -> dict[str, Any]:
        """The finding as plain data."""
        return dict(vars(self))


@dataclass(frozen=True)
class Findings(Sequence[Finding]):
    """All that was found in a model.

    Attributes:
        model: The model's name.
        targets: What it was compared with.
        found: The findings, in the order of the nodes.
    """

    model: str
    targets: Sequence[Target]
    found: Sequence[Finding]

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.found)

    def __getitem__(self, index: Any) -> Any:
        return self.found[index]

    @property
    def ok(self) -> bool:
        """Whether there is no error among them."""
        return not any(each.severity == "error" for each in self.found)

    def summary(self) -> str:
        """How many there are, in one line."""
        wanted = ", ".join(map(str, self.targets)) or "ONNX"
        return f"{self.counted() if self.found else 'No findings'} in {within(self.model)} for {wanted}."

    def counted(self) -> str:
        """How many there are: "2 errors and 1 warning"."""
        counts = Counter(each.severity for each in self.found)
        said = [f"{counts[each]} {each}{'s' * (counts[each] != 1)}" for each in ("error", "warning") if counts[each]]
        return " and ".join(said) or "no findings"

    def describe_errors(self) -> str:
        """What the targets do not take, each with its place and what to do, as the message of an error."""
        wanted = " and ".join(map(str, self.targets)) or "ONNX"
        lines: dict[str, int] = {}
        for each in self.found:
            if each.severity == "error":
                where = f" at {each.place}" if each.place else f" ('{each.node}')" if each.node else ""
                said = f"  {each.rule}{where}: {each.message} {each.remedy}"
                lines[said] = lines.get(said, 0) + 1
        told = [line if count == 1 else f"{line} ({count} times)" for line, count in lines.items()]
        return "\n".join([f"{wanted} does not support the model, and there is no automatic repair:", *told])

    def tell(self, report: Report, model: ir.Model) -> None:
        """Tells a report what was found, and colours the nodes of the model by it."""
        from opbridge.reports.of_file import picture_of_model

        states: dict[str, str] = {}
        for each in self.found:
            if each.node and states.get(each.node) != "error":
                states[each.node] = each.severity
        report.findings = self.document()
        report.draw = lambda: picture_of_model(model, states)

    def document(self) -> dict[str, Any]:
        """The findings as plain data."""
        return {
            "ok": self.ok,
            "model": self.model,
            "targets": [str(each) for each in self.targets],
            "remarks": [each.remark for each in self.targets if each.remark],
            "findings": [each.document() for each in self.found],
        }
