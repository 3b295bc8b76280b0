"""The PyTorch model beside its file: the same inputs for both."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from opbridge.profiling.data import TorchTimes
from opbridge.profiling.eager import torch_times
from opbridge.runtimes.described import Described, described
from opbridge.verification import exchange
from opbridge.verification.correspondence import Correspondence
from opbridge.verification.dispatch import checked_example

__all__ = ["Beside"]


class _Ends:
    """What a file says of its inputs and outputs, as a session does."""

    def __init__(self, found: Described) -> None:
        self._found = found

    def get_inputs(self) -> Any:
        return self._found.inputs

    def get_outputs(self) -> Any:
        return self._found.outputs

    def get_modelmeta(self) -> Any:
        return self._found.metadata


class Beside:
    """A model with the inputs of its file.

    Args:
        label: The file's name in messages.
        file: The path of the file, or its content.
        model: A module, a function or an ExportedProgram.
        args: The positional inputs.
        kwargs: The keyword inputs.

    Raises:
        UsageError: The inputs do not fit the file, or the model cannot be called.
    """

    def __init__(
        self, label: str, file: str | os.PathLike[str] | bytes, model: Any, args: Any, kwargs: Mapping[str, Any] | None
    ) -> None:
        self._model = model
        self._args, self._kwargs = checked_example("opbridge.profile", model, args, kwargs)
        self._matching = Correspondence(label, _Ends(described(file)), model, self._args, self._kwargs, None)

    def values(self) -> dict[str, Any]:
        """The inputs of the file, as ONNX Runtime takes them."""
        feeds = self._matching.feeds(self._matching.leaves)
        return {name: exchange.to_runtime(each) for name, each in feeds.items()}

    def times(self, runs: int, warmup: int, threads: int, seconds: float) -> TorchTimes:
        """The times of eager PyTorch; see `torch_times`.

        Raises:
            UsageError: The model does not run.
        """
        return torch_times(self._model, self._args, self._kwargs, runs, warmup, threads, seconds)
