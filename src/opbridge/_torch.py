"""What opbridge takes from torch's insides: operators and their schemas, and what a capture is given and gives.

Sizes that are symbols are in `_torch_sizes`, operators of other libraries in `_torch_library`, TorchScript's graphs in
`_torchscript`.

Checked on torch 2.13.0 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from opbridge._locks import process_state

_NOISY_LOGGERS = (
    "torch.export._trace",
    "torch._export.non_strict_utils",
    "torch._subclasses.fake_tensor",
    "torch.export.dynamic_shapes",
    "torch.fx.experimental.symbolic_shapes",
    "torch._dynamo.eval_frame",
)


def operator_name(target: Any) -> str | None:
    """The name of an fx node's target: "aten::add.Tensor", "_operator::mul", "torch::sym_max", "higher_order::cond".

    None for what is no operator, and for an overload packet, which is several.
    """
    if isinstance(target, torch._ops.OpOverload):
        return target.name()
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order::{target._name}"
    if isinstance(target, torch._ops.OpOverloadPacket) or not callable(target):
        return None
    module = getattr(target, "__module__", None)
    if module in ("_operator", "builtins", "math", "torch"):
        return f"{module}::{target.__name__}"
    return None


def operator_object(name: str) -> torch._ops.OpOverload | None:
    """The operator of a qualified name, or None where this torch does not have it."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")
    except (AttributeError, RuntimeError):
        return None


def has_operator(name: str) -> bool:
    """Whether there is an operator `namespace::name`, of any overload."""
    return bool(torch._C._jit_get_schemas_for_operator(name))


def overloads(name: str) -> dict[str, torch._ops.OpOverload]:
    """The operators that share a base name, by their full names; none where this torch has no such operator."""
    namespace, _, base = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return {}
    found = [getattr(packet, each) for each in packet.overloads()]
    return {each.name(): each for each in found}


def exporter_translations() -> list[Any]:
    """The translations that torch.onnx carries itself, beside onnxscript's."""
    from torch.onnx._internal.exporter._torchlib._torchlib_registry import get_torchlib_ops

    return list(get_torchlib_ops())


@functools.cache
def decomposition_table() -> dict[Any, Callable[..., Any]]:
    """torch's decompositions: those that torch.export uses, then every other one that it has."""
    table = dict(torch._decomp.decomposition_table)
    table.update(torch.export.default_decompositions().items())
    return {target: function for target, function in table.items() if isinstance(target, torch._ops.OpOverload)}


def trace_under(
    fake_mode: Any, function: Callable[..., Any], inputs: Sequence[Any], table: dict[Any, Callable[..., Any]]
) -> torch.fx.GraphModule:
    """What a function does to fake tensors, as a graph of operators decomposed by `table`."""
    from torch.fx.experimental.proxy_tensor import make_fx

    context: Any = fake_mode if fake_mode is not None else contextlib.nullcontext()
    with context, torch.no_grad():
        return make_fx(function, decomposition_table=table, tracing_mode="real", _allow_non_fake_inputs=True)(*inputs)


def computation_dtype(arguments: Sequence[Any]) -> torch.dtype | None:
    """The dtype that torch computes a pointwise operator of these tensors and numbers in; None where it cannot tell."""
    from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

    try:
        return elementwise_dtypes(*arguments, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)[1]
    except (RuntimeError, ValueError, TypeError):
        return None


def storage_key(tensor: torch.Tensor) -> int:
    """Equal for tensors that share memory; fake tensors too."""
    # A sparse tensor has several memories and none of its own.
    return tensor.untyped_storage()._cdata if tensor.layout == torch.strided else id(tensor)


def output_paths(program: Any) -> list[str]:
    """A name for each leaf of a program's output, from its place in it: "logits", "hidden_states.0", "output"."""
    paths = _leaf_paths(program.call_spec.out_spec)
    return [f"output_{path}" if path[:1].isdigit() else path or "output" for path in paths]


def _leaf_paths(spec: Any) -> list[str]:
    if spec.is_leaf():
        return [""]
    children = spec.children() if callable(getattr(spec, "children", None)) else spec.children_specs
    names = _child_names(spec.context, len(children))
    return [
        f"{name}.{path}" if path else name
        for name, child in zip(names, children, strict=True)
        for path in _leaf_paths(child)
    ]


def _child_names(context: Any, count: int) -> list[str]:
    """The keys of a container, which pytree keeps in its context: a list of them, or such a list as its first item."""
    for keys in (context, context[0] if isinstance(context, (list, tuple)) and context else None):
        if isinstance(keys, (list, tuple)) and len(keys) == count and all(isinstance(key, str) for key in keys):
            return [str(key) for key in keys]
    return [str(index) for index in range(count)]


