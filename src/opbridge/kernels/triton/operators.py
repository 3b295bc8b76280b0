"""The operators of PyTorch that launches become while a model is captured: `triton::add_kernel_1f3a9c2e`.

An operator takes the tensors that the kernel reads and those whose content it changes, and gives those that it writes
to. On the CPU it runs in Triton's interpreter, and on a CUDA device as the kernel itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from opbridge.base import triton_private
from opbridge.errors import KernelError
from opbridge.kernels.triton.expressions import evaluated
from opbridge.kernels.triton.interpreting import TensorIn, interpret
from opbridge.kernels.triton.specialization import DOMAIN, Output, Specialization

__all__ = ["known", "notes", "operator_for", "run_on_cpu", "run_source"]

_known: dict[str, Specialization] = {}
_notes: dict[str, str] = {}
_library: torch.library.Library | None = None


def known(operator: str) -> Specialization | None:
    """What an operator was made for, by its name "triton::add_kernel_1f3a9c2e"."""
    return _known.get(operator)


def notes(operators: Iterable[str]) -> Iterator[str]:
    """What there is to say of some operators."""
    for operator in operators:
        if _notes.get(operator):
            yield _notes[operator]


def operator_for(made: Specialization, note: str = "") -> Any:
    """The operator of a specialization; registered when it is first asked for.

    Args:
        made: The specialization.
        note: What there is to say of it to the user.
    """
    global _library
    _notes[made.operator] = note
    op_of = getattr(torch.ops, DOMAIN)
    if made.operator not in _known:
        if _library is None:
            _library = torch.library.Library(DOMAIN, "FRAGMENT")
        _library.define(made.schema)
        _library.impl(made.name, _Implementation(made), "CompositeExplicitAutograd")
        torch.library.register_fake(made.operator, lambda *args, **kwargs: _results(made, args, kwargs), lib=_library)
        _known[made.operator] = made
    return getattr(op_of, made.name).default


def _sizes(made: Specialization, args: tuple[Any, ...]) -> dict[str, Any]:
    names = [name for kind, name in made.arguments if kind == "Tensor"]
    return {name: tensor.shape for name, tensor in zip(names, args, strict=True)}


def _results(made: Specialization, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The outputs, without content."""
    sizes, device = _sizes(made, args), args[0].device
    results = []
    for output in made.outputs:
        shape = _shape(made, output, sizes, kwargs)
        results.append(torch.empty(shape, dtype=output.dtype, device=device))
    return results[0] if len(results) == 1 else tuple(results)


def _shape(made: Specialization, output: Output, sizes: Mapping[str, Any], kwargs: Mapping[str, Any]) -> Any:
    if output.is_fresh:
        return evaluated(kwargs[made.shape_name(output)], sizes)
    return sizes[output.parameter]


class _Implementation:
    """An operator as it runs."""

    def __init__(self, made: Specialization) -> None:
        self._made = made

    def __call__(self, *args: torch.Tensor, **kwargs: Any) -> Any:
        made = self._made
        sizes = _sizes(made, args)
        inputs = dict(zip((name for name, _ in made.inputs), args, strict=False))
        outputs = {}
        for output in made.outputs:
            shape = _shape(made, output, sizes, kwargs)
            if output.is_fresh:
                outputs[output.parameter] = torch.zeros(shape, dtype=output.dtype, device=args[0].device)
            else:
                outputs[output.parameter] = inputs[output.parameter].clone(memory_format=torch.contiguous_format)
        given: dict[str, Any] = {name: tensor.contiguous() for name, tensor in inputs.items()} | outputs
        for each in made.attributes:
            value = kwargs[each.parameter]
            given[each.parameter] = evaluated(value, sizes)[0] if each.kind == "str" else value
        grid = evaluated(kwargs[made.grid_name], sizes)
        if all(grid):
            if args[0].is_cuda and triton_private.has_driver():
                made.kernel[grid](**given, **made.constants, **made.options)
            else:
                run_on_cpu(made, grid, given)
        results = [outputs[each.parameter] for each in made.outputs]
        return results[0] if len(results) == 1 else tuple(results)


def run_on_cpu(made: Specialization, grid: tuple[int, ...], given: Mapping[str, Any]) -> None:
    """Runs a kernel in Triton's interpreter; it writes to the tensors that it is given.

    Args:
        made: The kernel.
        grid: The numbers of blocks.
        given: The arguments that are no constants, by parameter. Tensors that share memory share it in the kernel.

    Raises:
        KernelError: The kernel fails, or writes to a tensor that is none of its outputs.
    """
    run_source(made.source, made.kernel.__name__, grid, given, {each.parameter for each in made.outputs})


def run_source(source: str, name: str, grid: Any, given: Mapping[str, Any], written: set[str] | None) -> None:
    """Runs a kernel's file in Triton's interpreter; as `run_on_cpu`.

    Args:
        source: The kernel's file.
        name: Its name.
        grid: The numbers of blocks.
        given: The arguments that are no constants.
        written: The parameters that the kernel may write to; None: all of them.
    """
    memory: list[bytes] = []
    storages: dict[int, int] = {}
    blocks: list[torch.Tensor] = []
    arguments: dict[str, Any] = {}
    for parameter, value in given.items():
        if not isinstance(value, torch.Tensor):
            arguments[parameter] = value
            continue
        storage = value.detach().untyped_storage()
        number = storages.setdefault(storage.data_ptr() or -len(blocks) - 1, len(blocks))
        if number == len(blocks):
            block = torch.empty(0, dtype=torch.uint8).set_(storage.cpu())
            blocks.append(torch.empty(0, dtype=torch.uint8, device=value.device).set_(storage))
            memory.append(block.numpy().tobytes())
        dtype = str(value.dtype).removeprefix("torch.")
        arguments[parameter] = TensorIn(number, dtype, tuple(value.shape), value.stride(), value.storage_offset())
    changed = interpret(source, name, grid, memory, arguments)
    if written is not None:
        allowed = {arguments[parameter].memory for parameter in written if parameter in arguments}
        unexpected = [
            parameter
            for parameter, each in arguments.items()
            if isinstance(each, TensorIn) and each.memory in changed and each.memory not in allowed
        ]
        if unexpected:
            raise KernelError(
                f"The Triton kernel {name} writes to '{unexpected[0]}', which was not found in its code, so the file "
                "has no output for it. Please report this."
            )
    for number, content in changed.items():
        blocks[number].copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
