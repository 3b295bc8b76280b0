"""What the picture of a model is drawn from: operators in the modules that call them, with values between them.

The document is made of lists, and what names something in another list is its number there, so that a model of ten
thousand nodes stays small:

    modules   [path, class]
    values    [name, type], the type as in "float32 [batch, 3]"
    ops       what one box is: see `Operator`
    nodes     [operator, domain, name, values read, values given, attributes], of the ONNX file
    frames    [file, line, function, text]; code: by file, the lines around them
    inputs, outputs   values
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from opbridge.reports.code import Code

__all__ = ["Operator", "Picture"]


@dataclass
class Operator:
    """One box: an operator of the capture, or a node of a file.

    Attributes:
        name: What it is called in the graph, "linear_3".
        operator: What it calls, "aten::linear".
        module: The number of the module that calls it.
        state: What it is coloured by: a route, "missing", "none" for what needs no node, or "plain".
        frames: Where it comes from, the innermost first.
        reads: The values that it reads.
        gives: The values that it gives.
        weights: The weights that it reads, as [name, type].
        nodes: The ONNX nodes that it became.
        how: What its route consists of, or why it has none.
        inside: The operator whose body it stands in, -1: none; with the name of that body.
    """

    name: str
    operator: str
    module: int = 0
    state: str = "plain"
    frames: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    gives: list[int] = field(default_factory=list)
    weights: list[list[str]] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    how: str = ""
    inside: int = -1
    body: str = ""

    def document(self) -> dict[str, Any]:
        """As plain data, without what is empty."""
        short = {
            "n": self.name,
            "o": self.operator,
            "m": self.module,
            "s": self.state,
            "f": self.frames,
            "i": self.reads,
            "q": self.gives,
            "w": self.weights,
            "x": self.nodes,
            "h": self.how,
            "b": self.body,
        }
        found = {key: value for key, value in short.items() if value or key == "m"}
        return found | ({"p": self.inside} if self.inside >= 0 else {})


class Picture:
    """What a picture is drawn from, as it is collected.

    Attributes:
        code: Where the operators come from.
        operators: The boxes.
        inputs: The values that the model is given.
        outputs: The values that it returns.
    """

    def __init__(self) -> None:
        self.code = Code()
        self.operators: list[Operator] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self._modules: dict[str, int] = {"": 0}
        self._classes: dict[str, str] = {}
        self._values: dict[Any, int] = {}
        self._value_rows: list[list[str]] = []
        self._nodes: list[list[Any]] = []

    def module(self, path: str) -> int:
        """The number of a module."""
        return self._modules.setdefault(path, len(self._modules))

    def classes(self, found: dict[str, str]) -> None:
        """Says of which class modules are, by path."""
        self._classes.update(found)

    def value(self, key: Any, name: str = "", kind: str = "") -> int:
        """The number of a value, by what tells it from others; it is added with its name and type."""
        if key not in self._values:
            self._values[key] = len(self._value_rows)
            self._value_rows.append([name, kind])
        return self._values[key]

    def known(self, key: Any) -> int | None:
        """The number of a value that was added."""
        return self._values.get(key)

    def node(self, row: list[Any]) -> int:
        """Adds an ONNX node, and gives its number."""
        self._nodes.append(row)
        return len(self._nodes) - 1

    def document(self) -> dict[str, Any]:
        """As plain data."""
        code = self.code.excerpts()
        prefixes = {path.rsplit(".", count)[0] for path in self._modules for count in range(path.count(".") + 1)}
        named = {path: self._classes[path] for path in prefixes | {""} if path in self._classes}
        return {
            "modules": list(self._modules),
            "classes": named,
            "values": self._value_rows,
            "ops": [each.document() for each in self.operators],
            "nodes": self._nodes,
            "frames": self.code.frames,
            "code": code,
            "inputs": self.inputs,
            "outputs": self.outputs,
        }
