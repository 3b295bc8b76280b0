"""Private interfaces of torch about truth values that only data decides.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import torch

from opbridge.base.attributes import replacing
from opbridge.base.python_private.tracing import paused
from opbridge.base.torch_private.torch_known_sizes import Learned
from opbridge.base.torch_private.torch_proxies import Disabled
from opbridge.base.torch_private.torch_shape_env import AskedNow, asked_now
from opbridge.base.torch_private.torch_sizes import is_of_data

__all__ = [
    "NoSuchElement",
    "answering",
    "asking_sizes",
    "attributes_of",
    "count_of",
    "differing",
    "element_of",
    "expression_of",
    "give_count",
    "is_unanswered",
    "knowing_sizes",
    "known",
    "like",
    "negated",
    "numbers_of",
    "suppose",
    "supposing",
    "symbols_of",
    "union",
    "unsupposing",
    "value_of",
]


@contextlib.contextmanager
def answering(
    env: Any,
    answer: Callable[[torch.SymBool, tuple[int, int] | None], bool | None],
    elements: Callable[[], int | None],
    chosen: dict[Any, int],
    again: Callable[[Any], None],
    known: Callable[[torch.SymBool, bool], None] | None,
) -> Iterator[None]:
    """Within this context, truth values that only data decides are answered, and known from there on.

    An index of a list is answered by a truth value for each element; where all are false, the list has no such element.

    Args:
        env: The ShapeEnv of a capture.
        answer: Gives the answer; None leaves the question to torch, which raises an error. It is also told, where the
            question is whether an index is that of an element, which element that is, and of how many.
        elements: Where a number is asked for as an index, gives how many elements there are; else None.
        chosen: Gets the elements that indices are those of; see `element_of`.
        again: Called with a question that an earlier answer decides, as an expression, or as a constant where it is
            not known which question that was.
        known: Called with a question that is not asked, as torch knows its answer, and with that; None where nothing
            depends on it.

    Raises:
        NoSuchElement: From where an index is asked for; see above.
    """
    import sympy
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    evaluate = env.evaluate_expr
    answers: dict[Any, bool] = {}  # of conditions of which the environment takes no note
    asked: dict[Any, tuple[int, int]] = {}  # the questions about an index, while they are asked

    def evaluated(expression: Any, *args: Any, **kwargs: Any) -> Any:
        if expression in (sympy.true, sympy.false):
            again(expression)
        env._make_data_dependent_error = _unexplained
        try:
            with paused():
                found = evaluate(expression, *args, **kwargs)
            if known is not None and _is_condition(expression):
                known(env.create_symboolnode(expression), bool(found))
            return found
        except GuardOnDataDependentSymNode:
            vars(env).pop("_make_data_dependent_error", None)
            if isinstance(expression, sympy.Symbol) or not isinstance(expression, sympy.logic.boolalg.Boolean):
                count = elements()  # a number is asked for; a symbol counts as Boolean
                if count is None:
                    return evaluate(expression, *args, **kwargs)
                return sympy.Integer(element(expression, count))
            if expression in answers:
                again(expression)
                return sympy.true if answers[expression] else sympy.false
            is_so = answer(env.create_symboolnode(expression), asked.get(expression))
            if is_so is None:
                return evaluate(expression, *args, **kwargs)
        finally:
            vars(env).pop("_make_data_dependent_error", None)
        answers[expression] = is_so
        with paused():
            _note(env, expression if is_so else sympy.Not(expression))
        return sympy.true if is_so else sympy.false

    def element(index: Any, count: int) -> int:
        questions = {_is_element(index, each, count): (each, count) for each in range(count)}
        asked.update(questions)
        try:
            place = next((each for question, (each, _) in questions.items() if evaluated(question)), None)
        finally:
            asked.clear()
        if place is None:
            raise NoSuchElement("list index out of range") from None
        chosen[index] = place
        return place

    # The raise of an assert is a branch like another. torch would take the code that asks apart at each question.
    env.evaluate_expr, env._is_python_assert = evaluated, lambda: False
    try:
        yield
    finally:
        del env.evaluate_expr, env._is_python_assert


def _unexplained(expression: Any, *args: Any, **kwargs: Any) -> Exception:
    """torch's error for a question that only data decides, without the places of it, which take long to find."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    return GuardOnDataDependentSymNode(expression, "")


