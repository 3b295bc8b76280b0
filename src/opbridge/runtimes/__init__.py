"""The runtimes that run ONNX files, behind one protocol, one room for each.

known           the runtimes by their names
sessions        a model loaded in one of them, in a process of its own or in this one
worker          that process
child, messages, tensors, ending    how the two processes talk and end
arguments, described, limits        what a session says of its model, and what it may use
onnxruntime, cuda, reference, openvino, web, browser, webgpu, mnn, ncnn, tensorrt_rtx    the rooms
cuda_stand_in   libraries in the place of CUDA's, for onnxruntime-gpu without a GPU
placement       which nodes of a model CUDA runs, and which the CPU, asked of ONNX Runtime without a GPU

In: an ONNX file, or its content.
Out: a session, and what the installed runtime has kernels for.
May import: kernels, nodes (where a function needs it), onnx, base. Nothing here imports torch when it is imported: a
machine that only runs models has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

__all__ = ["Loaded", "Runtime", "Session"]


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


class Loaded(Protocol):
    """A model that a runtime has loaded in this process. It may have `notes`, texts on how it was loaded."""

    def run(self, feeds: Mapping[str, np.ndarray], /) -> Sequence[Any]:
        """All outputs, in the model's order.

        Raises:
            Exception: Whatever the runtime raises.
        """


class Runtime(Protocol):
    """What each room has; `known` lists the rooms.

    Attributes:
        NAME: What users call it.
        TITLE: What it is.
        INSTALL: The command that installs it.
        ISOLATED: Whether sessions run in a process of their own, whatever the user asks for.
        KERNELS: Whether `load` takes libraries of kernels. That of ONNX Runtime does not, as its own sessions do.
        DOMAINS: The domains beside ONNX's own of which it has operators.
    """

    NAME: str
    TITLE: str
    INSTALL: str
    ISOLATED: bool
    KERNELS: bool
    DOMAINS: Sequence[str]

    def version(self) -> str:
        """The version that is installed; "" where none is."""

    def load(self, model: str | bytes, /, *kernels: str, **options: Any) -> Loaded:
        """Loads a model in this process, from a file or from the content of one.

        Args:
            model: The file, or its content.
            *kernels: Where KERNELS says so, what `kernels.openvino.extension` built, and the libraries of kernels.
            **options: Of `known.BUILDERS`: `profile`, the ranges of dynamic dimensions by their names. Of
                `known.ON_DEVICE`: `device`, its number.

        Raises:
            ModelFileError: The runtime refuses it.
        """
