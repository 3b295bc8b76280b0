"""Everything that opbridge takes from the insides of torch.onnx's TorchScript exporter.

Checked on torch 2.13.0 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.onnx._internal.torchscript_exporter import jit_utils, registration
from torch.onnx._internal.torchscript_exporter._globals import GLOBALS

from opbridge.base.locks import process_state

__all__ = [
    "GraphContext",
    "begin_inference",
    "building_for",
    "fresh_context",
    "registered_by_users",
    "registry_lock",
    "scalar_type_code",
    "set_tensor_type",
    "traced_graph",
]

registry_lock = process_state
"""Held while torch's registry of symbolic functions, or the exporter's globals, are other than they were."""


@dataclasses.dataclass
class GraphContext(jit_utils.GraphContext):
    """The `g` that symbolic functions are given.

    Attributes:
        functions: The onnxscript functions that were called through it, by domain and name. torch's own context puts
            them into the process's registry instead, where they stay.
        check: Called with name, opset, number of inputs and kinds of attributes of each of ONNX's own operators, before
            it is built.
    """

    functions: dict[tuple[str, str], Any] = dataclasses.field(default_factory=dict)
    check: Callable[[str, int, int, dict[str, str]], object] | None = None

    def op(self, opname: str, *raw_args: Any, outputs: int = 1, **kwargs: Any) -> Any:
        """A node, as torch's context builds it; one of ONNX's own operators is checked before."""
        domain, _, name = opname.rpartition("::")
        for each in raw_args:
            if each is not None and not isinstance(each, (torch._C.Value, torch.Tensor)):
                raise TypeError(
                    f"it gave {name} {each!r} as an input, and inputs are values of the graph; write "
                    f"g.op('Constant', value_t=torch.tensor({each!r}))"
                )
        if self.check is not None and domain in ("", "onnx"):
            self.check(name, self.opset, len(raw_args), _kinds(kwargs))
        return super().op(opname, *raw_args, outputs=outputs, **kwargs)

    def onnxscript_op(self, onnx_fn: Any, *raw_args: Any, outputs: int = 1, **kwargs: Any) -> Any:
        """A call of an onnxscript function, as torch's context builds it."""
        domain, name = onnx_fn.opset.domain, onnx_fn.name
        self.functions[domain, name] = onnx_fn
        return self.op(f"{domain}::{name}", *raw_args, outputs=outputs, **kwargs)


def _kinds(attributes: Mapping[str, Any]) -> dict[str, str]:
    """The kinds of attributes as `g.op` takes them, `axis_i=1`: a letter, and an s behind it for a list."""
    kinds = {}
    for key, value in attributes.items():
        found = jit_utils._ATTR_PATTERN.match(key)
        if found is not None and value is not None:
            is_list = isinstance(value, Iterable) and not isinstance(value, (str, bytes, torch.Tensor))
            kinds[found[1]] = found[2] + "s" * is_list
    return kinds


def fresh_context(opset: int, check: Callable[..., object] | None = None) -> GraphContext:
    """A context over an empty graph; `check` is the context's."""
    graph = torch._C.Graph()
    return GraphContext(
        graph=graph,
        block=graph.block(),
        opset=opset,
        original_node=None,
        params_dict={},
        env={},
        values_in_env=set(),
        check=check,
    )


@contextlib.contextmanager
def building_for(opset: int) -> Iterator[None]:
    """While it lasts, symbolic functions see this opset in torch's globals, and an export in progress."""
    with registry_lock:
        names = ("_export_onnx_opset_version", "_in_onnx_export")
        kept = {name: getattr(GLOBALS, name) for name in names}
        # Not through the property, which refuses opsets that torch's own exporter does not do.
        GLOBALS._export_onnx_opset_version = opset
        GLOBALS._in_onnx_export = True
        try:
            yield
        finally:
            for name, value in kept.items():
                setattr(GLOBALS, name, value)


