"""Private interfaces of torch about the environment of a capture: its symbols, their ranges and their guards.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import sys
import weakref
from collections.abc import Callable, Hashable, Iterator
from types import FrameType
from typing import Any

import torch
from torch._guards import Source

from opbridge.base.attributes import replacing


@dataclasses.dataclass(frozen=True)
class _Place(Source):
    """Where a symbol comes from, as a Python expression: `x.shape[0]`."""

    place: str

    @property
    def _name_template(self) -> str:
        return self.place

    @property
    def name(self) -> str:
        return self.place


class Sizes:
    """The symbolic sizes of one capture.

    Args:
        general: Whether 0 and 1 are sizes like others; else a size of 0 or 1 in the example is fixed, and others are at
            least 2.
        dynamic: Places whose symbols are never fixed, nor is their range narrowed; each question about them becomes a
            condition.

    Attributes:
        env: What torch knows of the symbols.
    """

    def __init__(self, *, general: bool, dynamic: frozenset[str] = frozenset()) -> None:
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        self.env = ShapeEnv(tracked_fakes=[], trace_asserts=True)
        self._general = general
        self._dynamic = dynamic
        self._free: set[Any] = set()
        self._by_name: dict[str, Any] = {}
        if dynamic:
            _keep_free(self.env, self._free)

    @classmethod
    def of(cls, env: Any) -> Sizes:
        """The sizes of a capture that has been made."""
        sizes = cls.__new__(cls)
        sizes.env, sizes._general, sizes._by_name, sizes._dynamic, sizes._free = env, True, {}, frozenset(), set()
        return sizes

    def new(
        self,
        example: int,
        place: str,
        name: str | None,
        low: int | None,
        high: int | None,
        *,
        automatic: bool = False,
    ) -> Any:
        """The symbol of a size, or the size itself where that is fixed.

        Args:
            example: Its value in the example.
            place: The size as a Python expression.
            name: Its name; equal names are one symbol.
            low: Its smallest value.
            high: Its largest value.
            automatic: Whether it may be fixed where the model needs it.
        """
        from torch.fx.experimental.symbolic_shapes import DimDynamic, StrictMinMaxConstraint
        from torch.utils._sympy.numbers import int_oo
        from torch.utils._sympy.value_ranges import ValueRanges

        if name is not None and name in self._by_name:
            return self._by_name[name]
        constraint = None
        if low is not None or high is not None:
            bounds = ValueRanges(low or 0, int_oo if high is None else high)
            constraint = StrictMinMaxConstraint(vr=bounds, warn_only=False)
        source = _Place(place)
        is_free = place in self._dynamic
        symbol = self.env.create_symbol(
            example,
            source,
            DimDynamic.DYNAMIC,
            constraint,
            positive=None if is_free and example == 0 else True,  # or torch says that no size is 0
            do_not_specialize_zero_one=self._general or is_free,
        )
        if is_free:
            self._free.add(symbol)
        if not automatic:
            _asked_for.setdefault(self.env, set()).add(symbol)
        size = self.env.create_symintnode(symbol, hint=example, source=source)
        if name is not None:
            self._by_name[name] = size
        return size

    def ranges(self) -> dict[str, tuple[int, int | None]]:
        """The smallest and largest value of each symbol, by its name; None: no upper bound."""
        return {
            str(symbol): (_bound(span.lower) or 0, _bound(span.upper)) for symbol, span in self.env.var_to_range.items()
        }

    def conditions(self) -> list[tuple[str, tuple[str, ...], str, str, bool]]:
        """The conditions on the symbols, as `shape_guards` gives them, each with who asked.

        That is the operator whose result it describes, or "" where the model's own code asked, and whether Python asked
        for a number, rather than for a truth value.
        """
        operators, numbers = _operators_asking.get(self.env, {}), _numbers_asked.get(self.env, set())
        return [
            (*found, operators.get(index, ""), index in numbers)
            for index, found in enumerate(guards_in(self.env))
            if found[1]  # torch keeps a question too whose answer follows from others: the condition is True
        ]

    def zeros(self) -> dict[str, str]:
        """The symbols that the model told 0 from others, each with the stack of the line that did."""
        return dict(zeros_asked_for(self.env))

    def places(self) -> dict[str, str]:
        """For each symbol, the size of the example that it was made for, as a Python expression."""
        return sources_of_symbols(self.env)


_operators_asking: weakref.WeakKeyDictionary[Any, dict[int, str]] = weakref.WeakKeyDictionary()
"""The operators that asked for conditions, by the numbers of these."""

_numbers_asked: weakref.WeakKeyDictionary[Any, set[int]] = weakref.WeakKeyDictionary()
"""The numbers of the conditions for which Python asked for a number, as `int(n)` and `range(n)` do."""

_asked_for: weakref.WeakKeyDictionary[Any, set[Any]] = weakref.WeakKeyDictionary()


def asked_for(env: Any) -> set[Any]:
    """The symbols of dimensions that are to be dynamic whatever the model needs."""
    return _asked_for.get(env, set())


def questions(env: Any) -> int:
    """How many conditions on symbols there are so far."""
    return len(env.guards)


def note_questions_of_operator(env: Any, before: int, operator: str) -> None:
    """Notes that the conditions since then were asked for to describe the result of an operator.

    Args:
        env: What torch knows of the symbols.
        before: What `questions` gave before the operator.
        operator: Its name, "aten::split".
    """
    if len(env.guards) > before:
        _operators_asking.setdefault(env, {}).update(dict.fromkeys(range(before, len(env.guards)), operator))


_asked_about_zero: weakref.WeakKeyDictionary[Any, dict[str, str]] = weakref.WeakKeyDictionary()

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "__eq__": operator.eq,
    "__ne__": operator.ne,
    "__lt__": operator.lt,
    "__le__": operator.le,
    "__gt__": operator.gt,
    "__ge__": operator.ge,
}


def zeros_asked_for(env: Any) -> dict[str, str]:
    """The symbols that the model told 0 from others, each with the stack of the line that did; see `noting_zeros`."""
    return _asked_about_zero.get(env, {})


@contextlib.contextmanager
def noting_zeros(env: Any) -> Iterator[None]:
    """Within this context, Python code outside of torch that tells a size of 0 from others is noted.

    torch takes every dynamic size to be positive, so that `n == 0` is known to be false and no condition.

    Args:
        env: The environment of a capture.
    """
    noted = _asked_about_zero.setdefault(env, {})

    def note(size: Any, other: int, compare: Callable[[Any, Any], bool]) -> None:
        expression = size.node.expr
        hints = env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val
        known = {symbol: hints.get(symbol) for symbol in expression.free_symbols}
        if None in known.values() or not expression.is_polynomial(*known):  # a remainder has a condition of its own
            return
        for symbol in known:
            answers = [bool(compare(expression.subs({**known, symbol: size}), other)) for size in (0, 1, 2)]
            if answers[0] not in answers[1:]:
                noted.setdefault(str(symbol), env._get_sloc().maybe_user_loc or "")

    def noting(name: str, compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
        original = getattr(torch.SymInt, name)

        def asked(self: Any, other: Any) -> Any:
            if (
                type(other) is int
                and 0 <= other <= 1
                and getattr(self.node, "shape_env", None) is env
                and _is_asked_by_model()
            ):
                note(self, other, compare)
            return original(self, other)

        return asked

    with replacing(*((torch.SymInt, name, noting(name, compare)) for name, compare in _COMPARISONS.items())):
        yield


def _is_asked_by_model() -> bool:
    frame = sys._getframe(2)
    while frame.f_code.co_name == "__bool__" and frame.f_back is not None:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__")).partition(".")[0] not in ("torch", "opbridge")


def _keep_free(env: Any, symbols: set[Any]) -> None:
    """Makes an environment answer questions about these symbols by the example, and learn nothing from the answers."""
    replace, narrow, implied = env._set_replacement, env._update_var_to_range, env.get_implications

    def set_replacement(symbol: Any, target: Any, message: str) -> None:
        if symbol in symbols and not target.free_symbols:
            return
        try:
            replace(symbol, target, message)
        except AssertionError:
            if symbols.isdisjoint(target.free_symbols):
                raise
            # A number of data is one of these symbols less one: torch asserts that the symbol is at least 1 then.
            env._update_var_to_range = narrow
            try:
                replace(symbol, target, message)
            finally:
                env._update_var_to_range = update_range

    def update_range(symbol: Any, *args: Any, **kwargs: Any) -> None:
        if symbol not in symbols:
            narrow(symbol, *args, **kwargs)

    def get_implications(expression: Any) -> Any:
        return () if symbols.intersection(expression.free_symbols) else implied(expression)

    env._set_replacement, env._update_var_to_range = set_replacement, update_range
    env.get_implications = get_implications
    _narrowing[env] = narrow


_narrowing: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""What narrows the range of a symbol in the environments that learn nothing from answers."""

