"""A whole export by torch.onnx's TorchScript exporter, with symbolic functions chosen by the caller.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.onnx._internal.torchscript_exporter import registration
from torch.onnx._internal.torchscript_exporter._globals import GLOBALS

from opbridge.base.locks import process_state
from opbridge.base.torch_private.torchscript_registry import load_builtin_symbolics

__all__ = [
    "TracedGraph",
    "exporting_for",
    "input_name",
    "newest_opset",
    "traced_call_graph",
    "traced_graph",
    "unsupported_error",
]


def newest_opset() -> int:
    """The newest opset that the TorchScript exporter builds for."""
    from torch.onnx import _constants

    return int(_constants.ONNX_TORCHSCRIPT_EXPORTER_MAX_OPSET)


@contextlib.contextmanager
def exporting_for(opset: int) -> Iterator[None]:
    """Within this context, torch's globals say that an export for this opset is in progress."""
    with process_state:
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


def traced_call_graph(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> Any:
    """TorchScript's graph of a function."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the trace, which is inspected and never run
        return torch.jit.trace(function, inputs, check_trace=False).graph


def unsupported_error(text: str) -> RuntimeError:
    """The error that the exporter expects of a symbolic function that cannot do what is asked."""
    from torch.onnx import errors

    return errors.OnnxExporterError(text)


class _Registry(registration.SymbolicRegistry):
    """torch's registry for one export, in which `find` chooses the symbolic functions.

    It shares everything else with the registry itself, so that what others register in the meantime is kept.

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
        elif not name.startswith("::"):  # the exporter's own entry for a torch.autograd.Function
            super().register(name, opset, func, custom)

    def get_function_group(self, name: str) -> Any:
        # Operators of ONNX itself are left to the exporter.
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
    """Traces a module and converts the trace, with symbolic functions that the caller chooses.

    Operators whose function raises a RuntimeError stay in the graph as they are. Constants are not folded, so that
    weights keep their values. All global state is restored afterwards.

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
    with exporting_for(opset), torch.no_grad():
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
