"""A launch during a capture, as a call of an operator that writes to nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from opbridge.base import triton_private
from opbridge.base.torch_private import torch_sizes
from opbridge.errors import CaptureError, KernelError
from opbridge.kernels.device_sources import compute_capability
from opbridge.kernels.nodes import node_builder
from opbridge.kernels.triton.building import load_library
from opbridge.kernels.triton.expressions import text_of
from opbridge.kernels.triton.launches import Launch, bound, settings
from opbridge.kernels.triton.operators import operator_for
from opbridge.kernels.triton.specialization import DOMAIN, Output, Specialization, Typed, compile_kernel, typed
from opbridge.kernels.triton.written import written_parameters
from opbridge.translations import registry

__all__ = ["call_operator", "reason_not_to_fit"]

_SHARED_MEMORY = {75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 110: 227, 120: 99, 121: 99}
"""How many kibibytes of shared memory a block can have, by compute capability."""


def call_operator(
    launched: Any,
    grid: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    is_empty: Callable[[torch.Tensor], bool],
    replace: Callable[[torch.Tensor, torch.Tensor], None],
) -> None:
    """Calls the operator of a launch, and copies what it gives to the tensors that the kernel writes to.

    1. The tensors go in as they lie in memory: one whose dimensions are permuted goes in with them put back, so that
       the strides that the kernel is given stay right.
    2. A tensor that the kernel writes to goes in for what is in it, unless nothing was written to it before.
    3. Numbers that are computed of sizes go in as text over the sizes of the tensors. Where these do not tell them, an
       empty tensor of such sizes goes in too.

    Args:
        launched: The kernel with its decorators.
        grid: The grid, or the function that computes it.
        args: The positional arguments.
        kwargs: The keyword arguments.
        is_empty: Whether nothing was written to a tensor yet, and nothing shares its memory.
        replace: Has a tensor that nothing was written to stand for a result from now on.

    Raises:
        CaptureError: The launch cannot be in a file.
        KernelError: The kernel does not compile.
    """
    launch = bound(launched, grid, args, kwargs, reason_not_to_fit)
    call = typed(launch)
    compiled = _compiled(launch, call, settings().architectures[0])
    if compiled.obstacle:
        raise CaptureError(
            f"The Triton kernel {launch.name} needs {compiled.obstacle}, which is not supported in a file. Launch it "
            "with options that do not."
        )
    passed = [name for name, type_ in call.types.items() if type_ != "constexpr"]
    written = [passed[number] for number in written_parameters(compiled.ttir, compiled.name)]
    laid = {name: _as_in_memory(launch, name, tensor, written) for name, tensor in call.tensors.items()}
    fresh = {name for name in written if is_empty(call.tensors[name])}
    if fresh == call.tensors.keys():
        fresh = set()  # an operator takes at least one tensor, which says where it runs
    inputs = {name: tensor for name, (tensor, _) in laid.items() if name not in fresh}
    numbers = _Numbers(inputs, call.types)
    values: dict[str, Any] = {}
    for name, (attribute, number) in call.numbers.items():
        values[name] = numbers.text(number) if attribute.kind == "str" else number
    blocks = ", ".join(numbers.text(each) for each in launch.grid)
    shapes = {name: ", ".join(map(numbers.text, laid[name][0].shape)) for name in fresh}
    made = Specialization(
        launch.kernel,
        call.types,
        call.constants,
        tuple(call.multiples),
        dict(launch.options),
        tuple((name, tensor.dtype) for name, tensor in inputs.items()),
        tuple(Output(name, call.tensors[name].dtype, name in fresh) for name in written),
        tuple(attribute for attribute, _ in call.numbers.values()),
        bool(numbers.missing),
    )
    if not made.outputs:
        return  # nothing comes of it
    values[made.grid_name] = blocks
    values.update({made.shape_name(each): shapes[each.parameter] for each in made.outputs if each.is_fresh})
    operator = operator_for(made, launch.note)
    registry.add_launch(made.operator, _builder(made, node_builder(operator, DOMAIN, made.name)))
    with torch.no_grad():
        given = [tensor.detach() if tensor.requires_grad else tensor for tensor in inputs.values()]
        results = operator(*given, *numbers.tensors(), **values)
        for output, result in zip(made.outputs, (results,) if len(made.outputs) == 1 else results, strict=True):
            tensor, order = call.tensors[output.parameter], laid[output.parameter][1]
            if output.is_fresh and order is None:
                replace(tensor, result)
            else:
                tensor.copy_(result if order is None else result.permute(_inverse(order)))


def _builder(made: Specialization, build: Callable[..., Any]) -> Callable[..., Any]:
    """What builds the node of a kernel, and has the kernel's library at hand."""

    def builder(*args: Any, **kwargs: Any) -> Any:
        load_library(made)
        return build(*args, **kwargs)

    return builder


