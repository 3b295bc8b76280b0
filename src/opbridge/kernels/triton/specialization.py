"""A kernel for the types and constants of a launch: what is compiled, and the operator that the launch becomes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from opbridge.base import triton_private
from opbridge.base.torch_private import torch_sizes
from opbridge.errors import CaptureError, KernelError
from opbridge.kernels.device_sources import compute_capability
from opbridge.kernels.triton.launches import Launch
from opbridge.kernels.triton.standalone import standalone_source

__all__ = ["DOMAIN", "Attribute", "Output", "Specialization", "Typed", "typed"]

DOMAIN = "triton"
"""The namespace of the operators, and the domain of their nodes."""

_TYPES = {
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.bool: "i1",
}
_WIDTHS = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "u1": 1, "i1": 1, "u8": 1, "u16": 2, "u32": 4, "u64": 8}
_FLOATS = {"fp32": 4, "fp64": 8}
_MOST_INT32 = 2**31


@dataclass(frozen=True)
class Attribute:
    """A number that a kernel is launched with.

    Attributes:
        parameter: The kernel's parameter.
        kind: "int", "bool" or "float"; "str" for arithmetic over sizes.
        type: What the kernel takes it as: "i32", "fp32".
    """

    parameter: str
    kind: str
    type: str

    @property
    def width(self) -> int:
        """Its bytes."""
        return _FLOATS.get(self.type) or _WIDTHS[self.type]


@dataclass(frozen=True)
class Output:
    """A tensor that a kernel writes to.

    Attributes:
        parameter: The kernel's parameter.
        dtype: Its type.
        is_fresh: Whether nothing was in it before: then its sizes are an attribute, and it is no input.
    """

    parameter: str
    dtype: torch.dtype
    is_fresh: bool


@dataclass
class Typed:
    """The arguments of a launch by their kinds.

    Attributes:
        types: For the compiler, the type of each parameter, in order.
        constants: The parameters that are constants, with their values.
        multiples: The parameters that are multiples of 16.
        tensors: The tensors, by parameter.
        numbers: The numbers, by parameter: an attribute, and its value, which may be symbolic.
    """

    types: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    multiples: list[str] = field(default_factory=list)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    numbers: dict[str, tuple[Attribute, Any]] = field(default_factory=dict)

    def add_constant(self, name: str, value: Any) -> None:
        """Adds a parameter that is a constant."""
        self.types[name], self.constants[name] = "constexpr", value


def typed(launch: Launch) -> Typed:
    """The arguments of a launch as Triton's compiler takes them.

    1. `tl.constexpr` and None are constants, as is an int of 1. A symbolic size that becomes a constant is fixed.
    2. An int that is a multiple of 16 is known to be one; a symbolic size is not.
    3. A tensor is an address that is a multiple of 16.

    Raises:
        CaptureError: An argument is of no kind that a kernel in a file can have.
    """
    found = Typed()
    for parameter in triton_private.parameters(launch.kernel):
        name, value = parameter.name, launch.arguments[parameter.name]
        number = torch_sizes.known_size(value) if isinstance(value, torch.SymInt) else value
        unsupported = triton_private.is_unsupported_argument(value)
        if unsupported or isinstance(value, (torch.SymFloat, torch.SymBool)):
            what = unsupported or "a number that data decides"
            raise CaptureError(
                f"The Triton kernel {launch.name} is launched with {what} for '{name}', which is not supported in a "
                "file. Pass a tensor, and load from it in the kernel."
            )
        if parameter.is_constexpr:
            found.add_constant(name, int(value) if isinstance(value, torch.SymInt) else value)
        elif isinstance(value, torch.Tensor):
            _add_tensor(found, launch, parameter, value)
        elif isinstance(number, bool):
            found.types[name] = "u1"
            found.numbers[name] = Attribute(name, "bool", "u1"), number
        elif isinstance(number, (int, torch.SymInt)):
            _add_integer(found, parameter, number)
        elif isinstance(number, float):
            type_ = parameter.annotation if parameter.annotation in _FLOATS else "fp32"
            found.types[name] = type_
            found.numbers[name] = Attribute(name, "float", type_), number
        elif number is None or triton_private.constant_text(number) is not None or triton_private.is_kernel(number):
            found.add_constant(name, number)
        else:
            raise CaptureError(
                f"The Triton kernel {launch.name} is launched with a {type(number).__name__} for '{name}', which is "
                "not supported. Pass tensors, numbers, and constants."
            )
    return found


def _add_tensor(found: Typed, launch: Launch, parameter: triton_private.Parameter, tensor: torch.Tensor) -> None:
    if tensor.dtype not in _TYPES:
        raise CaptureError(
            f"The Triton kernel {launch.name} is launched with a tensor of {tensor.dtype} for '{parameter.name}', "
            "which is not supported. View it as another type before the launch, such as torch.uint8."
        )
    found.types[parameter.name] = parameter.annotation or f"*{_TYPES[tensor.dtype]}"
    found.tensors[parameter.name] = tensor
    if parameter.is_aligned and parameter.is_specialized:
        found.multiples.append(parameter.name)


def _add_integer(found: Typed, parameter: triton_private.Parameter, number: Any) -> None:
    name, is_symbolic = parameter.name, isinstance(number, torch.SymInt)
    if number.__class__ is int and number == 1 and parameter.is_specialized and not parameter.annotation:
        found.add_constant(name, 1)
        return
    example = torch_sizes.example_with(number, {}) if is_symbolic else number
    is_small = example is None or -_MOST_INT32 <= example < _MOST_INT32
    found.types[name] = parameter.annotation or ("i32" if is_small else "i64")
    found.numbers[name] = Attribute(name, "str" if is_symbolic else "int", found.types[name]), number
    if not is_symbolic and number % 16 == 0 and parameter.is_specialized and parameter.is_aligned:
        found.multiples.append(name)


@dataclass(frozen=True)
class Specialization:
    """A kernel for the types and constants of a launch.

    Attributes:
        kernel: The function with @triton.jit.
        types: The type of each parameter, in order; see `Typed`.
        constants: The values of constants.
        multiples: The parameters that are multiples of 16.
        options: Options of the compiler.
        inputs: The tensors that the operator takes, with their types.
        outputs: The tensors that the kernel writes to.
        attributes: The numbers that the operator takes.
        has_sizes: Whether its last input is an empty tensor whose sizes are numbers, which no other input has.
    """

    kernel: Any
    types: Mapping[str, str]
    constants: Mapping[str, Any]
    multiples: tuple[str, ...]
    options: Mapping[str, Any]
    inputs: tuple[tuple[str, torch.dtype], ...]
    outputs: tuple[Output, ...]
    attributes: tuple[Attribute, ...]
    has_sizes: bool

    @cached_property
    def source(self) -> str:
        """The kernel as a file of its own."""
        return standalone_source(self.kernel, self.constants)

    @cached_property
    def name(self) -> str:
        """What the operator is called in its domain: the kernel's name, and a hash of all that it was made for."""
        parts = (
            self.source,
            sorted(self.types.items()),
            self.multiples,
            sorted((name, str(value)) for name, value in self.options.items()),
            self.inputs,
            self.outputs,
            self.attributes,
            self.has_sizes,
        )
        return f"{self.kernel.__name__}_{hashlib.sha256(repr(parts).encode()).hexdigest()[:8]}"

    @property
    def operator(self) -> str:
        """ "triton::add_kernel_1f3a9c2e" """
        return f"{DOMAIN}::{self.name}"

    @cached_property
    def arguments(self) -> tuple[tuple[str, str], ...]:
        """The arguments of the operator: type and name."""
        tensors = [("Tensor", name) for name, _ in self.inputs]
        if self.has_sizes:
            tensors.append(("Tensor", self.sizes_name))
        numbers = [(each.kind, each.parameter) for each in self.attributes]
        shapes = [("str", self.shape_name(each)) for each in self.outputs if each.is_fresh]
        return (*tensors, ("str", self.grid_name), *numbers, *shapes)

    def _unused(self, name: str) -> str:
        while name in self.types:
            name += "_"
        return name

    @property
    def grid_name(self) -> str:
        """The name of the attribute with the numbers of blocks."""
        return self._unused("grid")

    @property
    def sizes_name(self) -> str:
        """The name of the input whose sizes are numbers."""
        return self._unused("sizes")

    def shape_name(self, output: Output) -> str:
        """The name of the attribute with an output's sizes."""
        return self._unused(f"{output.parameter}_shape")

    @property
    def schema(self) -> str:
        """The operator's schema, without its namespace."""
        tensors = [f"Tensor {name}" for kind, name in self.arguments if kind == "Tensor"]
        others = [f"{kind} {name}" for kind, name in self.arguments if kind != "Tensor"]
        returns = ", ".join(["Tensor"] * len(self.outputs))
        returned = returns if len(self.outputs) == 1 else f"({returns})"
        return f"{self.name}({', '.join([*tensors, '*', *others])}) -> {returned}"

    def compiled(self, architecture: str) -> triton_private.Compiled:
        """The kernel compiled for an architecture.

        Args:
            architecture: "sm_90".

        Raises:
            KernelError: It does not compile.
        """
        return compile_kernel(self.kernel, architecture, self.types, self.constants, self.multiples, self.options)


def compile_kernel(
    kernel: Any,
    architecture: str,
    types: Mapping[str, str],
    constants: Mapping[str, Any],
    multiples: Sequence[str],
    options: Mapping[str, Any],
) -> triton_private.Compiled:
    """A kernel compiled for an architecture; see `triton_private.compile_for`.

    Raises:
        KernelError: It does not compile.
    """
    number = compute_capability(architecture)
    try:
        return triton_private.compile_for(kernel, number, types, constants, multiples, options)
    except Exception as error:  # what triton raises has many types
        said = str(error).strip() or type(error).__name__
        raise KernelError(
            f"The Triton kernel {kernel.__name__} does not compile for {architecture}: {said}\n"
            f"Correct the kernel, or export for another architecture."
        ) from error
