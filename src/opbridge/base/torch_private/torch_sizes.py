"""Private interfaces of torch about symbolic sizes: what is known of one, and what is asked about it.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from opbridge.base.attributes import replacing
from opbridge.base.torch_private import torch_known_sizes, torch_paddings, torch_shape_env


def may_be_one(size: Any) -> bool:
    """Whether a size is 1 in one run and another in the next, as far as is known.

    That is so for sizes that only data decides, and for those of dimensions that are to be dynamic.
    """
    import sympy
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    if not isinstance(size, torch.SymInt) or size.node.expr.is_number:
        return False
    env = size.node.shape_env
    free = torch_shape_env.asked_for(env) | free_unbacked_symbols(size)
    expression = env.replace(size.node.expr)
    return expression.free_symbols <= free and env._maybe_evaluate_static(sympy.Eq(expression, 1)) is None


def is_known_as_one(size: Any) -> bool:
    """Whether a symbolic size is 1 by what a capture knows of its symbols, though not for all values of them."""
    import sympy

    if not isinstance(size, torch.SymInt):
        return False
    env = size.node.shape_env
    return env._maybe_evaluate_static(sympy.Eq(size.node.expr, 1)) == sympy.true


def is_one_in_example(size: Any) -> bool:
    """Whether a size is 1 in the example; nothing is asked about symbols, and a size that data decides is not 1."""
    if not isinstance(size, torch.SymInt):
        return bool(size == 1)
    return not unknown_symbols([size]) and example_with(size, {}) == 1


def ask_whether_one(sizes: Sequence[Any]) -> None:
    """Asks of sizes whether they are 1, which becomes a condition of the capture; not of those that data decides."""
    with guarding_small_sizes(sizes):
        for size in sizes:
            if not unknown_symbols([size]):
                bool(size == 1)


def ask_equal(left: Any, right: Any) -> bool:
    """Asks whether two sizes are equal that are so in the example, which becomes a condition of the capture.

    Nothing is asked, and the answer is False, where they differ in the example or where only data decide one.
    """
    in_example = example_with(left, {})
    return in_example is not None and in_example == example_with(right, {}) and bool(left == right)


def logarithm2(number: Any) -> Any:
    """The logarithm of base 2 of a symbolic number, which stays symbolic."""
    return torch._sym_log2(torch.sym_float(number))


def is_symbol(size: object) -> bool:
    """Whether a size is a single symbol."""
    return isinstance(size, torch.SymInt) and bool(size.node.expr.is_symbol)


def expression(number: Any, values: Mapping[str, int]) -> str:
    """A symbolic number as an expression over symbols, of which some have values."""
    found = number.node.expr
    known = {symbol: values[str(symbol)] for symbol in found.free_symbols if str(symbol) in values}
    return str(found.subs(known) if known else found)


def example_with(size: Any, values: Mapping[str, int]) -> Any:
    """The value of a size in the example, with other values for some symbols; None for one that only data decides."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    expression, env = size.node.expr, size.node.shape_env
    hints = env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val
    known = {symbol: values.get(str(symbol), hints.get(symbol)) for symbol in expression.free_symbols}
    if None in known.values():
        return None
    return int(expression.subs({symbol: int(value) for symbol, value in known.items()}))


