"""The first operator that differs, and the result of the search for it."""

from __future__ import annotations

from dataclasses import dataclass

from opbridge.verification.compare import Comparison

__all__ = ["FirstDifference", "Search"]


@dataclass(frozen=True)
class FirstDifference:
    """An operator whose inputs agree and whose output does not.

    Attributes:
        operator: The operator, "aten::gelu".
        node: Its node in the captured graph, with the position of the output if it has several ("split:1").
        source: The line of the model's source, "net.py:31"; None if torch did not record it.
        code: The text of that line.
        module: The path of the module that calls it, "backbone.layer1.act".
        onnx_node: The ONNX node that computes the value: its operator and its name.
        inputs: The dtypes and shapes of its tensor inputs.
        comparison: PyTorch's value compared with the runtime's.
        unchecked: Operators before it whose values the file does not have, and which may cause the difference instead.
        is_beyond: Whether the difference exceeds the tolerance. If no operator's does, the operator with the largest
            difference relative to the tolerance is named.
    """

    operator: str
    node: str
    source: str | None
    code: str
    module: str
    onnx_node: str
    inputs: tuple[str, ...]
    comparison: Comparison
    unchecked: tuple[str, ...] = ()
    is_beyond: bool = True

    @property
    def place(self) -> str:
        """The operator and its source line: "aten::gelu at net.py:31"."""
        return f"{self.operator} at {self.source}" if self.source else self.operator

    def __str__(self) -> str:
        around = ", ".join(part for part in (self.module and f"module {self.module}", self.onnx_node) if part)
        inputs = f" ({', '.join(self.inputs)})" if self.inputs else ""
        text = f"{self.place} ({around}): given the same inputs{inputs}, {self._difference()}"
        if self.unchecked:
            text += f"; {', '.join(self.unchecked)} before it could not be compared"
        return text

    def _difference(self) -> str:
        if self.is_beyond:
            return self.comparison.brief()
        return f"its relative difference is {self.comparison.relative:.1e}"


@dataclass(frozen=True)
class Search:
    """The result of a search for the first operator that differs.

    Attributes:
        difference: The operator; None if none can be named.
        compared: The number of values that were compared.
        reason: Why none can be named, or why none exceeds the tolerance; "" if one does.
    """

    difference: FirstDifference | None
    compared: int
    reason: str = ""
