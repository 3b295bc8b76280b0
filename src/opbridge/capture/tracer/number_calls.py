"""Calls of Python's own types and functions in the code of a model, which would fix a dynamic size.

`int(n)` gives an int whatever `n` is, so that a symbolic size has to become a number there. Functions of the model that
call `int`, `float`, `range` and the like have another code object while the model is captured: the same, but for the
names of these calls, which are those of functions that keep a size symbolic. `int` that is not called, as in
`isinstance(n, int)` or `dtype=int`, stays what it is. On a Python whose LOAD_GLOBAL does not say whether what it loads
is called, the names stay, and such a call fixes the size. What is done to lists and comprehensions does not depend on
the release; see `list_syntax`.

The names are replaced in code objects, as that takes a hundredth of the time in which the functions are compiled again
from changed syntax trees: `bench/python_hooks.py` measures both.
"""

from __future__ import annotations

import contextlib
import dis
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.base.torch_private import torch_proxies, torch_sizes
from opbridge.capture.tracer import list_syntax
from opbridge.capture.tracer.comprehensions import as_symbolic, dict_of, list_of, set_of
from opbridge.capture.tracer.derived_sequences import Reversed, Zipped
from opbridge.capture.tracer.filled_by_index import FILLED, check_filled
from opbridge.capture.tracer.filling import filled_list
from opbridge.capture.tracer.iterating_functions import ITERATING, contained, filtered
from opbridge.capture.tracer.list_forms import form_of
from opbridge.capture.tracer.loop_filled_lists import copied, grown_length
from opbridge.capture.tracer.model_functions import functions_of
from opbridge.capture.tracer.repeated_lists import Repeated
from opbridge.capture.tracer.sized_sequences import AskedRange, Joined, Range, SizedSequence, Unmodified
from opbridge.capture.tracer.symbolic_list import SymbolicList, chained, is_list, sequence_of
from opbridge.capture.tracer.symbolic_loops import asks, asks_for_range, runs_over
from opbridge.capture.tracer.tensor_sequences import Numbers, Rows

__all__ = ["FOLLOWED", "FollowingCalls", "length", "renamed", "with_keys"]

_PREFIX = "__opbridge_"
_MOST_NAMES = 128
"""An instruction holds the place of a name in one byte, of which a bit says whether it is called."""

_LOAD_GLOBAL = dis.opmap.get("LOAD_GLOBAL")
_EXTENDED_ARG = dis.opmap.get("EXTENDED_ARG")


def _says_what_is_called() -> bool:
    """Whether LOAD_GLOBAL has that form in this Python, as it has from 3.11 on."""
    code = (lambda: str(float)).__code__
    loaded = [(each.argval, each.arg) for each in dis.get_instructions(code) if each.opcode == _LOAD_GLOBAL]
    return loaded == [("str", code.co_names.index("str") << 1 | 1), ("float", code.co_names.index("float") << 1)]


_SAYS_WHAT_IS_CALLED = _says_what_is_called()