def with_all_symbols(size: Any, value: int) -> int:
    """The value of a size where each of its symbols has one and the same value."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    found = size.node.expr
    return int(found.subs(dict.fromkeys(found.free_symbols, value)))


def hint_of(env: Any, symbol: Any) -> Any:
    """The value of a symbol in the example; None for one that only data decides."""
    hint = (env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val).get(symbol)
    return None if hint is None else int(hint)


def note_unknown_symbols(node: torch.fx.Node, env: Any, result: Any) -> None:
    """Notes which symbols came into being with the result of a node: sizes that only data decides."""
    from torch.fx.experimental.symbolic_shapes import compute_unbacked_bindings

    if env.pending_fresh_unbacked_symbols and (bindings := compute_unbacked_bindings(env, result)):
        node.meta["unbacked_bindings"] = bindings


def keep_unknown_symbols(node: torch.fx.Node, result: Any) -> None:
    """Gives the symbols in a new result of a node the names, and what is known of them, that they had in the first."""
    from torch.fx.experimental.symbolic_shapes import rebind_unbacked

    if "unbacked_bindings" in node.meta:
        values = torch.utils._pytree.tree_leaves(node.meta.get("val"))
        envs = (getattr(getattr(value, "fake_mode", None), "shape_env", None) for value in values)
        numbers = (
            value.node.shape_env for value in values if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)
        )
        env = next((env for env in (*envs, *numbers) if env is not None), None)
        rebind_unbacked(env, node, result)


def is_same_view(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors that share memory are the same part of it in the same form, whatever the sizes are."""
    return left.dtype == right.dtype and _geometry(left) == _geometry(right)


