"""What a report is, and how its models are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

__all__ = ["Report"]


@dataclass(frozen=True)
class Report:
    """A problem that somebody reported.

    Attributes:
        where: The repository and the number of the issue or pull request.
        date: The year and the month of what is quoted.
        what: What it is, in a few words.
        target: The target with the release that it was reported of.
        pattern: The model that has it, in ONNX's syntax, without the graph's name.
        clean: One of the same kind that does not have it.
        opset: The opset.
        clean_opset: That of the clean model; None: the same.
        constants: Initializers of both models by name.
    """

    where: str
    date: str
    what: str
    target: str
    pattern: str
    clean: str
    opset: int = 17
    clean_opset: int | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)

    def models(self) -> tuple[bytes, bytes]:
        """The model that has the problem, and the clean one."""
        opset = self.opset if self.clean_opset is None else self.clean_opset
        return self._model(self.pattern, self.opset), self._model(self.clean, opset)

    def _model(self, text: str, opset: int) -> bytes:
        head = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]>'
        made = onnx.parser.parse_model(f"{head} g {text}")
        read = {name for node in made.graph.node for name in node.input}
        for name, value in self.constants.items():
            if name in read:
                made.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        return made.SerializeToString()
