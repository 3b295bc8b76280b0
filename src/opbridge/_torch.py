"""Everything that opbridge takes from torch's insides.

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
def sizes_of_no_account(shape_env: Any) -> Iterator[None]:
    """While it lasts, new unknown sizes of a capture are not missed in its graph."""
    if shape_env is None:
        yield
        return
    with shape_env.ignore_fresh_unbacked_symbols():
        yield


def unknown_symbols(values: Sequence[Any]) -> set[Any]:
    """The unknown sizes that symbolic values are made of."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return {symbol for value in values for symbol in free_unbacked_symbols(value)}


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
    from torch._C import DispatchKey
    from torch._subclasses import fake_impls

    key = DispatchKey.CompositeImplicitAutograd
    kept: list[tuple[Any, Any]] = []
    added: list[Any] = []
    with process_state:  # the operators' tables are the process's
        for name, function in composed.items():
            op = operator_object(name)
            if op is not None:
                kept.append((op, op.py_kernels.get(key)))
                op.py_kernels[key] = function
                op._dispatch_cache.clear()
        for name, function in whole.items():
            op = operator_object(name)
            if op is not None and op not in fake_impls.op_implementations_dict:
                added.append(op)
                fake_impls.op_implementations_dict[op] = functools.partial(_fake, function)
        try:
            yield
        finally:
            for op, function in reversed(kept):
                if function is None:
                    op.py_kernels.pop(key, None)
                else:
                    op.py_kernels[key] = function
                op._dispatch_cache.clear()
            for op in added:
                fake_impls.op_implementations_dict.pop(op, None)


