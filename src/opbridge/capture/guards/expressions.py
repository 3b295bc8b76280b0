"""What a condition on sizes says: a Python expression over symbols as a tree, and its value for sizes.

The text of a condition is parsed here and nowhere else, once.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
import operator
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "COMPARISONS",
    "Constant",
    "Expression",
    "Operation",
    "Symbol",
    "are_equal_sizes",
    "fixed_size",
    "fixes_a_number",
    "holds_at",
    "limit_of",
    "operators_in",
    "parsed",
    "remainders",
    "replaced",
    "subexpressions",
    "symbols_in",
    "value_at",
    "written",
]


@dataclass(frozen=True)
class Constant:
    """A number, or a truth value."""

    value: int | float | bool


@dataclass(frozen=True)
class Symbol:
    """A size: "s77", or by its place, "x.shape[0]"."""

    name: str


@dataclass(frozen=True)
class Operation:
    """An operator, or a function, of other expressions.

    Attributes:
        name: As Python writes it: "+", "//", "<=", "and", "not", "max", "math.floor". "neg" is the minus before one
            operand; "if" has the condition first.
        operands: What it is of.
    """

    name: str
    operands: tuple[Expression, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Expressions are keys of dicts. The hash of a whole tree is computed once, of the hashes of its operands.
        object.__setattr__(self, "_hash", hash((self.name, self.operands)))

    def __hash__(self) -> int:
        return self._hash


Expression = Constant | Symbol | Operation

COMPARISONS = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""The comparisons, each with its opposite."""

_COMPARED = dict(zip((ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE), COMPARISONS, strict=True))
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Div: "/",
    ast.Pow: "**",
    ast.BitOr: "|",
    ast.BitAnd: "&",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
# What sympy and torch call the same.
_ALIASES = {"Max": "max", "Min": "min", "Mod": "%", "PythonMod": "%", "FloorDiv": "//", "CleanDiv": "//"}
# What torch writes in conditions.
_FUNCTIONS = {
    "__builtins__": {},
    "abs": abs,
    "int": int,
    "max": max,
    "min": min,
    "round": round,
    "math": math,
    "torch": types.SimpleNamespace(sym_float=float, _sym_sqrt=math.sqrt),
}
_NO_VALUE = (ArithmeticError, LookupError, AttributeError, NameError, TypeError, ValueError)
_LARGEST_EXPONENT = 4096


