"""One call of an operator, made twice in guarded memory: what it does with its arguments' memory and its own shows.

The arguments are copied into guarded memory. Once, blocks end at a page without access and fresh memory is filled with
one byte; once they begin after one, and it is another byte. Results that differ are looked at again, with nothing but
that byte changed, and with nothing changed at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from attack import guard
from opbridge.kernels.aten import define_check

__all__ = ["Checker"]

_MOST_COMPARED = 1 << 20
_UPDATED = ("running_mean", "running_var")
"""What batch normalisation writes to without saying so; a node gives it copies."""

_NO_MEMORY = ("allocate memory", "not enough memory", "bad_alloc", "bad alloc", "out of memory")


class Checker:
    """Makes calls of one operator.

    Args:
        target: The operator.
    """

    def __init__(self, target: Any) -> None:
        self._target = target
        self._guard = guard.library()
        self._on, self._off, self._compare = self._guard.guard_on, self._guard.guard_off, self._guard.memcmp
        names = [each.name for each in target._schema.arguments]
        self._check = _check_of(target)
        self._updated = [at for at, name in enumerate(names) if name in _UPDATED]

    def check(self, args: list[Any], kwargs: dict[str, Any]) -> tuple[bool, str]:
        """Makes a call.

        Returns:
            Whether it ran, and what was found; "" where nothing was.
        """
        if self._check is not None and not self._check(args, kwargs):
            return False, ""
        damaged = self._guard.guard_damaged()
        first, given = self._call(args, kwargs, second_fill=0, at_end=1)
        if isinstance(first, Exception):
            del first, given
            return False, self._damage(damaged)
        second, given_again = self._call(args, kwargs, second_fill=1, at_end=0)
        if isinstance(second, Exception):
            found = "" if _lacks_memory(second) else self._looked_at_again(args, kwargs)
            return True, found or self._damage(damaged)
        found = self._writes(args, kwargs, given) or self._writes(args, kwargs, given_again)
        if not found and not self._same(first, second):
            found = self._looked_at_again(args, kwargs)
        del first, second, given, given_again
        return True, found or self._damage(damaged)

    def _call(self, args: list[Any], kwargs: dict[str, Any], second_fill: int, at_end: int) -> tuple[Any, Any]:
        torch.default_generator.manual_seed(0)
        self._on(second_fill, at_end)
        try:
            own = [_own(each) for each in args]
            named = {name: _own(each) for name, each in kwargs.items()}
            return self._target(*own, **named), (own, named)
        except Exception as error:  # any error is a good end
            return error, None
        finally:
            self._off()

    def _damage(self, before: int) -> str:
        return "writes beside its memory" if self._guard.guard_damaged() != before else ""

    def _looked_at_again(self, args: list[Any], kwargs: dict[str, Any]) -> str:
        for at_end in (1, 0):
            once, _ = self._call(args, kwargs, 0, at_end)
            again, _ = self._call(args, kwargs, 0, at_end)
            if not self._same(once, again):
                return "gives another result for the same arguments"
            other, _ = self._call(args, kwargs, 1, at_end)
            if not self._same(once, other):
                return "returns memory that nobody has written to, or that is not its own"
        return ""

    def _writes(self, args: list[Any], kwargs: dict[str, Any], given: Any) -> str:
        """Whether a call has written to its arguments."""
        own, named = given
        for at, (before, after) in enumerate(zip(args, own, strict=True)):
            if at not in self._updated and not self._unchanged(before, after):
                return "writes to its arguments"
        if all(self._unchanged(kwargs[name], named[name]) for name in kwargs):
            return ""
        return "writes to its arguments"

    def _unchanged(self, before: Any, after: Any) -> bool:
        if isinstance(before, torch.Tensor):
            before = before.contiguous()  # as the operator's own copy of it is
            return before.numel() == 0 or self._compare(before.data_ptr(), after.data_ptr(), before.nbytes) == 0
        if isinstance(before, (list, tuple)):
            return all(map(self._unchanged, before, after))
        return True

    def _same(self, one: Any, other: Any) -> bool:
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
            return self._same_tensors(one, other)
        if isinstance(one, (list, tuple)):
            return isinstance(other, (list, tuple)) and len(one) == len(other) and all(map(self._same, one, other))
        if isinstance(one, Exception) or isinstance(other, Exception):
            return isinstance(one, Exception) == isinstance(other, Exception) or any(
                isinstance(each, Exception) and _lacks_memory(each) for each in (one, other)
            )
        return bool(one == other) or (one != one and other != other)

    def _same_tensors(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        if one.layout != torch.strided or one.device.type != "cpu" or one.is_quantized or one.numel() > _MOST_COMPARED:
            return True  # no node returns it
        try:
            one, other = _readable(one), _readable(other)
        except RuntimeError:  # nor is this copied to an output
            return True
        return one.numel() == 0 or self._compare(one.data_ptr(), other.data_ptr(), one.nbytes) == 0


def _check_of(target: Any) -> Callable[[list[Any], dict[str, Any]], bool] | None:
    """Whether a node would make a call, for operators whose arguments it looks at; None for others."""
    schema = target._schema
    if not define_check(str(schema)):
        return None
    packet = getattr(torch.ops.opbridge_checks, schema.name.removeprefix("aten::"))
    check = getattr(packet, schema.overload_name or "default")
    names = [each.name for each in schema.arguments]
    taken = {each.name for each in check._schema.arguments}
    numbers = {each.name for each in schema.arguments if str(each.real_type) == "number"}
    defaults = {each.name: each.default_value for each in schema.arguments if each.has_default_value()}

    def would_be_made(args: list[Any], kwargs: dict[str, Any]) -> bool:
        given = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        try:
            check(
                **{name: torch.tensor(given[name]) if name in numbers else given[name] for name in given.keys() & taken}
            )
        except Exception:  # the check's own, or torch's for a value of another type
            return False
        return True

    return would_be_made


def _readable(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
        return tensor
    return tensor.resolve_conj().resolve_neg().contiguous()


def _own(value: Any) -> Any:
    """An argument in memory of its own."""
    if isinstance(value, torch.Tensor):
        return value.clone(memory_format=torch.contiguous_format)
    return [_own(each) for each in value] if isinstance(value, (list, tuple)) else value


def _lacks_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or any(each in str(error) for each in _NO_MEMORY)
