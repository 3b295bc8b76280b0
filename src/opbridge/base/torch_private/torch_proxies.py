"""Private interfaces of torch.fx's proxy tensors: the modes that see every operator, and the tracer they belong to.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.

torch's higher-order operators know one dispatch mode, ProxyTorchDispatchMode, and call methods of its tracer. The modes
and the tracer here are of these classes, so that every higher-order operator can be captured, and replace what they do
with an operator.
"""

from __future__ import annotations

import contextlib
import math
import operator
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._ops
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Graph, Node
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode, PythonKeyTracer
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from opbridge.base.attributes import replacing
from opbridge.base.torch_private import torch_sizes

__all__ = [
    "Disabled",
    "FakeTensor",
    "GraphTracer",
    "Slot",
    "active",
    "after_autograd",
    "before_autograd",
    "call_autocast_rule",
    "enable_python_dispatcher",
    "forget_numbers",
    "has_autocast_rule",
    "has_nested",
    "is_below_autocast",
    "is_composite",
    "new_fake_mode",
    "node_name",
    "placeholder",
    "snapshot",
    "subgraphs_traced_by",
]

Disabled = proxy_tensor.disable_proxy_modes_tracing
"""A context in which neither operators nor the arithmetic of symbolic sizes are recorded."""

Slot = proxy_tensor._ProxyTensor
"""What torch keeps for a tensor: a torch.fx.Proxy for its node, and its value where that is known."""

_PROXY = torch._C._TorchDispatchModeKey.PROXY