def _limited(operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A power or a shift that has no value where it would have thousands of digits."""

    def operated(number: Any, exponent: Any) -> Any:
        if abs(exponent) > _LARGEST_EXPONENT:
            raise OverflowError
        return operate(number, exponent)

    return operated


_LIMITED = {"**": ("power", _limited(operator.pow)), "<<": ("shifted", _limited(operator.lshift))}


@functools.lru_cache(maxsize=8192)
def parsed(text: str) -> Expression | None:
    """A condition, or a number, as a tree; None where the text is no expression of sizes."""
    try:
        return _tree(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _tree(node: ast.expr) -> Expression:
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return Constant(value)
        case ast.Name() | ast.Attribute() | ast.Subscript():
            name = ast.unparse(node)
            return Constant(math.inf) if name == "math.inf" else Symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return Operation("neg", (_tree(operand),))
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _tree(operand)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return Operation("-", (Operation("neg", (_tree(operand),)), Constant(1)))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return Operation("not", (_tree(operand),))
        case ast.BinOp() if type(node.op) in _BINARY:
            return _operation(_BINARY[type(node.op)], _tree(node.left), _tree(node.right))
        case ast.BoolOp():
            return Operation("and" if isinstance(node.op, ast.And) else "or", tuple(map(_tree, node.values)))
        case ast.Compare() if all(type(each) in _COMPARED for each in node.ops):
            values = [_tree(each) for each in (node.left, *node.comparators)]
            pairs = zip(node.ops, itertools.pairwise(values), strict=True)
            found = [Operation(_COMPARED[type(op)], pair) for op, pair in pairs]
            return found[0] if len(found) == 1 else Operation("and", tuple(found))
        case ast.IfExp():
            return Operation("if", (_tree(node.test), _tree(node.body), _tree(node.orelse)))
        case ast.Call(func=ast.Name() | ast.Attribute(), keywords=[]) if node.args:
            name = ast.unparse(node.func)
            return _operation(_ALIASES.get(name, name), *map(_tree, node.args))
    raise ValueError(f"{ast.unparse(node)} is no expression of sizes")


def _operation(name: str, *operands: Expression) -> Operation:
    if name not in _BINARY.values() and name not in _FUNCTIONS and not name.startswith(("math.", "torch.")):
        raise ValueError(f"{name} is no function of sizes")
    return Operation(name, operands)


def written(expression: Expression) -> str:
    """An expression as text."""
    if isinstance(expression, Symbol):
        return expression.name
    if isinstance(expression, Constant):
        return "math.inf" if expression.value == math.inf else repr(expression.value)
    name, operands = expression.name, list(map(written, expression.operands))
    if name == "if":
        return f"({operands[1]} if {operands[0]} else {operands[2]})"
    if name in ("neg", "not"):
        return f"({'-' if name == 'neg' else 'not '}{operands[0]})"
    if name[0].isalpha() and name not in ("and", "or"):
        return f"{name}({', '.join(operands)})"
    return f"({f' {name} '.join(operands)})"


def subexpressions(expression: Expression | None) -> Iterator[Expression]:
    """An expression and all that it is made of, from the whole to the parts; nothing for None."""
    if expression is not None:
        yield expression
    if isinstance(expression, Operation):
        for each in expression.operands:
            yield from subexpressions(each)


def replaced(expression: Expression, values: Mapping[Expression, Expression]) -> Expression:
    """An expression in which some others stand for those that it is made of."""
    if expression in values:
        return values[expression]
    if not isinstance(expression, Operation):
        return expression
    found = tuple([replaced(each, values) for each in expression.operands])
    is_same = all(map(operator.is_, found, expression.operands))
    return expression if is_same else Operation(expression.name, found)


def symbols_in(text: str) -> tuple[str, ...]:
    """The symbols of an expression, or the names of sizes, in order."""
    return tuple(dict.fromkeys(each.name for each in subexpressions(parsed(text)) if isinstance(each, Symbol)))


@functools.lru_cache(maxsize=8192)
def _function(text: str) -> tuple[Callable[..., Any], tuple[str, ...]] | None:
    """A function that gives the value of an expression, and the symbols that it takes; None where there is none."""
    expression, symbols = parsed(text), symbols_in(text)
    if expression is None:
        return None
    arguments: dict[Expression, Expression] = {
        Symbol(name): Symbol(f"size{number}") for number, name in enumerate(symbols)
    }
    names = ", ".join(map(written, arguments.values()))
    text = written(_with_limits(replaced(expression, arguments)))
    return eval(f"lambda {names}: {text}", {**_FUNCTIONS, **dict(_LIMITED.values())}), symbols


def _with_limits(expression: Expression) -> Expression:
    """An expression whose powers and shifts are functions that end."""
    if not isinstance(expression, Operation):
        return expression
    name, _ = _LIMITED.get(expression.name, (expression.name, None))
    return Operation(name, tuple(map(_with_limits, expression.operands)))


def value_at(text: str, sizes: Mapping[str, int]) -> Any:
    """The value of an expression for sizes; None where it has none."""
    found = _function(text)
    if found is None:
        return None
    function, symbols = found
    try:
        return function(*[sizes[symbol] for symbol in symbols])
    except _NO_VALUE:
        return None


def holds_at(text: str, sizes: Mapping[str, int]) -> bool:
    """Whether a condition holds for sizes; one that has no value does."""
    found = value_at(text, sizes)
    return True if found is None else bool(found)


def are_equal_sizes(text: str) -> bool:
    """Whether a condition says that two sizes are equal, and no more."""
    match parsed(text):
        case Operation("==", (Symbol(), Symbol())):
            return True
    return False


def fixed_size(text: str) -> int | None:
    """The number that a condition says a size to be, and no more; None for another condition."""
    match parsed(text):
        case Operation("==", (Symbol(), Constant(int() as size))):
            return size
    return None


def limit_of(text: str) -> tuple[str, int | None, int | None] | None:
    """The size that a condition compares with a number, with its smallest and its largest value; None for others."""
    match parsed(text):
        case Operation("<" | "<=" as name, (Symbol(size), Constant(int() as number))):
            return size, None, number - (name == "<")
        case Operation(">" | ">=" as name, (Symbol(size), Constant(int() as number))):
            return size, number + (name == ">"), None
    return None


def fixes_a_number(text: str) -> bool:
    """Whether a condition holds a number to one value, and not to the multiples of another one."""
    match parsed(text):
        case Operation("==", sides):
            return not any(isinstance(each, Operation) and each.name == "%" for each in sides)
    return False


@functools.lru_cache(maxsize=8192)
def operators_in(text: str) -> frozenset[str]:
    """The operators and functions of a condition, as `Operation` names them."""
    return frozenset(each.name for each in subexpressions(parsed(text)) if isinstance(each, Operation))


@functools.lru_cache(maxsize=8192)
def remainders(text: str) -> tuple[str, ...]:
    """The remainders in a condition, as expressions."""
    found = (each for each in subexpressions(parsed(text)) if isinstance(each, Operation) and each.name == "%")
    return tuple(dict.fromkeys(map(written, found)))
