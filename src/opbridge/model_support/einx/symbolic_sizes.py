"""einx's operations on tensors of symbolic sizes.

einx makes Python code for each operation and each set of shapes, in which the sizes are numbers. While a model is
captured, it is given a large prime number for each symbolic size. A number in the code that is a product of such primes
is then the product of their sizes, which is computed where the code runs. einx's arithmetic of sizes is the same for
all numbers; what it makes of them besides products, such as a sum, is refused. It computes them in 32 and 64 bits, for
which products of primes are too large, and meanwhile does so in Python's integers.

Checked on einx 0.4.3.
"""

from __future__ import annotations

import ast
import contextlib
import math
import random
import sys
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy
import torch

from opbridge.base.attributes import replacing
from opbridge.base.torch_private import torch_sizes

__all__ = ["keeping_sizes"]

_MODULE = "einx._src.frontend.api"
# The primes are twice this and more. Of three sizes, the product has to have less than 64 bits.
_LEAST = 2**19
_MOST_PRODUCTS = 2**12
_NAME = "__opbridge_size"


@contextlib.contextmanager
def keeping_sizes() -> Iterator[None]:
    """Within this context, einx's operations keep symbolic sizes, where einx is loaded."""
    api = sys.modules.get(_MODULE)
    if api is None or not hasattr(api, "registry") or not hasattr(api, "_split_tensors"):
        yield
        return
    global _sizes
    kept, _sizes = _sizes, _Sizes()
    try:
        with replacing(
            (api, "registry", _Registry(api.registry)),
            (api, "_split_tensors", _with_primes(api._split_tensors)),
            *((module, name, _ExactNumpy()) for module, name in _users_of_numpy()),
        ):
            yield
    finally:
        _sizes = kept


class _Sizes:
    """The prime numbers that stand for the symbolic sizes of one capture."""

    def __init__(self) -> None:
        self._by_prime: dict[int, torch.SymInt] = {}
        self._by_expression: dict[str, int] = {}
        self._random = random.Random(0)

    def number(self, size: Any) -> Any:
        """The number for a size, a product of primes; what is no symbolic size stays as it is."""
        if not isinstance(size, torch.SymInt):
            return size
        number, factors = torch_sizes.factors(size)
        for expression, factor in factors:
            if expression not in self._by_expression:
                prime = _prime_from(self._random.randrange(2 * _LEAST, 5 * _LEAST // 2))
                self._by_expression[expression] = prime
                self._by_prime[prime] = factor
            number *= self._by_expression[expression]
        return number

    def size(self, number: int) -> Any:
        """The size that a number of einx's code stands for.

        Raises:
            NotImplementedError: It is no product of sizes.
        """
        found: Any = 1
        for prime, size in self._by_prime.items():
            while number % prime == 0:
                number //= prime
                found = found * size
        if number >= _LEAST:
            raise NotImplementedError("einx computes something other than a product of dynamic sizes.")
        return found * number


_sizes = _Sizes()


def _prime_from(number: int) -> int:
    """The least prime number that is not below a number."""
    number |= 1
    while any(number % factor == 0 for factor in range(3, int(number**0.5) + 1, 2)):
        number += 2
    return number


def _users_of_numpy() -> Iterator[tuple[Any, str]]:
    """The modules that compute with sizes, and the names that they have for NumPy."""
    for path, module in list(sys.modules.items()):
        if path.startswith(("einx._src.namedtensor.", "einx._src.adapter.")):
            yield from ((module, name) for name in ("np", "_np") if vars(module).get(name) is numpy)


class _ExactNumpy:
    """NumPy, whose products and sums of integers have any size."""

    def prod(self, values: Any, *args: Any, **settings: Any) -> Any:
        """`numpy.prod`."""
        return _Number(math.prod(map(int, values))) if _are_integers(values) else numpy.prod(values, *args, **settings)

    def sum(self, values: Any, *args: Any, **settings: Any) -> Any:
        """`numpy.sum`."""
        return _Number(sum(map(int, values))) if _are_integers(values) else numpy.sum(values, *args, **settings)

    def __getattr__(self, name: str) -> Any:
        return getattr(numpy, name)


def _are_integers(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(each, int | numpy.integer) for each in values)


class _Number(int):
    """An integer in the place of one of NumPy's."""

    def astype(self, dtype: Any) -> _Number:
        """The number itself."""
        return self


def _with_primes(split: Callable[..., Any]) -> Callable[..., Any]:
    """`_split_tensors`, whose parameters may be symbolic sizes."""

    def with_primes(*given: Any) -> Any:
        args, kwargs, tensors = split(*given)
        return args, {name: _sizes.number(value) for name, value in kwargs.items()}, tensors

    return with_primes


class _Registry:
    """einx's registry of backends, whose backends keep symbolic sizes."""

    def __init__(self, registry: Any) -> None:
        self._registry = registry

    def get(self, *given: Any) -> Any:
        """A backend."""
        return _keeping(self._registry.get(*given))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._registry, name)


# einx caches its functions by backend, so that there is one for all captures.
_backends: dict[Any, Any] = {}


def _keeping(backend: Any) -> Any:
    """A backend like another one, whose functions keep symbolic sizes."""
    if not backend.name.startswith("torch") or not hasattr(backend, "compiler"):
        return backend
    if backend not in _backends:
        _backends[backend] = type(backend)(
            ops=backend.ops,
            name=backend.name,
            priority=backend.priority,
            optimizations=backend.optimizations,
            compiler=_Compiler(backend.compiler),
            is_supported_tensor=backend.is_supported_tensor,
            get_shape=lambda tensor: tuple(map(_sizes.number, tensor.shape)),
        )
    return _backends[backend]


class _Compiler:
    """einx's compiler; the functions that it makes keep symbolic sizes."""

    def __init__(self, compiler: Any) -> None:
        self._compiler = compiler

    def compile(self, graph: Any, return_code: bool = False) -> Any:
        """A function, and its code where that is asked for."""
        function, code = self._compiler.compile(graph, return_code=True)
        function = _with_sizes(function, code, _known(getattr(graph, "inputs", ())))
        return (function, code) if return_code else function


class _SizesInCode(ast.NodeTransformer):
    """Code in which numbers that may stand for sizes are those sizes."""

    found = False

    def __init__(self, known: Collection[int]) -> None:
        self._known = known

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if type(node.value) is not int or node.value < _LEAST or node.value in self._known:
            return node
        self.found = True
        return ast.copy_location(ast.Call(ast.Name(_NAME, ast.Load()), [node], []), node)


def _known(inputs: Sequence[Any]) -> set[int]:
    """The products of sizes of a function's inputs that are no symbolic sizes."""
    found = {1}
    for each in inputs:
        for size in getattr(each, "shape", None) or ():
            if size < _LEAST and len(found) < _MOST_PRODUCTS:
                found |= {size * other for other in found}
    return found


def _with_sizes(function: Any, code: str, known: Collection[int] = ()) -> Any:
    """A function with sizes in the place of primes in its code.

    Args:
        function: The function.
        code: Its code.
        known: Numbers that are no primes' products.
    """
    if not isinstance(function, types.FunctionType):
        return function
    transformer = _SizesInCode(known)
    tree = ast.fix_missing_locations(transformer.visit(ast.parse(code)))
    if not transformer.found:
        return function
    names = {**function.__globals__, _NAME: lambda number: _sizes.size(number)}
    exec(compile(tree, "<einx>", "exec"), names)
    return names[function.__name__]