def without_writes(program: Any) -> Any:
    """A program without in-place operators, views of what is written to, and autocast; nothing is decomposed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch 2.13 uses an old name of its own
        return program.run_decompositions({})


@contextlib.contextmanager
def keep_model_frames(*markers: str) -> Iterator[None]:
    """While it lasts, the stack traces of graph nodes hold all frames of the model's code, not only those of `forward`.

    Args:
        markers: The files whose innermost frame stands just outside of the model's.
    """
    from torch.fx.proxy import TracerBase

    folder = os.path.join(os.path.dirname(torch.__file__), "")
    kept = TracerBase._filter_traceback_frames

    def of_the_model(self: Any, summary: traceback.StackSummary) -> traceback.StackSummary:
        inner: list[traceback.FrameSummary] = []
        for frame in reversed(summary):
            if frame.filename in markers:
                break
            if not frame.filename.startswith(folder):
                inner.append(frame)
        return traceback.StackSummary.from_list(reversed(inner))

    TracerBase._filter_traceback_frames = of_the_model
    try:
        yield
    finally:
        TracerBase._filter_traceback_frames = kept


@contextlib.contextmanager
def mute_export() -> Iterator[None]:
    """Keep torch.export from printing the partial graph and its warnings when it fails: our error says it in a line.

    A person who sets TORCH_LOGS asked to see them.
    """
    if "TORCH_LOGS" in os.environ:
        yield
        return
    import torch.export._trace as trace

    loggers = [logger for logger in map(logging.getLogger, _NOISY_LOGGERS) if not logger.disabled]
    shadowed = "print" in vars(trace)
    if not shadowed:
        vars(trace)["print"] = lambda *args, **kwargs: None  # it prints the graph through the builtin
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in loggers:
            logger.disabled = False
        if not shadowed:
            vars(trace).pop("print", None)


@contextlib.contextmanager
def in_onnx_export(enabled: bool = True) -> Iterator[None]:
    """While it lasts, `torch.onnx.is_in_onnx_export()` is true, as models ask that want to be exported differently."""
    from torch.onnx._internal.exporter import _flags

    kept = _flags._is_onnx_exporting
    _flags._is_onnx_exporting = kept or enabled
    try:
        yield
    finally:
        _flags._is_onnx_exporting = kept


def without_modes() -> contextlib.AbstractContextManager[Any]:
    """While it lasts, tensors that are made have data, inside of a capture too."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