class FollowingCalls:
    """Has calls of these functions in a model's code take symbolic numbers.

    Args:
        module: The model.
        everywhere: Whether the functions of all loaded Python modules of the model's packages, and of those that it
            imports, are meant, and not those of the classes of its submodules alone. It takes longer.

    Attributes:
        everywhere: As given.
    """

    def __init__(self, module: torch.nn.Module, everywhere: bool) -> None:
        self.everywhere = everywhere
        self._functions = list(functions_of(module, everywhere))
        self._made: dict[types.FunctionType, tuple[types.CodeType, types.CodeType]] = {}

    def _followed(self, function: types.FunctionType) -> types.CodeType:
        """The code of a function, which a support may have replaced, as it is within `following`."""
        code, new = self._made.get(function, (None, None))
        if new is None or code is not function.__code__:
            code = function.__code__
            lists = list_syntax.with_symbolic_lists(code, of_lists=not self.everywhere)
            new = renamed(lists, function.__globals__)
            self._made[function] = code, new
        return new

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Within this context, they do."""
        followed = [(each, each.__code__, self._followed(each)) for each in self._functions]
        changed = [(function, code, new) for function, code, new in followed if new is not code]
        namespaces = list({id(each.__globals__): each.__globals__ for each, _, _ in changed}.values())
        for names in namespaces:
            names.update(_REPLACEMENTS)
        try:
            for function, _, new in changed:
                function.__code__ = new
            yield
        finally:
            for function, code, _ in changed:
                function.__code__ = code
            for names in namespaces:
                for name in _REPLACEMENTS:
                    names.pop(name, None)


def renamed(code: types.CodeType, names: dict[str, Any]) -> types.CodeType:
    """A code object with other names for the calls; the same one where it calls none of them.

    Args:
        code: The code object.
        names: Its globals, which may have functions of these names themselves.
    """
    if not _SAYS_WHAT_IS_CALLED:
        return code
    constants = tuple(renamed(each, names) if isinstance(each, types.CodeType) else each for each in code.co_consts)
    changed = any(one is not other for one, other in zip(constants, code.co_consts, strict=True))
    imported = {name for name in code.co_names if id(names.get(name)) in _IMPORTED}
    called = [name for name in code.co_names if (name in _BY_NAME and name not in names) or name in imported]
    if not called or len(code.co_names) + len(called) > _MOST_NAMES:
        return code.replace(co_consts=constants) if changed else code
    places = {code.co_names.index(name): len(code.co_names) + at for at, name in enumerate(called)}
    found = bytearray(code.co_code)
    for at in range(0, len(found), 2):
        name, is_called = found[at + 1] >> 1, found[at + 1] & 1
        if found[at] == _LOAD_GLOBAL and name in places and (is_called or code.co_names[name] in imported):
            if at == 0 or found[at - 2] != _EXTENDED_ARG:
                found[at + 1] = places[name] << 1 | is_called
                changed = True
    if not changed:
        return code
    replaced = (*code.co_names, *(_IMPORTED.get(id(names.get(name)), _PREFIX + name) for name in called))
    return code.replace(co_code=bytes(found), co_names=replaced, co_consts=constants)


_INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})


def length(value: Any) -> Any:
    """`len`: the symbolic size of a tensor's first dimension, or that of a sequence."""
    if isinstance(value, torch.Tensor) and value.dim():
        return value.shape[0]
    if (sequence := sequence_of(value)) is not None:
        return sequence.length
    if (type(value) is tuple or is_list(value)) and (grown := grown_length(value)) is not None:
        return grown
    return len(value)


def _int(*args: Any, **settings: Any) -> Any:
    """`int`: a symbolic size is an int, and a symbolic float is cut off."""
    if len(args) == 1 and not settings:
        value = _value(args[0])
        if isinstance(value, (torch.SymInt, torch.SymFloat)):
            return torch.sym_int(value)
        if isinstance(value, torch.SymBool):
            return torch.sym_ite(value, 1, 0)
    return int(*args, **settings)


def _float(*args: Any) -> Any:
    """`float`: of a symbolic number."""
    if len(args) == 1:
        value = _value(args[0])
        if isinstance(value, torch.SymBool):
            value = torch.sym_ite(value, 1, 0)
        if isinstance(value, (torch.SymInt, torch.SymFloat)):
            return torch.sym_float(value)
    return float(*args)


def _integer(number: Any) -> Any:
    """The symbolic integer that a tensor without values holds, as Python's `__index__` gives it; others as they are."""
    is_one = type(number) is torch_proxies.FakeTensor and number.numel() == 1 and number.dtype in _INTEGERS
    return number.item() if is_one else number


def _value(number: Any) -> Any:
    """The symbolic number that a tensor without values holds; everything else as it is."""
    is_one = type(number) is torch_proxies.FakeTensor and not number.is_complex()
    return number.item() if is_one else number


