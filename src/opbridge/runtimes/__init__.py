"""The runtimes that run ONNX files, one package for each, with a function `session` as `Runtime` declares it.

In: an ONNX file, or its content.
Out: a session, and what the installed runtime has kernels for.
May import: kernels, nodes (where a function needs it), onnx, base. Nothing here imports torch when it is imported: a
machine that only runs models has none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

__all__ = ["Runtime", "Session"]


class Session(Protocol):
    """A loaded model."""

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any], /) -> Sequence[Any]:
        """Runs the model.

        Args:
            output_names: The outputs to compute; None: all of them, in the model's order.
            feeds: A NumPy array for each input, by name, of the input's element type and shape.

        Returns:
            The outputs as NumPy arrays, in the order of the names.
        """


class Runtime(Protocol):
    """The interface of each runtime's package."""

    def session(self, model: str | os.PathLike[str] | bytes, /) -> Session:
        """Loads a model from a file, or from the content of a file.

        Raises:
            ModelFileError: There is no such file, it is damaged, or the runtime has no kernel for one of its operators.
        """