class GraphTracer(PythonKeyTracer):
    """The tracer of one graph, in the form that torch's higher-order operators and symbolic sizes expect.

    Args:
        on_node: Called with each new node.
        nodes: The node of each tensor; has the methods of a dictionary that torch uses.

    Attributes:
        computes_sizes: Whether a size is computed from the symbols in it, and is not that of the first tensor that has
            it: in a loop, this tensor may be one of its first iteration.
    """

    def __init__(self, on_node: Callable[[Node], None], nodes: Any) -> None:
        super().__init__()
        self.root = torch.nn.Module()
        # Higher-order operators ask for this method, which a torch.fx.GraphModule gets from nn.Module.
        self.graph = Graph()
        self.tensor_tracker = nodes
        self.symnode_tracker = _Sizes(self._compute_size)
        self.on_node = on_node
        self.computes_sizes = False

    def create_node(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.on_node(node)
        return node

    def attributes(self) -> dict[str, Any]:
        """What the get_attr nodes of the graph stand for."""
        paths = {str(node.target) for node in self.graph.nodes if node.op == "get_attr"}
        return {path: operator.attrgetter(path)(self.root) for path in paths}

    def bind_size(self, size: torch.SymInt, make: Callable[[], Node]) -> None:
        """Says how to get a symbolic size as a node, unless that is known; `make` is called at most once."""
        sizes: Any = self.symnode_tracker
        if self.computes_sizes and not size.node._expr.is_symbol and self.knows_size(size):
            return
        if size not in sizes:
            thunk = proxy_tensor.Thunk(lambda: self.proxy(make()))
            sizes[size] = thunk
            expression = size.node._expr
            if expression.is_symbol:
                self.sympy_expr_tracker.setdefault(expression, proxy_tensor._SympyExprTrackerValue(thunk, size))
            elif isinstance(size, torch.SymInt):
                self._bind_symbol_of(size)

    def rebind_size(self, size: torch.SymInt, make: Callable[[], Node]) -> None:
        """Says how to get a symbol, and what is computed from it, from now on; does nothing for an expression."""
        expression = size.node._expr
        if expression.is_symbol:
            sizes: Any = self.symnode_tracker
            sizes.forget_symbol(expression)
            self.sympy_expr_tracker.pop(expression, None)
            self.bind_size(size, make)

    def _bind_symbol_of(self, size: torch.SymInt) -> None:
        """Says how to get a symbol of which a size is a multiple, as `32*height`, unless that is known."""
        expression, env = size.node._expr, size.node.shape_env
        if len(expression.free_symbols) != 1:
            return
        (symbol,) = expression.free_symbols
        factor = expression.coeff(symbol, 1)
        if symbol in self.sympy_expr_tracker or not factor.is_Integer or expression != factor * symbol:
            return
        example = torch_sizes.example_with(size, {})
        hint = None if example is None else example // int(factor)
        alone = env.create_symintnode(symbol, hint=hint)

        def divided() -> Node:
            node = self.create_node("call_function", operator.floordiv, (self.size_argument(size), int(factor)), {})
            node.meta["val"] = alone
            return node

        self.bind_size(alone, divided)

    def attribute(self, path: str) -> Any:
        """What a get_attr node stands for."""
        return operator.attrgetter(path)(self.root)

    def knows_size(self, size: Any) -> bool:
        """Whether a symbolic number can be computed in this graph."""
        if size.node.constant is not None or size.node.expr.is_number or size in self.symnode_tracker:
            return True
        return all(symbol in self.sympy_expr_tracker for symbol in size.node.expr.free_symbols)

    def unknown_symbols(self, size: Any) -> list[torch.SymInt]:
        """The symbols of a symbolic number that this graph does not know, where it knows others of them."""
        symbols = size.node.expr.free_symbols
        unknown = sorted((each for each in symbols if each not in self.sympy_expr_tracker), key=str)
        if len(unknown) == len(symbols) or not all(symbol.is_integer for symbol in unknown):
            return []
        env = size.node.shape_env
        return [env.create_symintnode(each, hint=torch_sizes.hint_of(env, each)) for each in unknown]

    def _compute_size(self, size: Any) -> Any:
        """Records the arithmetic that gives a symbolic number from the symbols that are known; None where one is not.

        torch does so itself, but releases before 2.15 pass three factors to operator.mul, and none knows all functions.
        """
        expression = size.node.expr
        # By their present names: a symbol that only data decides may have been renamed since it was tracked.
        known = {each.value.node.expr: each.value for each in self.sympy_expr_tracker.values()}
        if not known.keys() >= expression.free_symbols:
            return None
        with active(ProxyTorchDispatchMode(self, "symbolic")):
            return sympy_interp(_Arithmetic, known, expression)

    def arithmetic(self, size: Any) -> Any:
        """A symbolic number as an argument of a node, computed from its symbols, also where it was known as a whole."""
        if all(symbol in self.sympy_expr_tracker for symbol in size.node.expr.free_symbols):
            sizes: Any = self.symnode_tracker
            sizes.forget(size)
        return self.size_argument(size)

    def size_argument(self, size: Any) -> Any:
        """A symbolic size, float or bool as an argument of a node: a node, or a number where it is known."""
        found = proxy_tensor.fetch_sym_proxy(self)(size)
        return found.node if isinstance(found, torch.fx.Proxy) else found


class _Arithmetic(PythonReferenceAnalysis):
    """What the functions of a symbolic expression are in Python.

    torch's own gives expressions for these functions, which no graph can hold, where numbers are symbolic.
    """

    int_truediv = staticmethod(operator.truediv)
    pow_by_natural = staticmethod(operator.pow)
    pow = staticmethod(operator.pow)
    bitwise_and = staticmethod(operator.and_)
    bitwise_or = staticmethod(operator.or_)
    bitwise_xor = staticmethod(operator.xor)

    @staticmethod
    def trunc_to_int(x: Any, dtype: Any) -> Any:
        return math.trunc(x)

    @staticmethod
    def round_to_int(x: Any, dtype: Any) -> Any:
        return round(x)


class _Sizes:
    """The nodes of symbolic sizes, by expression: two sizes of the same expression are the same number.

    Args:
        compute: Records how a size that has no node yet is computed from those that have; returns what it recorded.
    """

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self._found: dict[Any, Any] = {}
        self._compute = compute

    @staticmethod
    def _key(size: Any) -> Any:
        node = size.node
        return (node._expr, node.pytype) if hasattr(node, "_expr") else node

    def __setitem__(self, size: Any, thunk: Any) -> None:
        self._found[self._key(size)] = thunk

    def __getitem__(self, size: Any) -> Any:
        return self._found[self._key(size)]

    def __contains__(self, size: Any) -> bool:
        return self._key(size) in self._found

    def forget(self, size: Any) -> None:
        """Lets a size have no node, as before it was first known."""
        self._found.pop(self._key(size), None)

    def forget_symbol(self, symbol: Any) -> None:
        """Lets the sizes that a symbol is in have no node."""
        for key in [each for each in self._found if isinstance(each, tuple) and symbol in each[0].free_symbols]:
            del self._found[key]

    def get(self, size: Any, default: Any = None) -> Any:
        key = self._key(size)
        if key not in self._found and size.node.is_symbolic():
            computed = self._compute(size)
            if computed is not None and self._key(computed) in self._found:
                self._found[key] = self[computed]
        return self._found.get(key, default)


def before_autograd(tracer: GraphTracer, call: Callable[..., Any]) -> Any:
    """The mode that sees operators before autograd and before composite operators are decomposed."""
    return _mode(tracer, call, pre_dispatch=True)


def after_autograd(tracer: GraphTracer, call: Callable[..., Any]) -> Any:
    """The mode that sees operators after autograd, vmap and the other transforms have been applied."""
    return _mode(tracer, call, pre_dispatch=False)


def _mode(tracer: GraphTracer, call: Callable[..., Any], *, pre_dispatch: bool) -> Any:
    mode: Any = ProxyTorchDispatchMode(tracer, "symbolic", pre_dispatch=pre_dispatch)

    def dispatch(mode: Any, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        return call(function, args, kwargs or {})

    # Not a subclass: higher-order operators look for the class itself. A bound method, as torch ends the process else.
    mode.__torch_dispatch__ = types.MethodType(dispatch, mode)
    return mode


@contextlib.contextmanager
def active(mode: Any) -> Iterator[None]:
    """Within this context, a mode is the one that sees operators, in place of the one that was."""
    with Disabled():
        if mode.pre_dispatch:
            # Entering the mode in torch's way clears a cache of each operator, which holds nothing for this key.
            torch._ops._set_mode_pre_dispatch(mode)
            try:
                yield
            finally:
                torch._ops.unset_mode_pre_dispatch(_PROXY)
        else:
            with mode:
                yield


@contextlib.contextmanager
def subgraphs_traced_by(trace: Callable[..., Any], fake_mode: Any) -> Iterator[None]:
    """Within this context, higher-order operators have their bodies traced by a function.

    Args:
        trace: Called with the body and its arguments; returns a torch.fx.GraphModule.
        fake_mode: The fake tensor mode of the capture.
    """
    tracer = types.SimpleNamespace(
        trace_subgraph=trace,
        trace_subgraph_custom_decomp=lambda body, table, *args: trace(body, *args),
        fake_tensor_mode=fake_mode,
    )
    with replacing((proxy_tensor, "_CURRENT_MAKE_FX_TRACER", tracer)):
        yield


def new_fake_mode(shape_env: Any, *, cached: bool = True) -> Any:
    """A mode in which operators give tensors without values, which have no memory to read.

    Args:
        shape_env: What is known of symbolic sizes.
        cached: Whether the mode keeps what operators give.
    """
    from torch._functorch import config

    with config.patch(fake_tensor_allow_unsafe_data_ptr_access=False):
        mode = FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=True, export=True)
    mode.cache_enabled = mode.cache_enabled and cached
    return mode


def placeholder(graph: Graph, name: str) -> Node:
    """Creates a placeholder with exactly this name, which may be that of a Python builtin ("input")."""
    node = graph.placeholder(name)
    if node.name != name:
        graph._graph_namespace._used_names.add(name)
        node.name = node.target = name
    return node


def node_name(operator: str) -> str:
    """The name that torch.fx gives a node for a function of this name."""
    return Graph()._target_to_str(operator)


def forget_numbers(mode: FakeTensorMode) -> None:
    """Makes a mode forget the symbols of numbers that were taken of its tensors: each gets a new one."""
    mode.epoch += 1


def snapshot(tensor: Any) -> Any:
    """A fake tensor with the present shape and strides of another, and its memory."""
    return proxy_tensor.snapshot_fake(tensor)


def has_nested(args: Any, kwargs: Any) -> bool:
    """Whether a jagged tensor, which is a class of Python's around other tensors, is among the arguments."""
    module = sys.modules.get("torch.nested._internal.nested_tensor")  # it is imported where one is made
    return module is not None and any(_is_nested(each, module.NestedTensor) for each in (*args, *kwargs.values()))


def _is_nested(value: Any, kind: type) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_is_nested(each, kind) for each in value)
    return isinstance(value, kind)


def is_below_autocast(device: str) -> bool:
    """Whether the call that is in progress comes from autocast, which has applied its casts."""
    return torch._C._dispatch_tls_is_dispatch_key_excluded(getattr(torch._C.DispatchKey, f"Autocast{device.upper()}"))


def has_autocast_rule(function: Any, device: str) -> bool:
    """Whether autocast treats an operator in its own way on a device."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), f"Autocast{device.upper()}"))


def is_composite(function: Any) -> bool:
    """Whether an operator is defined by the operators that it calls."""
    return bool(function._can_decompose())


def call_autocast_rule(function: Any, args: Any, kwargs: Any) -> Any:
    """Calls an operator from autocast on: only the operators that autocast calls are seen by the active mode."""
    keys = torch._ops._compute_keyset(args, kwargs, torch._C._dispatch_keyset_full())
    below = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.PreDispatch)
    return function.redispatch(keys & below, *args, **kwargs)