def _range(*limits: Any) -> Any:
    """`range`: of symbolic sizes."""
    if any(type(each) is torch_proxies.FakeTensor for each in limits):
        limits = tuple(map(_integer, limits))
    if any(isinstance(each, torch.SymInt) for each in limits):
        start, stop, step = (*limits, 1) if len(limits) == 2 else limits if len(limits) == 3 else (0, *limits, 1)
        if type(step) is int and step:
            return Range(start, stop, step)
        if isinstance(step, torch.SymInt) and step > 0:
            count = torch_sizes.known_size(-((start - stop) // step))
            if isinstance(count, int):  # as in `range(0, length, length)`, where all is one part
                return [start + index * step for index in range(count)]
            return Range(start, stop, step)

    if asks_for_range(sys._getframe(1)) and all(type(each) is int for each in limits):
        found = range(*limits)
        return AskedRange(found.start, found.stop, found.step)
    return range(*limits)


def _list(*args: Any) -> Any:
    """`list`: one of a symbolic length stays that."""
    return _collected(list, *args)


def _tuple(*args: Any) -> Any:
    """`tuple`: one of a symbolic length stays that."""
    return _collected(tuple, *args)


def _collected(kind: type, *args: Any) -> Any:
    """What a type of sequences makes of a sequence: one of a symbolic length stays that."""
    if len(args) != 1:
        return kind(*args)
    (values,) = args
    if isinstance(values, SizedSequence):
        return values.copied() if kind is list else values
    if type(values) is SymbolicList:
        return values.copy() if kind is list or values.form is not None else tuple(list.__iter__(values))
    if isinstance(values, torch.Tensor):
        found = _sequence(values)
        return kind(values) if found is None else found.copied() if kind is list else found
    if isinstance(values, types.GeneratorType):  # whose loop may ask before each iteration
        values = filled_list(values)
    return as_symbolic(values) if kind is list else copied(values, kind(values))


def _sequence(value: Any) -> Any:
    """What a loop goes over that asks before each iteration; None for any other value."""
    if isinstance(value, torch.Tensor) and value.dim() and isinstance(value.shape[0], torch.SymInt):
        value = Rows(value)
    elif is_list(value) or type(value) is tuple:
        form = form_of(value)
        value = None if form is None else Unmodified(value, form)
    return value if isinstance(value, SizedSequence) and value.is_indexed and asks(value) else None


def _enumerate(*args: Any, **settings: Any) -> Any:
    """`enumerate`: of a sequence of a symbolic length."""
    of = _sequence(args[0]) if args else None
    start = (*args[1:], 0)[0] if "start" not in settings else settings["start"]
    return enumerate(*args, **settings) if of is None else Zipped((of,), start)


def _zip(*args: Any, **settings: Any) -> Any:
    """`zip`: of sequences of a symbolic length, which `strict=True` requires to be one."""
    found = tuple(map(_sequence, args))
    if found and None not in found:
        if settings.get("strict"):
            for each in found[1:]:
                torch._check(each.length == found[0].length, lambda: "zip() arguments differ in length")
        return Zipped(found)
    return zip(*args, **settings)  # noqa: B905


def _reversed(*args: Any) -> Any:
    """`reversed`: of a sequence of a symbolic length."""
    of = _sequence(args[0]) if len(args) == 1 and not isinstance(args[0], torch.Tensor) else None
    if of is None:
        return reversed(*args)
    taken = sequence_of(args[0])
    taken = None if taken is None or isinstance(taken, Range) else taken[::-1]
    return taken if isinstance(taken, SizedSequence) else Reversed(of)


def summed(*pieces: Any) -> Any:
    """`[*piece, *piece]`: a list of what sequences hold, of which some may have a symbolic length."""
    given = [filled_list(each) if isinstance(each, types.GeneratorType) else each for each in pieces]
    given = [as_symbolic(each) if type(each) is list and form_of(each) is not None else each for each in given]
    if any(sequence_of(each) is not None for each in given):
        return chained(*given)
    return [element for each in given for element in each]


def _is_of_rows(values: torch.Tensor) -> bool:
    """Whether a tensor has a symbolic number of rows, and a number of columns that is known."""
    return values.dim() > 1 and isinstance(values.shape[0], torch.SymInt) and type(values.shape[1]) is int


def unzipped(values: Any, **settings: Any) -> Any:
    """`zip(*values)`: a sequence for each place in the tuples that a loop has filled a list with, or each column."""
    if isinstance(values, torch.Tensor) and _is_of_rows(values):
        return iter([Rows(column) for column in values.unbind(1)])
    if isinstance(values, types.GeneratorType):
        values = filled_list(values)
    form = form_of(values) if is_list(values) else sequence_of(values)
    if isinstance(form, Zipped) and form.first is None:
        return iter(form.sequences)
    return _zip(*values, **settings)


def _any(values: Any) -> bool:
    """`any`: of a list of a symbolic length, or of a generator over one, one condition."""
    return _decided(any, values)


def _all(values: Any) -> bool:
    """`all`: the same."""
    return _decided(all, values)


def _decided(python: Callable[[Any], bool], values: Any) -> bool:
    found: Any = values
    if isinstance(values, types.GeneratorType):
        found = []
        for each in values:
            if not runs_over(sys._getframe()):
                if bool(each) is (python is any):
                    return python is any  # which has not asked for the others
                continue
            found.append(torch.sym_ite(each, 1, 0) if isinstance(each, torch.SymBool) else each)
    sequence = sequence_of(as_symbolic(found) if type(found) is list else found)
    if sequence is None:
        return python(found)
    truths = sequence.tensor() != 0
    return bool(truths.any() if python is any else truths.all())


def with_keys(values: Any, key: Any) -> tuple[SizedSequence, torch.Tensor] | None:
    """A sequence of a symbolic length, and the integers that a function gives for its elements.

    Args:
        values: The sequence, or a list that has one as its form.
        key: The function; None: the elements themselves.

    Returns:
        None for any other value, and where the function gives no integers.
    """
    form = form_of(values) if is_list(values) else sequence_of(values)
    if form is None or not form.is_indexed:
        return None
    if key is None:
        numbers = form.integers()
    else:
        keys = SymbolicList()
        for each in values:
            keys.append(key(each))
        found = sequence_of(keys)
        numbers = None if found is None else found.integers()
    return None if numbers is None else (form, numbers)


def _sorted(values: Any, *, key: Any = None, reverse: bool = False) -> Any:
    """`sorted`: of a sequence of a symbolic length, by integers."""
    found = with_keys(values, key)
    if found is None:
        return sorted(values, key=key, reverse=reverse)
    form, keys = found
    places, numbers = keys.argsort(stable=True, descending=bool(reverse)), form.integers()
    taken = form.taken(places) if numbers is None else Numbers(numbers[places])
    return sorted(values, key=key, reverse=reverse) if taken is None else taken


def _map(function: Any, *iterables: Any) -> Any:
    """`map`: of the functions that have another form here, and of sequences of a symbolic length."""
    if isinstance(function, type):
        function = _AS_VALUES.get(function, function)
    found = tuple(map(_sequence, iterables))
    if found and None not in found:
        return (function(*each) for each in Zipped(found))
    return map(function, *iterables)


def _isinstance(value: Any, kinds: Any) -> bool:
    """`isinstance`: a symbolic size is an int, a symbolic float a float."""
    plain = [] if isinstance(value, SizedSequence) and value.is_list else _PLAIN.get(type(value))
    return isinstance(value, kinds) or (plain is not None and isinstance(plain, kinds))


def _type(*args: Any, **settings: Any) -> Any:
    """`type`: of a symbolic size, int."""
    if len(args) == 1 and isinstance(args[0], SizedSequence) and args[0].is_list:
        return list
    if len(args) == 1 and type(args[0]) in _PLAIN:
        return type(_PLAIN[type(args[0])])
    return type(*args, **settings)


_PLAIN: dict[type, Any] = {
    torch.SymInt: 1,
    torch.SymFloat: 1.0,
    torch.SymBool: True,
    SymbolicList: [],
    Joined: [],
    Numbers: [],
    Range: [],
    Repeated: [],
    Rows: (),
}
_AS_VALUES: dict[Any, Callable[..., Any]] = {int: _int, float: _float}
_BY_NAME: dict[str, Callable[..., Any]] = {
    "int": _int,
    "float": _float,
    "len": length,
    "range": _range,
    "list": _list,
    "tuple": _tuple,
    "map": _map,
    "filter": filtered,
    "enumerate": _enumerate,
    "zip": _zip,
    "reversed": _reversed,
    "sorted": _sorted,
    "any": _any,
    "all": _all,
    "isinstance": _isinstance,
    "type": _type,
}
FOLLOWED = frozenset(_BY_NAME)
"""The names of the functions whose calls are followed."""

_IMPORTED = {id(getattr(owner, name)): _PREFIX + name for owner, name, _ in ITERATING}
"""The names that stand for functions which a module has imported by whatever name, by what they are."""

_REPLACEMENTS = {_PREFIX + name: function for name, function in _BY_NAME.items()} | {
    **{_PREFIX + name: function for _, name, function in ITERATING},
    list_syntax.LIST: list_of,
    list_syntax.SET: set_of,
    list_syntax.DICT: dict_of,
    list_syntax.NEW: SymbolicList,
    list_syntax.SUM: summed,
    list_syntax.ZIP: unzipped,
    list_syntax.IN: contained,
    FILLED: check_filled,
}