def is_unanswered(error: Exception) -> bool:
    """Whether an error says that a number was asked for which only data decide."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    return isinstance(error, GuardOnDataDependentSymNode)


@contextlib.contextmanager
def asking_sizes(env: Any, ask: Callable[[torch.SymBool, AskedNow, bool], None]) -> Iterator[None]:
    """Within this context, what is asked about sizes is answered by the example, and no condition of the capture.

    Args:
        env: The ShapeEnv of a capture, which learns nothing of its sizes from answers.
        ask: Called with a question that not all sizes answer alike, what is known of it, and its answer. Where a number
            is asked for, the question is whether it is that of the example.
    """
    import sympy

    evaluate = env.evaluate_expr
    always: dict[Any, Any] = {}  # whether all sizes give the same answer, and which
    written: dict[Any, AskedNow] = {}
    values: dict[Any, Any] = {}  # what expressions are for the example, whose sizes stay what they are

    def value(expression: Any) -> Any:
        found = values.get(expression)
        if found is None:
            found = _value_of(expression, _hints(env)) if expression.free_symbols else None
            if found is not None:
                values[expression] = found
        return found

    def evaluated(expression: Any, *args: Any, **kwargs: Any) -> Any:
        if (found := value(expression)) is None:
            return evaluate(expression, *args, **kwargs)
        question = expression if _is_condition(expression) else sympy.Eq(expression, found)
        if question not in always:
            always[question] = env._maybe_evaluate_static(question)
        if always[question] is None:
            if question not in written:
                written[question] = asked_now(question)
            ask(env.create_symboolnode(question), written[question], question is not expression or bool(found))
        return found

    with replacing((env, "evaluate_expr", evaluated)):
        yield


@contextlib.contextmanager
def knowing_sizes(env: Any, value: Callable[[Any], Any]) -> Iterator[None]:
    """Within this context, what is asked about sizes is answered, and no condition of the capture.

    Args:
        env: The ShapeEnv of a capture.
        value: Gives the value of a symbol; None where that is not known.
    """
    from torch.fx.experimental import symbolic_shapes

    evaluate = env.evaluate_expr

    def evaluated(expression: Any, *args: Any, **kwargs: Any) -> Any:
        if not getattr(expression, "free_symbols", None) or env._maybe_evaluate_static(expression) is not None:
            return evaluate(expression, *args, **kwargs)
        found = _value_of(expression, {each: value(each) for each in expression.free_symbols})
        return evaluate(expression, *args, **kwargs) if found is None else found

    replaced: list[tuple[Any, str, Any]] = [(env, "evaluate_expr", evaluated)]
    hint = getattr(symbolic_shapes, "optimization_hint", None)
    if hint is not None:  # torch asserts of a view what holds for the example

        def hinted(number: Any, fallback: int | None = None) -> Any:
            found = value_of(number, value)
            return hint(number, fallback) if found is None else found

        replaced.append((symbolic_shapes, "optimization_hint", hinted))
    with replacing(*replaced):
        yield


def value_of(size: Any, value: Callable[[Any], Any]) -> Any:
    """The value of a size, or of a condition, where its symbols have values; None where one has none."""
    if not hasattr(size, "node"):
        return size
    expression = size.node.expr
    found = _value_of(expression, {each: value(each) for each in getattr(expression, "free_symbols", ())})
    return None if found is None else bool(found) if isinstance(size, torch.SymBool) else int(found)


def _is_condition(expression: Any) -> bool:
    import sympy

    return isinstance(expression, sympy.logic.boolalg.Boolean) and not isinstance(expression, sympy.Symbol)


def _hints(env: Any) -> Mapping[Any, Any]:
    hints: Mapping[Any, Any] = env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val
    return hints


def _value_of(expression: Any, values: Mapping[Any, Any]) -> Any:
    """The value of an expression; None where a symbol in it has none."""
    known = {each: values.get(each) for each in getattr(expression, "free_symbols", ())}
    if None in known.values():
        return None
    found = expression.xreplace({each: _integer(value) for each, value in known.items()})
    return found if found.is_number or found.is_Boolean else None


def _integer(value: Any) -> Any:
    import sympy

    return sympy.Integer(int(value))


def element_of(number: Any, chosen: Mapping[Any, int]) -> int | None:
    """Which element of a list a symbolic number has been the index of; None where of none."""
    return chosen.get(number.node.expr)


class NoSuchElement(IndexError):
    """What the model raises where an index that data decide is none of the list's."""


def expression_of(condition: torch.SymBool) -> Any:
    """A condition as an expression that can be compared."""
    return condition.node.expr


def symbols_of(number: Any) -> frozenset[Any]:
    """The symbols of a number, of which there are none in one that is known."""
    return frozenset(number.node.expr.free_symbols) if hasattr(number, "node") else frozenset()


def numbers_of(value: Any) -> list[Any]:
    """The numbers that a tensor without values knows of itself: its sizes, and what has been read from it.

    A number is one itself.
    """
    if not isinstance(value, torch.Tensor):
        return [value]
    memos = (getattr(value, name, None) for name in ("item_memo", "nonzero_memo", "unique_memo"))
    return [*value.shape, *(each for each in memos if each is not None)]


def count_of(value: torch.Tensor) -> Any:
    """How many elements of a tensor without values are not zero, where it has been asked; None where it has not."""
    return getattr(value, "nonzero_memo", None)


def give_count(value: torch.Tensor, count: Any) -> None:
    """Makes a number that of the elements of a tensor without values that are not zero, until it is written to."""
    value.nonzero_memo = count