def has_same_strides(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors have the same strides, whatever the sizes are."""
    return len(left.stride()) == len(right.stride()) and all(map(is_equal, left.stride(), right.stride()))


def is_equal(left: Any, right: Any) -> bool:
    """Whether two sizes are the same number or expression, or quotients that are seen to be the same for all sizes.

    Nothing is asked about the symbols.
    """
    left, right = known_size(left), known_size(right)
    if type(left) is int or type(right) is int:
        return type(left) is type(right) and bool(left == right)
    one, other = left.node.expr, right.node.expr
    return bool(one == other) or (_has_remainders(one, other) and _is_zero(_with_remainders(one - other)))


def _has_remainders(*expressions: Any) -> bool:
    """Whether expressions of the same symbols have quotients or remainders: they may be equal though written apart."""
    from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod

    free = {frozenset(each.free_symbols) for each in expressions}
    return len(free) == 1 and all(each.has(FloorDiv, Mod, PythonMod) for each in expressions)


def is_one_or_none_of(size: Any, whole: Any) -> bool:
    """Whether a size is 1, or 0 where another one is 0, as that of `x[:1]`: it is broadcast to the other one."""
    from torch.utils._sympy.functions import Min

    if type(size) is int:
        return size == 1
    return bool(size.node.expr == Min(1, _expression(whole)))


def is_equal_beside_zero(left: Any, right: Any) -> bool:
    """Whether two sizes are seen to be the same number wherever none of the sizes that they consist of is 0.

    The strides of a tensor are such: 1 in the place of a size of 0. Nothing is asked about the symbols.
    """
    one, other = map(_expression, (left, right))
    return bool(one == other) or _is_zero(_without_empty(one) - _without_empty(other))


def is_of_data(size: Any) -> bool:
    """Whether only data decide a size."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return isinstance(size, torch.SymInt) and bool(free_unbacked_symbols(size))


def operations(sizes: Sequence[Any]) -> int:
    """How many operations the longest of the expressions of sizes has."""
    return max((int(each.node.expr.count_ops()) for each in sizes if isinstance(each, torch.SymInt)), default=0)


def text_of(number: Any) -> str:
    """A symbolic number as its expression."""
    return str(number.node.expr)


def is_same_shape(left: Any, right: Any) -> bool:
    """Whether two shapes have the same sizes, as numbers or expressions; nothing is asked about the symbols."""
    return len(left) == len(right) and all(map(is_equal, left, right))


def is_at_most(left: Any, right: Any) -> bool:
    """Whether a size is seen to be at most another one for all values of the symbols; nothing is asked about these.

    torch's own bounds do not see that `4 * (n // 4)` is at most `n`: here, a multiple of a quotient is what it is the
    quotient of without the remainder. That `n // 4` is at most `7 * ((n + 27) // 28)` is seen by rounding: sizes differ
    by an integer, and one above -1 is not negative.
    """
    numbers = [each for each in (left, right) if isinstance(each, torch.SymInt)]
    if not numbers:
        return bool(left <= right)
    env = numbers[0].node.shape_env
    difference = env.replace(_expression(right) - _expression(left))
    return _is_never_negative(env, difference) or _is_never_negative(env, _with_remainders(difference))


def is_at_most_here(left: Any, right: Any) -> bool:
    """Whether a size is seen to be at most another one for all sizes that the capture is for; nothing is asked.

    Those are limited by what has been asked before, where that compares a size of an input with a number.
    """
    if is_at_most(left, right):
        return True
    numbers = [each for each in (left, right) if isinstance(each, torch.SymInt)]
    if not numbers or not (narrowed := torch_known_sizes.ranges_asked_for(numbers[0].node.shape_env)):
        return False
    from torch.utils._sympy.value_ranges import bound_sympy

    env = numbers[0].node.shape_env
    difference = env.replace(_expression(right) - _expression(left))
    return bool(bound_sympy(difference, {**env.var_to_range, **narrowed}).lower >= 0)


def descends(strides: Sequence[Any]) -> bool:
    """Whether no stride is below the next one, whatever the sizes are, as far as that is seen at once.

    So it is where each is a multiple of the next by whole numbers and sizes, of which none is zero.
    """
    numbers = [each.node.expr if isinstance(each, torch.SymInt) else each for each in strides]
    return all(_is_multiple(one, other) for one, other in itertools.pairwise(numbers)) and 0 not in numbers[-1:]


def steps_forward(strides: Sequence[Any]) -> bool:
    """Whether every stride is seen to be positive, whatever the sizes are; nothing is asked about these."""
    return all(bool(_expression(each).is_positive) for each in strides)


def memory_order(tensor: torch.Tensor) -> list[int] | None:
    """The dimensions of a tensor from the one with the largest steps in memory to the one with the smallest.

    Dimensions of size 1 come first. None where elements lie elsewhere than one after the other, as in a slice, or where
    that is not seen for all sizes; nothing is asked about these.
    """
    import sympy

    left = {dim for dim, size in enumerate(tensor.shape) if not is_equal(size, 1)}
    steps = [_without_empty(_expression(each)) for each in tensor.stride()]
    order: list[int] = []
    step: Any = sympy.Integer(1)
    while left:
        found = next((dim for dim in sorted(left, reverse=True) if _is_zero(steps[dim] - step)), None)
        if found is None:
            return None
        left.remove(found)
        order.append(found)
        step = step * _expression(tensor.shape[found])
    return [dim for dim in range(tensor.dim()) if dim not in order] + order[::-1]


def _without_empty(step: Any) -> Any:
    """A stride without what torch makes of sizes of 0 in it: it multiplies `max(1, size)`."""
    from torch.utils._sympy.functions import Max

    sizes = {each: [size for size in each.args if size != 1] for each in step.atoms(Max) if 1 in each.args}
    return step.xreplace({each: found[0] for each, found in sizes.items() if len(found) == 1})


def is_in_order(tensor: torch.Tensor) -> bool:
    """Whether the elements of a tensor lie in memory one after the other, in the order of its dimensions.

    One of size 1 may have any step. False where it is not seen for all sizes; nothing is asked about these.
    """
    order = memory_order(tensor)
    if order is None:
        return False
    steps = [dim for dim in order if not is_equal(tensor.shape[dim], 1)]
    return steps == sorted(steps)


def _is_zero(number: Any) -> bool:
    import sympy

    return bool(sympy.expand(number) == 0)


def _is_multiple(number: Any, divisor: Any) -> bool:
    """Whether a stride is another one times whole numbers and sizes, or what is computed from sizes."""
    if isinstance(number, int) and isinstance(divisor, int):
        return number > 0 and divisor > 0 and number % divisor == 0
    ratio = number / divisor
    factors = ratio.as_powers_dict() if ratio.is_Mul else {ratio: 1}
    return all(power > 0 and _is_factor(each) for each, power in factors.items())


def _is_factor(number: Any) -> bool:
    if number.is_Symbol or number.is_Integer:
        return bool(number.is_Symbol or number > 0)
    return bool(number.is_integer and number.is_nonnegative)


def _expression(number: Any) -> Any:
    import sympy

    return number.node.expr if isinstance(number, torch.SymInt) else sympy.Integer(number)


def _is_never_negative(env: Any, integer: Any) -> bool:
    """Whether an integer is seen to be 0 or more; it may be written as a sum of fractions."""
    try:
        return bool(env.bound_sympy(integer).lower > -1)
    except TypeError:  # of a quotient by a fraction, whose limits sympy does not compare, no range is known
        return False


def _with_remainders(number: Any) -> Any:
    """A sum of sizes in which each quotient by a number is written with the remainder, and `-n % k` with a quotient.

    Those stay that a quotient by a size is made of, of which torch's bounds know nothing where there are fractions.
    """
    import sympy
    from torch.utils._sympy.functions import FloorDiv, PythonMod

    fills = {
        each: each.args[1] * torch_paddings.multiples(-each.args[0], each.args[1]) + each.args[0]
        for each in number.atoms(PythonMod)
        if each.args[1].is_Integer and each.args[1] > 0
    }
    number = number.xreplace(fills)
    divided = {each: each.args[1].is_Integer and each.args[1] > 0 for each in number.atoms(FloorDiv)}
    kept = set().union(*(each.atoms(FloorDiv) for each, by_number in divided.items() if not by_number))
    quotients = {
        each: (each.args[0] - _remainder(*each.args)) / each.args[1]
        for each, by_number in divided.items()
        if by_number and each not in kept
    }
    return sympy.expand(number.xreplace(quotients)) if quotients else number


def _remainder(number: Any, divisor: Any) -> Any:
    """A remainder, without the remainders by the same divisor in a sum: `(n - n % k) % k` is 0."""
    import sympy
    from torch.utils._sympy.functions import Mod

    terms = sympy.expand(number).as_coefficients_dict()
    if all(factor.is_Integer for factor in terms.values()):
        inner = {term: term.args[0] if term.func is Mod and term.args[1] == divisor else term for term in terms}
        number = sympy.expand(sum(factor * inner[term] for term, factor in terms.items()))
    return number % divisor if number.is_Integer else Mod(number, divisor)


def quotient_if_exact(number: Any, divisor: Any) -> int | None:
    """The quotient of products of sizes if each division in them has no remainder; None where it is no number."""
    import sympy
    from torch.utils._sympy.functions import FloorDiv

    if isinstance(number, int) and isinstance(divisor, int):
        return number // divisor if divisor and number % divisor == 0 else None
    dividend, by = _expression(number), _expression(divisor)
    exact = {each: each.args[0] / each.args[1] for each in (*dividend.atoms(FloorDiv), *by.atoms(FloorDiv))}
    by = by.xreplace(exact)
    ratio = None if by == 0 else sympy.cancel(dividend.xreplace(exact) / by)
    return int(ratio) if ratio is not None and ratio.is_Integer else None


def _geometry(tensor: torch.Tensor) -> list[Any]:
    if tensor.layout != torch.strided:
        return [id(tensor)]
    sizes = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    return [tensor.dim(), *(size.node.expr if isinstance(size, torch.SymInt) else size for size in sizes)]


def unknown_symbols(values: Sequence[Any]) -> set[Any]:
    """The unbacked symbols in symbolic values: sizes that depend on data."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return {symbol for value in values for symbol in free_unbacked_symbols(value)}


@contextlib.contextmanager
def ignoring_fresh_symbols(shape_env: Any) -> Iterator[None]:
    """Within this context, new unbacked symbols need not appear in the captured graph."""
    if shape_env is None:
        yield
        return
    with shape_env.ignore_fresh_unbacked_symbols():
        yield


def forget_fresh_symbol(size: torch.SymInt) -> None:
    """Makes a new unbacked symbol one that need not appear in the captured graph."""
    fresh = size.node.shape_env.pending_fresh_unbacked_symbols
    fresh[:] = [symbol for symbol in fresh if symbol != size.node.expr]


def unknown_size(like: torch.Tensor) -> torch.SymInt:
    """A new unbacked symbol, for a size of an operator's fake result that depends on data.

    Args:
        like: One of the operator's arguments.
    """
    from torch._guards import detect_fake_mode

    env = detect_fake_mode([like]).shape_env
    create = getattr(env, "new_dynamic_size", None) or env.create_unbacked_symint
    size = create()
    torch._check(size >= 0)
    return size


@contextlib.contextmanager
def refusing_questions(numbers: Sequence[Any]) -> Iterator[None]:
    """Within this context, a question about the symbols of symbolic numbers whose answer is not known is an error.

    Raises:
        RuntimeError: such a question is asked.
    """
    symbolic = [each for each in numbers if isinstance(each, torch.SymInt | torch.SymFloat | torch.SymBool)]
    symbols = {symbol for each in symbolic for symbol in each.node.expr.free_symbols}
    if not symbols:
        yield
        return
    env = symbolic[0].node.shape_env
    evaluate = env.evaluate_expr

    def evaluate_if_known(expression: Any, *args: Any, **kwargs: Any) -> Any:
        if symbols.intersection(expression.free_symbols) and env._maybe_evaluate_static(expression) is None:
            raise RuntimeError(f"The answer to {expression} is known only when the model runs.")
        return evaluate(expression, *args, **kwargs)

    with replacing((env, "evaluate_expr", evaluate_if_known)):
        yield


@contextlib.contextmanager
def guarding_small_sizes(sizes: Sequence[Any]) -> Iterator[None]:
    """Within this context, a comparison of one of these sizes with 0 or 1 becomes a guard of the capture."""
    from torch.fx.experimental import _config

    for size in sizes:
        if isinstance(size, torch.SymInt):  # A size marked as size-like is never replaced by 1.
            size.node.shape_env.size_like -= size.node.expr.free_symbols
    with _config.patch(backed_size_oblivious=False):
        yield


@contextlib.contextmanager
def small_sizes_dynamic(enabled: bool) -> Iterator[None]:
    """Within this context, a dynamic dimension of size 0 or 1 in the example stays dynamic, and 0 and 1 are allowed.

    The exception is squeeze, where the rank of the result depends on whether a size is 1: the capture is valid for the
    rank that the example gives.
    """
    from torch._decomp import decomposition_table
    from torch.fx.experimental import _config

    if not enabled:
        yield
        return
    aten = torch.ops.aten
    originals = {
        each: decomposition_table[each] for each in (aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
    }

    def squeeze_with_guards(decomposition: Callable[..., Any], x: torch.Tensor, *dims: Any) -> Any:
        with guarding_small_sizes(x.shape):
            return decomposition(x, *dims)

    try:
        # On fake tensors, squeeze runs these decompositions.
        decomposition_table.update(
            {each: functools.partial(squeeze_with_guards, original) for each, original in originals.items()}
        )
        with _config.patch(backed_size_oblivious=True):
            yield
    finally:
        decomposition_table.update(originals)


def known_size(size: Any) -> Any:
    """A size as an int where its symbol was specialised to one value; any other size unchanged."""
    known = size.node.maybe_as_int() if isinstance(size, torch.SymInt) else None
    return size if known is None else known


def symbols(size: object) -> tuple[str, ...]:
    """The symbols in a SymInt, sorted by name; none for a plain int."""
    return tuple(sorted(map(str, size.node.expr.free_symbols))) if isinstance(size, torch.SymInt) else ()


def factors(size: torch.SymInt) -> tuple[int, list[tuple[str, torch.SymInt]]]:
    """A size as a product: a number, and sizes with their expressions, each as often as it is a factor."""
    number, found = 1, []
    for base, exponent in size.node.expr.as_powers_dict().items():
        if not exponent.is_Integer or exponent < 0:
            return 1, [(str(size.node.expr), size)]
        if base.is_Integer:
            number *= int(base) ** int(exponent)
        else:
            factor = size.node.shape_env.create_symintnode(base, hint=None)
            found += [(str(base), factor)] * int(exponent)
    return number, found