def graph_of_call(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> Any:
    """TorchScript's graph of a function."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the trace, which is looked at and not run
        return torch.jit.trace(function, inputs, check_trace=False).graph


def registered_by_users() -> Iterator[tuple[str, int, Callable[..., Any]]]:
    """What `torch.onnx.register_custom_op_symbolic` was given: name, opset and function."""
    for name, group in registration.registry._registry.items():
        if name.startswith("::") and name != "::prim_PythonOp":
            continue  # the exporter's own note of a torch.autograd.Function, which it leaves behind
        for opset, function in group._functions._overrides.items():
            if not any(function is each for each in _handed_over.get((name, opset), ())):
                yield name, opset, function


def scalar_type_code(dtype: torch.dtype) -> int:
    """torch's own number of a dtype, in which TorchScript passes dtypes."""
    return int(torch.onnx.JitScalarType.from_dtype(dtype))


def begin_inference(opset: int) -> None:
    """Makes torch's shape inference, which `g.op` runs, forget what it knows of other graphs.

    It keeps shapes by the names of values, and every graph of ours has the same ones.
    """
    torch._C._jit_pass_onnx_graph_shape_type_inference(torch._C.Graph(), {}, opset)


def set_tensor_type(value: Any, dtype: torch.dtype, sizes: Sequence[int | None]) -> None:
    """Gives a graph's value a dtype and sizes, None for those that are not known."""
    # Memory that is never touched costs nothing; a tensor without any would not be complete, with strides and device.
    value.inferTypeFrom(torch.empty([1 if size is None else size for size in sizes], dtype=dtype))
    if None in sizes:
        value.setType(value.type().with_sizes(list(sizes)))


# The way back: nodes in a graph of the exporter's


def op_with_blocks(
    g: Any, kind: str, inputs: Sequence[Any], outputs: int, blocks: int, attributes: dict[str, Any]
) -> tuple[Any, Sequence[Any]]:
    """A node with blocks: its outputs, and a context for each block."""
    made, contexts, _ = jit_utils.add_op_with_blocks(g, kind, *inputs, outputs=outputs, n_blocks=blocks, **attributes)
    return made, contexts


def block_input(block: Any) -> Any:
    """A new input of a block."""
    return block.addInputToBlock()


def block_output(block: Any, value: Any) -> None:
    """A further output of a block."""
    block.registerOutput(value)


def absent_input(g: Any) -> Any:
    """What the exporter takes for an optional input that is left out."""
    value = g.op("prim::Constant")
    value.setType(torch._C.OptionalType.ofTensor())
    return value


def tensor_list(g: Any, values: Sequence[Any]) -> Any:
    """A list of tensors as one value."""
    made = g.op("prim::ListConstruct", *values)
    made.setType(torch._C.ListType.ofTensors())
    return made


def set_dtype(value: Any, dtype: torch.dtype) -> None:
    """Gives a graph's value a dtype where inference found none."""
    kind = value.type()
    if kind.kind() == "TensorType" and kind.dtype() is None:
        value.setType(kind.with_dtype(dtype))


def unsupported(text: str) -> RuntimeError:
    """The error that the exporter expects of a symbolic function that cannot do what is asked."""
    from torch.onnx import errors

    return errors.OnnxExporterError(text)


# torch's registry of symbolic functions


def load_builtin_symbolics() -> None:
    """Fills torch's registry with torch's own symbolic functions, as its exporter does before each export."""
    from torch.onnx._internal.torchscript_exporter import utils

    utils._trigger_symbolic_function_registration()


def newest_opset() -> int:
    """The newest opset that the TorchScript exporter builds for."""
    from torch.onnx import _constants

    return int(_constants.ONNX_TORCHSCRIPT_EXPORTER_MAX_OPSET)


def builtin_symbolic(name: str, opset: int) -> Callable[..., Any] | None:
    """torch's own symbolic function for an operator."""
    group = registration.registry._registry.get(name)
    if group is None:
        return None
    versions = [version for version in group._functions._base if version <= opset]
    return group._functions._base[max(versions)] if versions else None


def user_symbolic(name: str, opset: int) -> Callable[..., Any] | None:
    """What a user registered with torch for an operator."""
    group = registration.registry._registry.get(name)
    if group is None:
        return None
    ours = {(key, version): functions for (key, version), functions in _handed_over.items() if key == name}
    versions = [
        version
        for version, function in group._functions._overrides.items()
        if version <= opset and not any(function is each for each in ours.get((name, version), ()))
    ]
    return group._functions._overrides[max(versions)] if versions else None


# For each name and opset the functions of ours that are registered, the one in force last.
_handed_over: dict[tuple[str, int], list[Callable[..., Any]]] = {}


def hand_over(functions: dict[str, Callable[..., Any]], opsets: Sequence[int]) -> list[tuple[str, int, Any]]:
    """Registers symbolic functions of ours with torch, except where a user's would be hidden.

    Returns:
        What was registered, for `take_back`.
    """
    done: list[tuple[str, int, Any]] = []
    with registry_lock:
        try:
            for name, function in functions.items():
                for opset in opsets:
                    if user_symbolic(name, opset) is None:
                        _handed_over.setdefault((name, opset), []).append(function)
                        done.append((name, opset, function))
                        registration.registry.register(name, opset, function, custom=True)
        except BaseException:
            take_back(done)
            raise
    return done


def take_back(registered: Sequence[tuple[str, int, Any]]) -> None:
    """Undoes `hand_over`; what others have registered or removed meanwhile stays so."""
    with registry_lock:
        registry = registration.registry._registry
        for name, opset, function in registered:
            ours = _handed_over.get((name, opset), [])
            if not any(function is each for each in ours):
                continue
            _handed_over[name, opset] = left = [each for each in ours if each is not function]
            group = registry.get(name)
            functions = group._functions if group is not None else None
            if functions is not None and functions._overrides.get(opset) is function:
                if left:
                    functions.override(opset, left[-1])
                else:
                    functions.remove_override(opset)
            if not left:
                del _handed_over[name, opset]
            if functions is not None and not functions:
                del registry[name]


# A whole export


class _Registry(registration.SymbolicRegistry):
    """torch's registry as an export sees it in which `find` chooses the functions.

    Everything else is the registry's own, so that what others register meanwhile is registered.

    Attributes:
        functions: The onnxscript functions that were called through `g.onnxscript_op`, which torch's context would
            leave in the registry.
    """

    def __init__(self, real: Any, find: Callable[[str, int], Callable[..., Any] | None]) -> None:
        self._registry = real._registry
        self._find = find
        self.functions: dict[tuple[str, str], Any] = {}

    def register(self, name: str, opset: int, func: Callable[..., Any], custom: bool = False) -> None:
        if hasattr(func, "to_function_proto"):
            domain, _, function = name.partition("::")
            self.functions[domain, function] = func
        elif not name.startswith("::"):  # the exporter's own note of a torch.autograd.Function
            super().register(name, opset, func, custom)

    def get_function_group(self, name: str) -> Any:
        # What is ONNX already is the exporter's own affair.
        return super().get_function_group(name) if name.startswith("onnx::") else _Group(name, self._find)


class _Group(registration._SymbolicFunctionGroup):
    def __init__(self, name: str, find: Callable[[str, int], Callable[..., Any] | None]) -> None:
        super().__init__(name)
        self._find = find

    def get(self, opset: int) -> Callable[..., Any] | None:
        return self._find(self._name, opset)


@dataclasses.dataclass
class TracedGraph:
    """What the TorchScript exporter made of a model.

    Attributes:
        graph: A `torch._C.Graph` of ONNX operators, and of those that it has no symbolic function for as they are.
        weights: The values of those inputs of the graph that are none of the model's, by name; they share memory with
            the model's weights. Inputs and weights without a use are left out.
        functions: The onnxscript functions that it calls, by domain and name.
    """

    graph: Any
    weights: dict[str, torch.Tensor]
    functions: dict[tuple[str, str], Any]


def input_name(number: int) -> str:
    """What an input of the model is called in a `TracedGraph`."""
    return f"input_{number}"


def traced_graph(
    module: torch.nn.Module,
    inputs: tuple[torch.Tensor, ...],
    axes: dict[int, dict[int, str]],
    opset: int,
    find: Callable[[str, int], Callable[..., Any] | None],
    python_operator: Callable[[str, Callable[..., Any]], Callable[..., Any]],
) -> TracedGraph:
    """Traces a module and converts the trace, with symbolic functions of one's own choice.

    Operators whose function raises a RuntimeError stay in the graph as they are. Constants are not folded, so that
    weights stay what they are. Afterwards everything global is as it was.

    Args:
        module: Takes and returns tensors.
        inputs: The example.
        axes: Names of the dimensions that may vary, by input and dimension.
        opset: The opset.
        find: The symbolic function for an operator's base name at the opset.
        python_operator: Called with the name and the `symbolic` of each torch.autograd.Function; returns what to call.
    """
    import torch._C._onnx as kinds
    from torch.onnx._internal.torchscript_exporter import utils

    names = [input_name(number) for number in range(len(inputs))]
    dynamic = {names[index]: dict(dims) for index, dims in axes.items() if dims}
    globals_ = (
        "_training_mode",
        "export_training",
        "operator_export_type",
        "onnx_shape_inference",
        "_autograd_inlining",
    )
    with building_for(opset), torch.no_grad():
        load_builtin_symbolics()
        kept = {name: getattr(GLOBALS, name) for name in globals_}
        real, run_method = registration.registry, utils._run_symbolic_method

        def method(g: Any, name: str, function: Callable[..., Any], args: Any) -> Any:
            return run_method(g, name, python_operator(name, function), args)

        registration.registry = seen = _Registry(real, find)
        utils._run_symbolic_method = method
        GLOBALS._training_mode = kinds.TrainingMode.PRESERVE
        GLOBALS.export_training = module.training
        GLOBALS.operator_export_type = kinds.OperatorExportTypes.ONNX_FALLTHROUGH
        GLOBALS.onnx_shape_inference = GLOBALS._autograd_inlining = True
        try:
            utils._setup_trace_module_map(module, False)
            graph, weights, _ = utils._model_to_graph(
                module,
                inputs,
                input_names=names,
                operator_export_type=kinds.OperatorExportTypes.ONNX_FALLTHROUGH,
                do_constant_folding=False,
                training=kinds.TrainingMode.PRESERVE,
                dynamic_axes=dynamic,
            )
        finally:
            utils._reset_trace_module_map()
            registration.registry = real
            utils._run_symbolic_method = run_method
            for name, value in kept.items():
                setattr(GLOBALS, name, value)
    return TracedGraph(graph, weights, seen.functions)
