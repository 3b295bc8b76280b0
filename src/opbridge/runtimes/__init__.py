"""What runs an ONNX file: one module a runtime, each with a function `session` and the interface below.

Nothing here imports PyTorch: a model runs on machines that have none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

__all__ = ["Runtime", "Session"]


class Session(Protocol):
    """A model, loaded and ready to run."""

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any], /) -> Sequence[Any]:
        """Runs the model.

        Args:
            output_names: The outputs wanted; None: all of them, in the model's order.
            feeds: A NumPy array for each input, by name.

        Returns:
            The outputs, one for each name.
        """


class Runtime(Protocol):
    """What a module of this package offers."""

    def session(self, model: str | os.PathLike[str] | bytes, /) -> Session:
        """Loads a model from a file, or from the content of one.

        Raises:
            ModelFileError: There is no such file, it is damaged, or this runtime has no kernel for an operator of it.
        """
