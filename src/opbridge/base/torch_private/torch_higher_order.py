"""Private interfaces of torch's higher-order operators: how their functions call them, and where their operands stand.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.

`torch.cond` and its like have TorchDynamo capture the functions that they are given, which takes long and refuses much.
Within `called_directly`, they call their operators with the functions themselves.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._higher_order_ops.scan import scan
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode
from torch.utils import _pytree as pytree

from opbridge.base.attributes import replacing

__all__ = ["OPERANDS", "called_directly", "is_higher_order", "scan"]

OPERANDS: dict[str, tuple[tuple[int, ...], int]] = {
    "cond": ((1, 2), 3),
    "while_loop": ((0, 1), 3),
    "while_loop_stack_output": ((0, 1), 3),
    "scan": ((0,), 3),
    "associative_scan": ((0,), 2),
    "map_impl": ((0,), 2),
}
"""For higher-order operators, by name: the arguments that are bodies, and the one whose items are the last arguments of
each body."""

# These ask whether TorchDynamo is at work, and then call their operators.
_ASKING = ("torch._higher_order_ops.cond", "torch._higher_order_ops.while_loop", "torch._higher_order_ops.utils")
_FLEX = "torch.nn.attention.flex_attention"


def is_higher_order(target: object) -> bool:
    """Whether a node's target is a higher-order operator."""
    return isinstance(target, torch._ops.HigherOrderOperator)


@contextlib.contextmanager
def called_directly() -> Iterator[None]:
    """Within this context, higher-order operators get the functions that the user gave, and nothing is compiled.

    1. `torch.cond`, `torch.while_loop`, `scan` and `map` call their operators, with flat operands and results.
    2. `associative_scan` calls its operator in both of its modes.
    3. `flex_attention` is what it is defined as: matrix products, and the modification of each score by vmap.
    4. Functions and modules that torch.compile wrapped run as they are.
    """
    with contextlib.ExitStack() as stack:
        compiler: Any = torch.compiler
        stack.enter_context(replacing((compiler, "is_dynamo_compiling", _asked_by(compiler.is_dynamo_compiling))))
        for operator, make in ((torch.ops.higher_order.cond, _flat_cond), (_while_loop(), _flat_while_loop)):
            table = operator.python_key_table
            stack.enter_context(_entry(table, ProxyTorchDispatchMode, make(table[ProxyTorchDispatchMode])))
        for module, name, instead in (
            ("torch._higher_order_ops.associative_scan", "generic_associative_scan", _scan_by_operator),
            (_FLEX, "flex_attention_hop", _dense_attention),
        ):
            loaded = importlib.import_module(module)
            stack.enter_context(replacing((loaded, name, instead(getattr(loaded, name)))))
        if "torch._dynamo.eval_frame" in sys.modules:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


@contextlib.contextmanager
def _entry(table: dict[Any, Any], key: Any, value: Any) -> Iterator[None]:
    kept = table[key]
    table[key] = value
    try:
        yield
    finally:
        table[key] = kept


def _while_loop() -> Any:
    from torch._higher_order_ops.while_loop import while_loop_op

    return while_loop_op


def _asked_by(original: Callable[[], bool]) -> Callable[[], bool]:
    def is_dynamo_compiling() -> bool:
        asking = sys._getframe(1).f_globals.get("__name__")
        return asking in _ASKING or asking == _FLEX or original()

    return is_dynamo_compiling


class _Flat:
    """A function with flat arguments and results; remembers the structure of the results."""

    def __init__(self, function: Callable[..., Any], structure: Any) -> None:
        self._function = function
        self._given = structure
        self.returned: Any = None

    def __call__(self, *leaves: Any) -> tuple[Any, ...]:
        results, self.returned = pytree.tree_flatten(self._function(*pytree.tree_unflatten(leaves, self._given)))
        return tuple(results)


def _flat_cond(trace: Any) -> Callable[..., Any]:
    @functools.wraps(trace)
    def cond(mode: Any, predicate: Any, on_true: Any, on_false: Any, operands: Any = ()) -> Any:
        if isinstance(predicate, (bool, int, float)):  # no decision of the graph's
            with mode:
                return (on_true if predicate else on_false)(*operands)
        leaves, structure = pytree.tree_flatten(tuple(operands))
        flat = _Flat(on_true, structure)
        results = trace(mode, predicate, flat, _Flat(on_false, structure), tuple(leaves))
        return pytree.tree_unflatten(list(results), flat.returned)

    return cond


def _flat_while_loop(trace: Any) -> Callable[..., Any]:
    @functools.wraps(trace)
    def while_loop(mode: Any, condition: Any, body: Any, carried: Any, additional: Any = (), *settings: Any) -> Any:
        returned: Any = None

        def flat_body(*leaves: Any) -> tuple[Any, ...]:
            nonlocal returned
            results, returned = pytree.tree_flatten(body(*leaves))
            return tuple(results)

        results = trace(mode, condition, flat_body, carried, additional, *settings)
        return pytree.tree_unflatten(list(results), returned)

    return while_loop


def _scan_by_operator(original: Any) -> Callable[..., Any]:
    @functools.wraps(original)
    def scan(combine: Any, leaves: Any, dim: int = 0, additional_inputs: Any = ()) -> Any:
        def combine_slices(*slices: torch.Tensor) -> list[torch.Tensor]:
            combined = pytree.tree_leaves(combine(*(each.unsqueeze(0) for each in slices)))
            return [each[0] for each in combined]

        return list(torch.ops.higher_order.associative_scan(combine_slices, list(leaves), tuple(additional_inputs)))

    return scan


def _dense_attention(original: Any) -> Callable[..., Any]:
    from torch._higher_order_ops.flex_attention import sdpa_dense

    @functools.wraps(original)
    def attention(*args: Any, **kwargs: Any) -> Any:
        return sdpa_dense(*args, **kwargs)

    return attention