_MOST_NESTED = 64


def learn_not_negative(number: Any) -> None:
    """Tells an environment that learns nothing from answers that a number is 0 or more, or PyTorch raises an error.

    The least value of its symbol follows from it, where it has one, by which torch simplifies what is computed from it.
    """
    import sympy
    from torch.utils._sympy.solve import try_solve
    from torch.utils._sympy.value_ranges import ValueRanges

    narrow = _narrowing.get(number.node.shape_env) if isinstance(number, torch.SymInt) else None
    if narrow is None:
        return
    env, expression = number.node.shape_env, number.node.expr
    if len(expression.free_symbols) != 1:
        return
    (symbol,) = expression.free_symbols
    number_of_any_sign = sympy.Dummy(integer=True)  # torch's symbols are positive, of which sympy knows n >= 1 already
    asked = sympy.Ge(expression.xreplace({symbol: number_of_any_sign}), 0)
    solved = try_solve(asked, number_of_any_sign, trials=_MOST_NESTED)
    if solved is None or not isinstance(solved[0], sympy.Ge) or not solved[1].is_Integer:
        return
    span, low = env.var_to_range[symbol], int(solved[1])
    if span.lower < low <= env.backed_var_to_val.get(symbol, -1):
        narrow(symbol, ValueRanges(low, span.upper))


