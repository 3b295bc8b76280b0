"""What torch.export asks of a model and its inputs beforehand, and what it does not say of them afterwards."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import inspect
import random
from collections.abc import Callable, Iterator, Mapping
from types import MethodType, TracebackType
from typing import Any

import numpy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_operators, torch_tracing
from opbridge.errors import UsageError

__all__ = [
    "Watch",
    "as_module",
    "described",
    "distinct",
    "evaluating",
    "example_inputs",
    "fit_signature",
    "frozen_inputs",
    "inputs_of_program",
    "register_containers",
    "training_notes",
]

# Operators that act otherwise in training, and which of their arguments says so.
_TRAINING_FLAGS = {
    "aten::alpha_dropout": 2,
    "aten::batch_norm": 5,
    "aten::dropout": 2,
    "aten::feature_alpha_dropout": 2,
    "aten::feature_dropout": 2,
    "aten::native_dropout": 2,
    "aten::rrelu": 3,
}


def as_module(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.nn.Module:
    """A module to export: the model, what `torch.compile` was put around, or a wrapper around a callable.

    The wrapper has the callable's signature, and holds the modules that the callable uses under their own names, so
    that their parameters are parameters of the graph.

    Raises:
        UsageError: No model: a class, a path, a TorchScript object.
    """
    if isinstance(model, type):
        raise UsageError(f"The model is the class {model.__name__}, not an instance. Pass {model.__name__}(...).")
    if isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        raise UsageError(
            "The model is a TorchScript object, which torch.export does not take. Pass the model it was made from."
        )
    if isinstance(model, torch.nn.Module):
        module = torch_tracing.original_module(model)
        if any(isinstance(each, torch.nn.parameter.UninitializedParameter) for each in module.parameters()):
            raise UsageError("The model has lazy layers without weights yet. Run it once on the example inputs.")
        return module
    if not callable(model):
        raise UsageError(
            f"The model is of type {type(model).__name__}. Pass a torch.nn.Module, a function or an ExportedProgram."
        )
    return _wrapper(model, args, kwargs)


def _wrapper(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.nn.Module:
    class Function(torch.nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    kind = inspect.Parameter
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some builtins have none
        parameters = [kind(f"input_{index}", kind.POSITIONAL_ONLY) for index in range(len(args))]
        parameters += [kind(name, kind.KEYWORD_ONLY) for name in kwargs]
    forward: Any = Function.forward
    forward.__signature__ = inspect.Signature([kind("_module", kind.POSITIONAL_ONLY), *parameters])
    wrapper = Function()
    wrapper.training = False
    for name, module in _modules_of(function):
        if not hasattr(wrapper, name):
            wrapper.add_module(name, module)
    return wrapper


def _modules_of(function: Any) -> Iterator[tuple[str, torch.nn.Module]]:
    """The modules that a callable holds or refers to, with a name for each."""
    found: dict[str, Any] = {}
    if isinstance(function, functools.partial):
        yield from _modules_of(function.func)
        found = {f"argument_{index}": value for index, value in enumerate(function.args)} | function.keywords
    elif isinstance(function, MethodType):
        yield from _modules_of(function.__func__)
        owner = function.__self__
        found = {"module": owner} if isinstance(owner, torch.nn.Module) else getattr(owner, "__dict__", {})
    elif inspect.isfunction(function):
        scope = inspect.getclosurevars(function)
        found = {**scope.globals, **scope.nonlocals}
    else:
        found = getattr(function, "__dict__", {})
    for name, value in found.items():
        if isinstance(value, torch.nn.Module):
            yield name, value


def example_inputs(args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The example inputs as a tuple and a dict.

    Raises:
        UsageError: Inputs of a wrong kind.
    """
    if isinstance(args, torch.Tensor):
        args = (args,)
    if isinstance(args, Mapping):
        raise UsageError(
            "args is a mapping. Pass keyword inputs as kwargs=, and a single input that is a dict as a tuple of one: "
            "(inputs,)."
        )
    if not isinstance(args, tuple | list):
        _refuse_array(args, "args")
        raise UsageError(f"args is of type {type(args).__name__}. Give a tensor, or a tuple of example inputs.")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise UsageError(f"kwargs is of type {type(kwargs).__name__}. Give a dict of keyword inputs.")
    args, kwargs = tuple(args), dict(kwargs or {})
    register_containers((args, kwargs))
    for leaf in pytree.tree_leaves((args, kwargs)):
        _refuse_array(leaf, "One of the inputs")
    return args, kwargs


