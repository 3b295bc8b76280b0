"""Private interfaces of torch about what the environment of a capture knows of its symbols, and can forget.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection
from typing import Any

from opbridge.base.torch_private.torch_shape_env import guards_in

__all__ = ["Learned", "forget_conditions", "ranges_asked_for", "suppose_limits"]


class Learned:
    """What an environment learns of its symbols from now on, which it can forget.

    Args:
        env: The environment, or None, which learns nothing.
    """

    def __init__(self, env: Any) -> None:
        self._env = env
        if env is not None:
            self._guards = len(env.guards)
            self._replacements = dict(env.replacements)
            self._ranges = dict(env.var_to_range)
            self._axioms = dict(env.axioms)
            self._asserts = {symbol: list(found) for symbol, found in env.deferred_runtime_asserts.items()}
            self._divisible = set(env.divisible)

    def fixes_a_size(self) -> bool:
        """Whether a symbol that was free is known as one number now."""
        if self._env is None:
            return False
        new = {symbol: value for symbol, value in self._env.replacements.items() if symbol not in self._replacements}
        return any(value.is_number for value in new.values())

    def forget(self) -> None:
        """Restores what was known at first."""
        env = self._env
        if env is None:
            return
        del env.guards[self._guards :]
        for kept, current in (
            (self._replacements, env.replacements),
            (self._ranges, env.var_to_range),
            (self._axioms, env.axioms),
        ):
            current.clear()
            current.update(kept)
        self._count_versions()

    def forget_of_data(self) -> None:
        """Restores what was known of the symbols that only data decides and that there were at first."""
        from torch.utils._sympy.symbol import SymT, symbol_is_type

        env = self._env
        for symbol in self._ranges:
            if symbol_is_type(symbol, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)):
                env.var_to_range[symbol] = self._ranges[symbol]
                if symbol in self._replacements:
                    env.replacements[symbol] = self._replacements[symbol]
                else:
                    env.replacements.pop(symbol, None)
        for kept, current in (
            (self._axioms, env.axioms),
            (self._asserts, env.deferred_runtime_asserts),
        ):
            current.clear()
            current.update(kept)
        env.divisible.clear()
        env.divisible.update(self._divisible)
        env._resimplify_floor_div_axioms = True
        env.fake_tensor_cache.clear()  # what operators gave for the sizes that were known
        self._count_versions()

    def _count_versions(self) -> None:
        """Makes torch forget what it has found out so far, which no longer holds."""
        env = self._env
        for counter in ("_version_counter", "_replacements_version_counter"):  # not every release has both
            if hasattr(env, counter):
                setattr(env, counter, getattr(env, counter) + 1)


def forget_conditions(env: Any, dropped: Collection[str], symbols: Collection[str]) -> None:
    """Makes an environment forget conditions, and that some symbols are at least 2.

    Args:
        env: The environment of a capture that has been made.
        dropped: Conditions, as `torch_shape_env.Sizes.conditions` gives them.
        symbols: The names of the symbols.
    """
    from torch.utils._sympy.value_ranges import ValueRanges

    written = guards_in(env)
    env.guards[:] = [
        guard for guard, (expression, _, _) in zip(env.guards, written, strict=True) if expression not in dropped
    ]
    for symbol, span in list(env.var_to_range.items()):
        if str(symbol) in symbols:
            env.var_to_range[symbol] = ValueRanges(0, span.upper)
    env.axioms.clear()
    for guard in env.guards:
        env.axioms.update(dict(env.get_implications(env.simplify(guard.expr))))
    env._version_counter += 1  # what torch has found out so far no longer holds


class _Limits:
    """The ranges of symbols that follow from questions, of which some may be taken back."""

    def __init__(self) -> None:
        self.supposed: dict[Any, Any] = {}
        self.found: dict[Any, Any] = {}
        self._seen = 0
        self._last: Any = None

    def of(self, env: Any) -> dict[Any, Any]:
        guards = env.guards
        if self._seen and (self._seen > len(guards) or guards[self._seen - 1] is not self._last):
            self._seen, self.found = 0, {}
        for guard in guards[self._seen :]:
            _narrow(env, self.found, guard.expr)
        self._seen, self._last = len(guards), guards[-1] if guards else None
        both = self.supposed.keys() & self.found.keys()
        return {**self.supposed, **self.found, **{each: self.supposed[each] & self.found[each] for each in both}}


_limits: weakref.WeakKeyDictionary[Any, _Limits] = weakref.WeakKeyDictionary()


def ranges_asked_for(env: Any) -> dict[Any, Any]:
    """The ranges of symbols within which all holds that has been asked of one symbol and a number so far.

    A symbol that is never fixed keeps its own range, whatever the answers are; see `torch_shape_env.Sizes`.
    """
    return _limits.setdefault(env, _Limits()).of(env)


def suppose_limits(env: Any, symbol: str, low: int | None, high: int | None) -> None:
    """Notes that the capture is for these sizes alone, beside what is asked in it; see `ranges_asked_for`."""
    from torch.utils._sympy.numbers import int_oo
    from torch.utils._sympy.value_ranges import ValueRanges

    supposed = _limits.setdefault(env, _Limits()).supposed
    for each in env.var_to_range:
        if str(each) == symbol:
            supposed[each] = ValueRanges(0 if low is None else low, int_oo if high is None else high)


def _narrow(env: Any, found: dict[Any, Any], expression: Any) -> None:
    """Narrows a range by a comparison of a symbol with a number that holds."""
    import sympy
    from torch.utils._sympy.numbers import int_oo
    from torch.utils._sympy.value_ranges import ValueRanges

    if not isinstance(expression, (sympy.Ge, sympy.Gt, sympy.Le, sympy.Lt, sympy.Eq)):
        return
    if not (expression.lhs.is_Symbol and expression.rhs.is_Integer):
        expression = expression.reversed
    symbol, number = expression.lhs, expression.rhs
    if not (symbol.is_Symbol and number.is_Integer and symbol in env.var_to_range):
        return
    number = int(number)
    low = {sympy.Ge: number, sympy.Gt: number + 1, sympy.Eq: number}.get(type(expression), 0)
    high = {sympy.Le: number, sympy.Lt: number - 1, sympy.Eq: number}.get(type(expression), int_oo)
    span = found.get(symbol, env.var_to_range[symbol])
    if max(low, span.lower) <= min(high, span.upper):
        found[symbol] = span & ValueRanges(low, high)
