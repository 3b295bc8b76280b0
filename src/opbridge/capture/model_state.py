"""What a run of a model may change in it: buffers, attributes with the tensors in them, and gradients."""

from __future__ import annotations

import torch

from opbridge.base.torch_private import torch_proxies
from opbridge.capture.python_attributes import PythonAttributes

__all__ = ["Gradients", "ModelState"]


class Gradients:
    """The `grad` of each of a module's parameters, as it is now.

    Args:
        module: The module.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._kept = [
            (parameter, parameter.grad, None if parameter.grad is None else parameter.grad.clone())
            for parameter in module.parameters()
            if parameter.is_leaf
        ]

    def restore(self) -> None:
        """Puts the tensors and their values back."""
        for parameter, gradient, value in self._kept:
            if parameter.grad is not gradient:
                parameter.grad = gradient
            if gradient is not None and value is not None:
                with torch.no_grad():
                    gradient.copy_(value)


class ModelState:
    """The buffers, the attributes and the gradients of the parameters of a module, as they are now.

    As a context it restores them at its end.

    Args:
        module: The module.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._gradients = Gradients(module)
        self._buffers = [(each, dict(each._buffers)) for each in module.modules()]
        self._attributes = PythonAttributes(module)
        plain = (value for each in module.modules() for value in vars(each).values())
        tensors = (*(buffer for _, named in self._buffers for buffer in named.values()), *plain)
        unique = {id(each): each for each in tensors if isinstance(each, torch.Tensor) and _has_values(each)}
        self._copies = [(tensor, tensor.detach().clone()) for tensor in unique.values()]

    def __enter__(self) -> ModelState:
        return self

    def __exit__(self, *raised: object) -> None:
        self.restore()

    def storages(self) -> set[int]:
        """The addresses of the memory of these tensors."""
        return {tensor.untyped_storage().data_ptr() for tensor, _ in self._copies if tensor.layout == torch.strided}

    def restore(self) -> None:
        """Restores the attributes, and the values of the tensors."""
        for module, named in self._buffers:
            if not isinstance(module, torch.jit.ScriptModule):  # which keeps its own
                module._buffers.clear()
                module._buffers.update(named)
        self._attributes.restore()
        self._gradients.restore()
        for tensor, value in self._copies:
            # Values are compared, not version counters, which batch_norm does not increment.
            if not _equal(tensor, value):
                with torch.no_grad():
                    tensor.copy_(value)


def _equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.layout == torch.strided:
        return torch.equal(left, right)
    return torch.equal(left.detach().to_dense(), right.detach().to_dense())


def _has_values(tensor: torch.Tensor) -> bool:
    """Whether a tensor has values, which may be written to."""
    return not (tensor.is_inference() or tensor.is_meta or isinstance(tensor, torch_proxies.FakeTensor))