def _compiled(launch: Launch, call: Typed, architecture: str) -> triton_private.Compiled:
    return compile_kernel(launch.kernel, architecture, call.types, call.constants, call.multiples, launch.options)


def reason_not_to_fit(launch: Launch) -> str:
    """Why a configuration cannot be taken; "" where it can."""
    for architecture in settings().architectures:
        try:
            compiled = _compiled(launch, typed(launch), architecture)
        except KernelError as error:
            return str(error)
        number = compute_capability(architecture)
        most = _SHARED_MEMORY.get(number, 99) * 1024
        if compiled.shared > most:
            return f"it takes {compiled.shared:,} bytes of shared memory, and {architecture} has {most:,} for a block"
    return ""


def _as_in_memory(
    launch: Launch, name: str, tensor: torch.Tensor, written: Collection[str]
) -> tuple[torch.Tensor, tuple[int, ...] | None]:
    """A tensor with its dimensions in the order of memory, and that order; None where it lies so already.

    Raises:
        CaptureError: There is other memory between its elements.
    """
    if tensor.is_contiguous():
        return tensor, None
    example = [int(stride) if not isinstance(stride, torch.SymInt) else stride for stride in tensor.stride()]
    order = tuple(sorted(range(tensor.dim()), key=lambda axis: _Size(example[axis]), reverse=True))
    permuted = tensor.permute(order)
    if permuted.is_contiguous():
        return permuted, order
    if name not in written and all(isinstance(each, int) for each in (*tensor.shape[1:], *example)):
        # The memory from its first element to its last one, with what lies between them.
        span = sum((size - 1) * stride for size, stride in zip(tensor.shape, example, strict=True)) + 1
        return tensor.as_strided((span,), (1,)), None
    raise CaptureError(
        f"The Triton kernel {launch.name} is launched with a tensor for '{name}' whose elements do not follow each "
        f"other in memory (sizes {tuple(tensor.shape)}, strides {tuple(tensor.stride())}), as a part or an expanded "
        "tensor has them. Pass tensor.contiguous(), and its strides."
    )


class _Size:
    """A stride that sorts by its value in the example."""

    def __init__(self, stride: Any) -> None:
        self.value = torch_sizes.example_with(stride, {}) or 0

    def __lt__(self, other: _Size) -> bool:
        return bool(self.value < other.value)


def _inverse(order: Sequence[int]) -> list[int]:
    return [order.index(axis) for axis in range(len(order))]


class _Numbers:
    """Numbers as text over the sizes of tensors.

    Attributes:
        missing: The numbers that these do not tell.
    """

    def __init__(self, inputs: dict[str, torch.Tensor], taken: Collection[str]) -> None:
        self._sizes = [
            (f"{name}[{axis}]", size) for name, each in inputs.items() for axis, size in enumerate(each.shape)
        ]
        self._name = "sizes"
        while self._name in taken:
            self._name += "_"
        self._like = next(iter(inputs.values()))
        self.missing: list[Any] = []

    def text(self, number: Any) -> str:
        """A number as text."""
        found = text_of(number, self._sizes)
        if found is None:
            found = f"{self._name}[{len(self.missing)}]"
            self._sizes.append((found, number))
            self.missing.append(number)
        return found

    def tensors(self) -> list[torch.Tensor]:
        """The empty tensor that has the missing numbers as its sizes, where there are any."""
        if not self.missing:
            return []
        return [torch.empty((*self.missing, 0), dtype=torch.uint8, device=self._like.device)]