@contextlib.contextmanager
def recording_guard_stacks(stack: Callable[[], str]) -> Iterator[None]:
    """Within this context, every guard on sizes records the result of `stack()` at the point that causes it.

    It also records whether Python asked for a number there: see `Sizes.conditions`.
    """
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    original = ShapeEnv._get_sloc

    def located(self: Any, *args: Any, **kwargs: Any) -> Any:
        numbers = _numbers_asked.setdefault(self, set())
        (numbers.add if _is_number_asked() else numbers.discard)(len(self.guards))  # the guard that follows, if any
        return dataclasses.replace(original(self, *args, **kwargs), maybe_user_loc=stack())

    with replacing((ShapeEnv, "_get_sloc", located)):
        yield


def _is_number_asked() -> bool:
    """Whether a number is asked for now, and not a truth value: what `int`, `float` and `range` do with a symbol."""
    from torch.fx.experimental import sym_node

    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename != sym_node.__file__:
        frame = frame.f_back
    while frame is not None and frame.f_code.co_filename == sym_node.__file__:
        if frame.f_code.co_name in ("guard_int", "guard_float"):
            return True
        frame = frame.f_back
    return False


AskedNow = tuple[str, tuple[str, ...]]
"""A question about sizes as a Python expression over symbols, and its symbols, sorted."""


def asked_now(question: Any) -> AskedNow:
    """A question about sizes, which is given as torch has it."""
    from torch.utils._sympy.printers import PythonPrinter

    return PythonPrinter().doprint(question), tuple(sorted(map(str, question.free_symbols)))


def form_of_number(number: Any, of_integer: Callable[[Any], Hashable]) -> Hashable:
    """What tells a number or a truth value from others: how it is computed from integers.

    Args:
        number: The expression, as torch has it.
        of_integer: What tells an integer from others. It is called with the largest parts that are integers.
    """
    if number.is_integer and number.free_symbols:
        return of_integer(number)
    if not number.args:
        return str(number)
    parts = [form_of_number(each, of_integer) for each in number.args]
    if number.is_Add or number.is_Mul:
        parts.sort(key=repr)
    return number.func.__name__, tuple(parts)


def line_of_question(env: Any) -> str:
    """The stack of the line that asks now; see `recording_guard_stacks`."""
    return env._get_sloc().maybe_user_loc or ""


def _bound(bound: Any) -> int | None:
    try:
        return int(bound)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None


def sources_of_symbols(env: Any) -> dict[str, str]:
    """For each symbol, the input size that it was created for, as a Python expression: `x.shape[0]`."""
    found: dict[str, str] = {}
    for symbol, sources in env.var_to_sources.items() if env is not None else ():
        if sources:
            name = sources[0].name
            found[str(symbol)] = _readable_source(name if isinstance(name, str) else name())
    return found


def _readable_source(name: str) -> str:
    """`L['x'].size()[0]` as `x.shape[0]`."""
    head, _, rest = name.removeprefix("L['").partition("']")
    return (head + rest).replace(".size()[", ".shape[")


def guards_in(env: Any) -> list[tuple[str, tuple[str, ...], str]]:
    """The conditions on sizes under which a capture holds: see `torch_program_shapes.shape_guards`."""
    from torch.utils._sympy.printers import PythonPrinter

    printer = PythonPrinter()
    found = []
    for guard in env.guards:
        # In terms of the remaining symbols. A guard that specialised a symbol is now true, and is kept as it was.
        expression = env.replace(guard.expr)
        expression = expression if expression.free_symbols else guard.expr
        symbols = tuple(sorted(map(str, expression.free_symbols)))
        found.append((printer.doprint(expression), symbols, guard.sloc.maybe_user_loc or ""))
    return found