def distinct(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs with copies of tensors that are given twice: torch.export would make one input of them."""
    seen: set[int] = set()

    def once(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in seen:
            return tensor.detach().clone()
        seen.add(id(tensor))
        return tensor

    copied: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map_only(torch.Tensor, once, (args, kwargs))
    return copied


def _refuse_array(value: Any, what: str) -> None:
    if isinstance(value, numpy.ndarray | numpy.generic):
        raise UsageError(f"{what} is a NumPy {type(value).__name__}. Convert it with torch.as_tensor.")


def inputs_of_program(
    program: ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The example inputs of a program that was given: those given with it, else those it was made with.

    Raises:
        UsageError: Inputs that do not fit, or none, or dynamic shapes.
    """
    if dynamic_shapes is not None:
        raise UsageError(
            "dynamic_shapes is given with an ExportedProgram, whose dimensions are settled. Pass dynamic_shapes to "
            "torch.export.export instead, or the model itself to opbridge."
        )
    if not args and not kwargs:
        if program.example_inputs is None:
            raise UsageError("The ExportedProgram holds no example inputs. Pass them as args and kwargs.")
        args, kwargs = program.example_inputs
    given, wanted = len(pytree.tree_leaves((args, kwargs))), len(program.graph_signature.user_inputs)
    if given != wanted:
        raise UsageError(
            f"The ExportedProgram has {wanted} inputs, and {given} were given. Pass inputs like those it was made with."
        )
    return args, kwargs


def fit_signature(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuses inputs that the model cannot be called with: too many, too few, of an unknown name."""
    signature = inspect.signature(module.forward)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(
            f"The inputs do not fit forward{signature}: {error}. Example inputs go into args by position and into "
            "kwargs by name."
        ) from None


def described(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """What the inputs are, for a message: `float32[2, 3], int64[2]`."""
    leaves = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if leaf is not None]
    told = [_summary(leaf) for leaf in leaves[:6]]
    return ", ".join([*told, "..."] if len(leaves) > len(told) else told) or "none"


def _summary(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        return f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"
    return repr(leaf)[:40]


def register_containers(tree: Any) -> None:
    """Makes the dataclasses and caches among the leaves of a tree known to torch as containers."""
    seen: set[type] = set()
    while True:
        kinds = {type(leaf) for leaf in pytree.tree_leaves(tree)} - seen
        new = {kind for kind in kinds if dataclasses.is_dataclass(kind) or kind.__name__ == "DynamicCache"}
        if not new:
            return
        seen |= new
        for kind in new:
            # What cannot be registered stays a leaf, and torch.export names it.
            with contextlib.suppress(ValueError, TypeError, AssertionError, ImportError):
                _register(kind)


def _register(kind: type) -> None:
    if dataclasses.is_dataclass(kind):
        torch.export.register_dataclass(kind)
    elif kind.__module__.startswith("transformers."):
        from transformers.integrations.executorch import register_dynamic_cache_export_support

        register_dynamic_cache_export_support()


class Watch:
    """Around a run of the model: knows the containers that it returns, and what it does beside its outputs.

    1. When the model returns, its output's containers are registered, before torch looks into them.
    2. Attributes that forward() sets are noticed, since a graph keeps no Python state. The old ones are put back, with
       the elements that they had, and new ones, which hold tensors without data, are removed.
    3. So are draws from Python's and NumPy's random numbers.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._before = {
            name: {attribute: (value, _length(value)) for attribute, value in vars(each).items()}
            for name, each in module.named_modules()
        }
        self._tables = [
            (table, set(table))
            for each in module.modules()
            for table in (vars(each), each._parameters, each._buffers, each._modules)
        ]
        self._elements = [
            (value, copy.copy(value))
            for each in module.modules()
            for attribute, value in vars(each).items()
            if isinstance(value, list | dict | set) and attribute not in _OWN_ATTRIBUTES
        ]
        self._changed: dict[str, None] = {}
        self._random: Any = None
        self._drew = False

    def __enter__(self) -> Watch:
        self._random = _random_state()
        self._hook = self._module.register_forward_hook(self._returned)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._hook.remove()
        self._drew = _random_state() != self._random
        for table, names in self._tables:
            for name in set(table) - names:
                del table[name]
        for name, each in self._module.named_modules():
            for attribute, (value, length) in self._before.get(name, {}).items():
                if length is None and attribute not in _OWN_ATTRIBUTES:
                    vars(each)[attribute] = value
        for container, elements in self._elements:
            if len(container) != len(elements):
                container.clear()
                container.extend(elements) if isinstance(container, list) else container.update(elements)

    def notes(self) -> Iterator[str]:
        """What the capture froze without a word."""
        if self._changed:
            names = ", ".join(f"self.{name}" for name in self._changed)
            yield (
                f"forward() sets {names}, and a graph keeps no Python state: each run sees the value from before the "
                "capture (for state that lasts use register_buffer, or an input and an output)"
            )
        if self._drew:
            yield (
                "the model draws from Python's or NumPy's random numbers, which are frozen in the graph as drawn; "
                "torch.rand draws anew at each run"
            )

    def _returned(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        register_containers(output)
        for name, each in self._module.named_modules():
            before = self._before.get(name, {})
            for attribute, value in vars(each).items():
                if attribute in _OWN_ATTRIBUTES or attribute in _FOLLOWING_PARAMETERS:
                    continue
                old, length = before.get(attribute, (_ABSENT, None))
                if not _same(old, value) or length != _length(value):
                    self._changed[f"{name}.{attribute}" if name else attribute] = None


_ABSENT = object()
_OWN_ATTRIBUTES = frozenset(vars(torch.nn.Module()))
# A recurrent layer keeps its parameters in lists too, which follow when torch.export puts others in their place.
_FOLLOWING_PARAMETERS = frozenset({"_flat_weights", "_flat_weight_refs"})


def _same(before: Any, after: Any) -> bool:
    return before is after or (type(before) is type(after) and isinstance(after, _PLAIN) and before == after)


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, list | dict | set) else None


_PLAIN = (bool, int, float, complex, str, bytes)


def _random_state() -> tuple[Any, ...]:
    state: Any = numpy.random.get_state()
    return random.getstate(), state[1].tobytes(), *state[2:]


@contextlib.contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Within this context, a model is in evaluation mode, and afterwards all its parts are as they were."""
    training = [each for each in module.modules() if each.training]
    module.eval()
    try:
        yield
    finally:
        for each in training:
            each.training = True


def frozen_inputs(program: ExportedProgram, leaves: list[Any]) -> Iterator[str]:
    """Says which numbers among the inputs became part of the graph."""
    inputs = [each.arg for each in program.graph_signature.input_specs if each.kind == InputKind.USER_INPUT]
    frozen = [
        f"{arg.name} = {leaf!r}"
        for arg, leaf in zip(inputs, leaves, strict=True)
        if isinstance(arg, ConstantArgument) and type(leaf) in (int, float, complex)
    ]
    if frozen:
        yield f"inputs that are Python numbers are fixed in the graph ({', '.join(frozen)}); a tensor stays an input"


def training_notes(module: torch.nn.Module, program: ExportedProgram) -> Iterator[str]:
    """Says which operators were captured as they act in training."""
    if not any(each.training for each in module.modules()):
        return
    found: dict[str, None] = {}
    for node in program.graph.nodes:
        name = (
            (torch_operators.operator_name(node.target) or "").partition(".")[0] if node.op == "call_function" else ""
        )
        at = _TRAINING_FLAGS.get(name)
        if at is not None and len(node.args) > at and node.args[at] is True:
            found[name] = None
    if found:
        yield (
            f"the model is in training mode, and {', '.join(found)} act as in training; call model.eval() first for "
            "inference"
        )