@contextlib.contextmanager
def watching_reads(told: Callable[[torch.Tensor], None]) -> Iterator[None]:
    """While it lasts, `told` gets every tensor whose values become Python numbers (`tolist`, `item`, `int`, `if`)."""
    from torch.overrides import TorchFunctionMode

    names = ("tolist", "item", "__int__", "__float__", "__bool__", "__index__")
    reads = {getattr(torch.Tensor, name) for name in names}

    class Watching(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in reads:
                told(args[0])
            return func(*args, **(kwargs or {}))

    with Watching():
        yield


@contextlib.contextmanager
def shape_functions(
    composed: Mapping[str, Callable[..., Any]], whole: Mapping[str, Callable[..., Any]]
) -> Iterator[None]:
    """While it lasts, operators on tensors without data have the shapes that these functions give.

    Args:
        composed: For operators that torch composes of others, by name.
        whole: For operators that have kernels of their own and no function of shapes.
    """
    from torch._subclasses import fake_impls

    added: list[Any] = []
    with process_state, contextlib.ExitStack() as stack:  # the operators' tables are the process's
        for name, function in composed.items():
            op = operator_object(name)
            if op is not None:
                stack.enter_context(in_place_of_parts(op, function))
        for name, function in whole.items():
            op = operator_object(name)
            if op is not None and op not in fake_impls.op_implementations_dict:
                added.append(op)
                fake_impls.op_implementations_dict[op] = functools.partial(_fake, function)
        try:
            yield
        finally:
            for op in added:
                fake_impls.op_implementations_dict.pop(op, None)


@contextlib.contextmanager
def in_place_of_parts(op: torch._ops.OpOverload, function: Callable[..., Any]) -> Iterator[None]:
    """While it lasts, a function is called in the place of what an operator is composed of.

    Args:
        op: An operator that is registered as composed of others.
        function: Takes the operator's arguments.
    """
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    kept = op.py_kernels.get(key)
    op.py_kernels[key] = function
    op._dispatch_cache.clear()
    try:
        yield
    finally:
        if kept is None:
            op.py_kernels.pop(key, None)
        else:
            op.py_kernels[key] = kept
        op._dispatch_cache.clear()


def _fake(function: Callable[..., Any], fake_mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
    with fake_mode:
        return function(*args, **kwargs)


@contextlib.contextmanager
def replacing_functions(functions: Mapping[Callable[..., Any], Callable[..., Any]]) -> Iterator[None]:
    """While it lasts, other functions are called in the place of some of torch's that are written in Python."""
    from torch.overrides import TorchFunctionMode

    class Replacing(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return functions.get(func, func)(*args, **(kwargs or {}))

    with Replacing():
        yield


def original_module(model: Any) -> Any:
    """What `torch.compile` or a data-parallel wrapper was put around; any other model as it is."""
    while isinstance(model, torch.nn.Module):
        if isinstance(model, torch._dynamo.eval_frame.OptimizedModule):
            model = model._orig_mod
        elif isinstance(model, torch.nn.DataParallel | torch.nn.parallel.DistributedDataParallel):
            model = model.module
        else:
            return model
    return model


def forget_operator(namespace: str, name: str) -> None:
    """Takes an operator that is no longer defined out of `torch.ops`, and out of the list of the names in there.

    torch goes through that list whenever it decomposes a graph, and stops at a name without an operator.
    """
    known = getattr(torch.ops, namespace)
    vars(known).pop(name, None)
    if name in known._dir:
        known._dir.remove(name)


def forget_dispatch(op: torch._ops.OpOverload) -> None:
    """Looks up an operator's kernels anew, as a call before the last of them was registered may have noted others."""
    op._dispatch_cache.clear()


def library_path() -> str:
    """libtorch, which is loaded."""
    names = {"darwin": "libtorch_cpu.dylib", "win32": "torch_cpu.dll"}
    return os.path.join(os.path.dirname(torch.__file__), "lib", names.get(sys.platform, "libtorch_cpu.so"))


@dataclasses.dataclass(frozen=True)
class Declared:
    """One argument or result of an operator's schema.

    Attributes:
        name: Its name; results mostly have none.
        type: As schemas write it, without what it aliases and without a list's length: "Tensor?", "SymInt[]", "Scalar".
        length: How many items a single number stands for where a list is declared with a length (`int[2] stride`).
        has_default: Whether it may be left out.
        default: What it is then.
    """

    name: str
    type: str
    length: int | None = None
    has_default: bool = False
    default: Any = None


def declared(target: torch._ops.OpOverload) -> tuple[list[Declared], list[Declared]]:
    """The arguments and the results of an operator, as its schema declares them."""
    schema = target._schema
    arguments = []
    for each in schema.arguments:
        type_ = _type_text(each.real_type)
        default = setting(type_, each.default_value)
        arguments.append(Declared(each.name, type_, each.N, each.has_default_value(), default))
    return arguments, [Declared(each.name, _type_text(each.real_type)) for each in schema.returns]


def setting(type_: str, value: Any) -> Any:
    """A dtype, layout or memory format that is given by its number, as in defaults; anything else as it is."""
    names = _SETTINGS.get(type_.rstrip("?"), ())
    return getattr(torch, names[value]) if type(value) is int and 0 <= value < len(names) else value


# By the numbers of torch's own enumerations (ScalarType, Layout, MemoryFormat), which only grow at their ends.
_SETTINGS = {
    "ScalarType": (
        *("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64"),
        *("complex128", "bool", "qint8", "quint8", "qint32", "bfloat16"),
    ),
    "Layout": ("strided", "sparse_coo", "sparse_csr", "_mkldnn"),
    "MemoryFormat": ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d"),
}


_TYPE_NAMES = {
    "BoolType": "bool",
    "DeviceObjType": "Device",
    "FloatType": "float",
    "GeneratorType": "Generator",
    "IntType": "int",
    "LayoutType": "Layout",
    "MemoryFormatType": "MemoryFormat",
    "NumberType": "Scalar",
    "ScalarTypeType": "ScalarType",
    "StringType": "str",
    "SymBoolType": "SymBool",
    "SymFloatType": "SymFloat",
    "SymIntType": "SymInt",
    "TensorType": "Tensor",
}


def _type_text(declared_type: Any) -> str:
    kind = declared_type.kind()
    if kind == "OptionalType":
        return f"{_type_text(declared_type.getElementType())}?"
    if kind == "ListType":
        return f"{_type_text(declared_type.getElementType())}[]"
    return _TYPE_NAMES.get(kind) or "".join(str(declared_type).split())