def _fake(function: Callable[..., Any], fake_mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
    with fake_mode:
        return function(*args, **kwargs)


def unknown_size(like: torch.Tensor) -> torch.SymInt:
    """A size that only the model's inputs decide, for a result of an operator on tensors without data.

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
def replacing_functions(functions: Mapping[Callable[..., Any], Callable[..., Any]]) -> Iterator[None]:
    """While it lasts, other functions are called in the place of some of torch's that are written in Python."""
    from torch.overrides import TorchFunctionMode

    class Replacing(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return functions.get(func, func)(*args, **(kwargs or {}))

    with Replacing():
        yield


@contextlib.contextmanager
def deciding_sizes(sizes: Sequence[Any]) -> Iterator[None]:
    """While it lasts, asking whether one of these sizes is 0 or 1 makes a condition of the capture."""
    from torch.fx.experimental import _config

    for size in sizes:
        if isinstance(size, torch.SymInt):  # what is marked so is never replaced by 1
            size.node.shape_env.size_like -= size.node.expr.free_symbols
    with _config.patch(backed_size_oblivious=False):
        yield


@contextlib.contextmanager
def general_sizes(enabled: bool) -> Iterator[None]:
    """While it lasts, a dynamic dimension of size 0 or 1 in the example stays dynamic, and 0 and 1 are not excluded.

    But where an operator decides by such a size how many dimensions its result has: squeeze asks whether it is 1, and
    the capture holds for the example's answer.
    """
    from torch._decomp import decomposition_table
    from torch.fx.experimental import _config

    if not enabled:
        yield
        return
    aten = torch.ops.aten
    given = {each: decomposition_table[each] for each in (aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)}

    def settled(decomposition: Callable[..., Any], x: torch.Tensor, *dims: Any) -> Any:
        with deciding_sizes(x.shape):
            return decomposition(x, *dims)

    try:
        # They are what squeeze does to a fake tensor.
        decomposition_table.update({each: functools.partial(settled, given[each]) for each in given})
        with _config.patch(backed_size_oblivious=True):
            yield
    finally:
        decomposition_table.update(given)


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


def hint_kind(value: object) -> str | None:
    """AUTO, DYNAMIC or STATIC for `torch.export.Dim.AUTO` and its siblings, None for anything else."""
    return value.type.name if isinstance(value, type(torch.export.Dim.AUTO)) else None


def is_shapes_spec(value: object) -> bool:
    """Whether this is a ShapesSpec or ParamsSpec, a form of dynamic shapes that torch 2.15 takes."""
    return type(value).__module__ == "torch.fx.experimental.dynamic_spec"


def takes_shapes_specs() -> bool:
    """Whether this torch.export takes them; torch 2.13 has the classes, for torch.compile only."""
    import torch.export._trace as trace

    return hasattr(trace, "ShapesSpec")


def map_shapes(
    function: Callable[[str, Any, Any], Any], arguments: Mapping[str, Any], shapes: Mapping[str, Any]
) -> dict[str, Any]:
    """Walk the arguments and their dynamic shapes together.

    Args:
        function: Called with the place of a leaf (`x`, `batch['ids'][0]`), the leaf, and what `shapes` says of it.
        arguments: By parameter name, as `inspect.Signature.bind` gives them.
        shapes: In the same structure, down to the leaves.

    Raises:
        ValueError: The two structures differ.
    """
    from torch._dynamo.exc import UserError
    from torch.export.dynamic_shapes import _tree_map_with_path
    from torch.utils import _pytree

    def at(path: Any, leaf: Any, shape: Any) -> Any:
        # Inside a class that is registered with pytree the path begins anew, by numbers.
        named = bool(path) and isinstance(path[0], _pytree.MappingKey)
        place = f"{path[0].key}{_pytree.keystr(path[1:])}" if named else f"input{_pytree.keystr(path)}"
        return function(place, leaf, shape)

    try:
        return _tree_map_with_path(at, dict(arguments), dict(shapes), tree_name="inputs")
    except UserError as error:
        raise ValueError(str(error)) from error


def settled_size(size: Any) -> Any:
    """A size as an int where the model has fixed its symbol."""
    known = size.node.maybe_as_int() if isinstance(size, torch.SymInt) else None
    return size if known is None else known


def symbols(size: object) -> tuple[str, ...]:
    """The symbols in a SymInt, sorted by name; none for a plain int."""
    return tuple(sorted(map(str, size.node.expr.free_symbols))) if isinstance(size, torch.SymInt) else ()


def shape_sources(program: torch.export.ExportedProgram) -> dict[str, str]:
    """For each symbol of a capture, the input size it first stood for, as a person would write it: `x.shape[0]`."""
    return _sources_in(_shape_env(program))


def place_of_size(size: object) -> str | None:
    """The input size that a SymInt stands for by itself, as in `shape_sources`; None for any other."""
    if not isinstance(size, torch.SymInt) or not size.node.expr.is_symbol:
        return None
    return _sources_in(size.node.shape_env).get(str(size.node.expr))


def _sources_in(env: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for symbol, sources in env.var_to_sources.items() if env is not None else ():
        if sources:
            name = sources[0].name
            found[str(symbol)] = _readable_source(name if isinstance(name, str) else name())
    return found


def shape_guards(program: torch.export.ExportedProgram) -> list[tuple[str, tuple[str, ...], str]]:
    """The conditions on sizes under which a capture holds.

    Returns:
        For each one a Python expression over symbols (`(s77 % 2) == 0`), its symbols, and the stack of the line that
        made it (empty outside `ascribe_guards`).
    """
    from torch.utils._sympy.printers import PythonPrinter

    env = _shape_env(program)
    if env is None:
        return []
    printer = PythonPrinter()
    found = []
    for guard in env.guards:
        # In terms of the symbols that are left; one that settled a symbol is true by now, and stays as it was made.
        expression = env.replace(guard.expr)
        expression = expression if expression.free_symbols else guard.expr
        symbols = tuple(sorted(map(str, expression.free_symbols)))
        found.append((printer.doprint(expression), symbols, guard.sloc.maybe_user_loc or ""))
    return found


def narrow_range(program: torch.export.ExportedProgram, symbol: str, low: int | None, high: int | None) -> None:
    """Takes sizes out of the range of a symbol."""
    from torch.utils._sympy.value_ranges import ValueRanges

    ranges = program.range_constraints
    for key, found in list(ranges.items()):
        if str(key) == symbol:
            ranges[key] = ValueRanges(
                found.lower if low is None else max(found.lower, low),
                found.upper if high is None else min(found.upper, high),
            )


@contextlib.contextmanager
def ascribe_guards(stack: Callable[[], str]) -> Iterator[None]:
    """While it lasts, every condition on sizes keeps `stack()`, called where it was made; see `shape_guards`."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    original = ShapeEnv._get_sloc

    def located(self: Any, *args: Any, **kwargs: Any) -> Any:
        return dataclasses.replace(original(self, *args, **kwargs), maybe_user_loc=stack())

    ShapeEnv._get_sloc = located
    try:
        yield
    finally:
        ShapeEnv._get_sloc = original


def _shape_env(program: torch.export.ExportedProgram) -> Any:
    for node in program.graph.nodes:
        if node.op != "placeholder":
            return None
        env = getattr(getattr(node.meta.get("val"), "fake_mode", None), "shape_env", None)
        if env is not None:
            return env
    return None


def _readable_source(name: str) -> str:
    """`L['x'].size()[0]` as `x.shape[0]`."""
    head, _, rest = name.removeprefix("L['").partition("']")
    return (head + rest).replace(".size()[", ".shape[")


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