def attributes_of(value: torch.Tensor) -> dict[str, Any]:
    """The attributes that Python has given to a tensor without values, beside those of torch's."""
    own = _own_attributes(tuple(type(value).__mro__))
    return {name: held for name, held in vars(value).items() if name not in own and "_memo" not in name}


@functools.cache
def _own_attributes(kinds: tuple[type, ...]) -> frozenset[str]:
    return frozenset({"_is_param"}).union(*(getattr(each, "__annotations__", ()) for each in kinds))


def _is_element(index: Any, element: int, count: int) -> Any:
    """Whether an index is that of an element, counted from the first or from the last."""
    import sympy

    return sympy.Or(sympy.Eq(index, element), sympy.Eq(index, element - count))


def known(condition: Any) -> bool | None:
    """The value of a condition that is a Python bool, or that follows from what a capture knows of its symbols."""
    if not isinstance(condition, torch.SymBool):
        return bool(condition)
    found = condition.node.shape_env._maybe_evaluate_static(condition.node.expr)
    return None if found is None else bool(found)


def negated(condition: torch.SymBool) -> torch.SymBool:
    """The opposite of a condition, which no graph records."""
    with Disabled():
        return torch.sym_not(condition)


def suppose(condition: torch.SymBool, answer: bool) -> None:
    """Makes it known from now on that a condition has a value."""
    import sympy

    expression = condition.node.expr
    _note(condition.node.shape_env, expression if answer else sympy.Not(expression))


def _note(env: Any, expression: Any) -> None:
    """Makes an expression known as true, where it is a comparison or says that several hold.

    What contradicts the sizes of the example is not noted: it holds for others, as where there are no rows.
    """
    import sympy

    plain = sympy.to_nnf(expression, simplify=False)
    for each in plain.args if isinstance(plain, sympy.And) else (plain,):
        if isinstance(each, sympy.core.relational.Relational):
            learned = Learned(env)
            try:
                env.guard_or_defer_runtime_assert(each, "a decision")
            except AssertionError:  # torch's own, of the range that a symbol would have
                learned.forget()
                learned.forget_of_data()


@contextlib.contextmanager
def supposing(condition: torch.SymBool, answer: bool) -> Iterator[None]:
    """Within this context, a condition has a value.

    What is found out within it of symbols that only data decides is forgotten at its end, where it need not hold.
    """
    with unsupposing(condition.node.shape_env):
        suppose(condition, answer)
        yield


@contextlib.contextmanager
def unsupposing(env: Any) -> Iterator[None]:
    """What is found out within this context of symbols that only data decides is forgotten at its end.

    Args:
        env: The ShapeEnv of a capture.
    """
    learned = Learned(env)
    try:
        yield
    finally:
        learned.forget_of_data()


def like(mode: Any, tensor: torch.Tensor, open_sizes: Collection[int], *, ignored: bool) -> torch.Tensor:
    """Another tensor without values of the same dtype and shape, but for some sizes that only data decides.

    Args:
        mode: The fake tensor mode.
        tensor: The tensor.
        open_sizes: The dimensions of those sizes.
        ignored: Whether no operator's result is to bind their symbols.
    """
    from torch.utils._sympy.numbers import int_oo

    env = mode.shape_env
    with env.ignore_fresh_unbacked_symbols() if ignored else contextlib.nullcontext():
        shape = [env.create_unbacked_symint() if i in open_sizes else size for i, size in enumerate(tensor.shape)]
    for index in open_sizes:
        env.constrain_symbol_range(shape[index].node.expr, 0, int_oo)  # a size may turn out to be a dynamic one
    with Disabled(), mode:
        return torch.empty(shape, dtype=tensor.dtype, device=tensor.device)


def differing(one: torch.Tensor, other: torch.Tensor) -> set[int]:
    """The dimensions in which two tensors of the same rank have other sizes."""
    sizes = zip(one.shape, other.shape, strict=True)
    return {index for index, (size, another) in enumerate(sizes) if _expression(size) != _expression(another)}


def union(mode: Any, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """A tensor without values that stands for one of two: a size in which they differ is one that only data decides.

    Args:
        mode: The fake tensor mode.
        one: The first.
        other: The second, of the same dtype and rank.
    """
    env = mode.shape_env
    shape: list[Any] = []
    for size, another in zip(one.shape, other.shape, strict=True):
        if _expression(size) == _expression(another) and not is_of_data(size):
            shape.append(size)
            continue
        new = env.create_unbacked_symint()
        (low, high), (lowest, highest) = _range(env, size), _range(env, another)
        env.constrain_symbol_range(new.node.expr, min(low, lowest), max(high, highest))
        shape.append(new)
    with Disabled(), mode:
        return torch.empty(shape, dtype=one.dtype, device=one.device)


def _expression(size: Any) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) else size


def _range(env: Any, size: Any) -> tuple[Any, Any]:
    from torch.utils._sympy.value_ranges import bound_sympy

    if not isinstance(size, torch.SymInt):
        return size, size
    span = bound_sympy(size.node.expr, env.var_to_range)
    return max(span.lower, 0), span.upper
