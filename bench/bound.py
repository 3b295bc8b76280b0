"""Runs in ONNX Runtime with little around them: inputs are bound once, and outputs stay where they are."""

from __future__ import annotations

from collections.abc import Sequence

import onnxruntime
import torch

__all__ = ["Bound"]


class Bound:
    """A session with its inputs: calling it runs the model.

    Args:
        session: The session.
        inputs: Its inputs in order.
    """

    def __init__(self, session: onnxruntime.InferenceSession, inputs: Sequence[torch.Tensor]) -> None:
        self._run = session.run_with_iobinding
        self._binding = session.io_binding()
        self._inputs = [tensor.contiguous() for tensor in inputs]  # ONNX Runtime reads their memory
        for node, tensor in zip(session.get_inputs(), self._inputs, strict=True):
            dtype = tensor.numpy().dtype
            self._binding.bind_input(node.name, "cpu", 0, dtype, list(tensor.shape), tensor.data_ptr())
        for node in session.get_outputs():
            self._binding.bind_output(node.name)

    def __call__(self) -> None:
        """Runs the model."""
        self._run(self._binding)

    def results(self) -> list[torch.Tensor]:
        """What a run gives."""
        self()
        return [torch.from_numpy(output) for output in self._binding.copy_outputs_to_cpu()]
