"""Tensors without values for the model's inputs and weights, and the symbols of dynamic sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from opbridge.base.torch_private import torch_proxies, torch_shape_env, torch_tracing
from opbridge.capture.dynamic_shapes import Axis
from opbridge.capture.tracer.sparse_operators import is_sparse
from opbridge.errors import UsageError

__all__ = ["Fakes"]


class Fakes:
    """Makes tensors without values, one for each tensor: an alias stays one.

    Args:
        general: Whether the sizes 0 and 1 of dynamic dimensions are sizes like others.
        dynamic: The places of dimensions that are never fixed.
        axes: All dynamic dimensions, where some are computed from others by their names.

    Attributes:
        mode: The mode in which operators on these tensors give shapes and dtypes.
        sizes: The symbolic sizes, and what is known of them.
    """

    def __init__(self, *, general: bool, dynamic: frozenset[str] = frozenset(), axes: Iterable[Axis] = ()) -> None:
        axes = tuple(axes)
        self._named = {axis.name: axis for axis in axes if axis.name is not None}
        self.sizes = torch_shape_env.Sizes(general=general, dynamic=dynamic)
        # With dynamic sizes, to keep what an operator gives takes longer than to compute it again.
        self.mode = torch_proxies.new_fake_mode(self.sizes.env, cached=not axes)
        self._made: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._memory: Counter[int] = Counter()

    def expect(self, tensors: Iterable[torch.Tensor]) -> None:
        """Names tensors that will be asked for, so that those which share memory are known."""
        for tensor in {id(tensor): tensor for tensor in tensors}.values():
            self._memory[torch_tracing.storage_key(tensor)] += 1

    def of(self, tensor: torch.Tensor, *, requires_grad: bool = False) -> torch.Tensor:
        """A tensor without values and with the same static shape, strides, dtype and device; dense for a sparse one."""
        known = self._made.get(id(tensor))
        if known is not None:
            return known[1]
        if is_sparse(tensor):
            with self.mode:
                fake = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
        elif type(tensor) in _ORDINARY and self._is_alone(tensor):
            with self.mode:
                fake = torch.empty_strided(
                    tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device, requires_grad=False
                )
        else:
            fake = self.mode.from_tensor(tensor.detach(), static_shapes=True)
        if isinstance(tensor, torch.nn.Parameter):
            fake._is_param = True
        if requires_grad and tensor.requires_grad:
            fake.requires_grad_()
        self._made[id(tensor)] = tensor, fake
        return fake

    def stands_for(self, fake: torch.Tensor, tensor: torch.Tensor) -> None:
        """Says which tensor without values was made for a tensor."""
        self._made[id(tensor)] = tensor, fake

    def known(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor without values that was made for another one, or the other one itself."""
        found = self._made.get(id(tensor))
        return tensor if found is None else found[1]

    def input(self, tensor: torch.Tensor, axes: Mapping[int, Axis], *, requires_grad: bool = False) -> torch.Tensor:
        """A tensor without values for an input, with symbols for its dynamic dimensions.

        Args:
            tensor: The example.
            axes: The dynamic dimensions, by number.
            requires_grad: Whether it requires a gradient where the example does.
        """
        if not axes:
            return self.of(tensor, requires_grad=requires_grad)
        shape = [self.size(axes[i]) if i in axes else size for i, size in enumerate(tensor.shape)]
        tensor = tensor.to_dense() if is_sparse(tensor) else tensor
        with self.mode:
            fake = torch.empty_strided(shape, _strides(tensor, shape), dtype=tensor.dtype, device=tensor.device)
        if requires_grad and tensor.requires_grad:
            fake.requires_grad_()
        return fake

    def size(self, axis: Axis) -> Any:
        """The symbol of a dynamic dimension; an expression of another one's for a derived dimension."""
        if axis.is_fixed:
            return axis.size
        derived = axis.derived
        if derived is None:
            return self.sizes.new(axis.size, axis.place, axis.name, axis.low, axis.high, automatic=axis.automatic)
        if derived.terms:
            return derived.compute({term: self.size(self._named[term]) for term in derived.terms})
        low, high = derived.root_range
        example = derived.root_example(axis.size)
        if example is None:
            raise UsageError(
                f"{axis.place} is {axis.size} in the example inputs, which is outside of the range of '{axis.name}'."
            )
        return derived.compute(self.sizes.new(example, axis.place, derived.root, low, high, automatic=axis.automatic))

    def _is_alone(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is all that its memory is for."""
        return (
            tensor.layout == torch.strided
            and not tensor.is_quantized
            and not tensor._is_view()
            and not (tensor.is_conj() or tensor.is_neg())
            and self._memory[torch_tracing.storage_key(tensor)] < 2
            and tensor.device.type != "meta"
        )


_ORDINARY = (torch.Tensor, torch.nn.Parameter)


def _strides(tensor: torch.Tensor, shape: list[Any]) -> list[Any]:
    """The strides of a dense tensor of another shape, in the order that the example's strides have."""
    order = sorted(range(tensor.dim()), key=lambda i: (-tensor.stride(i), i))
    strides: list[Any] = [0] * tensor.dim()
    step: Any = 1
    for i in reversed(order):
        strides[i] = step
        step = step * shape[i]
    return strides
