"""The two exporters, and torch's registry of symbolic functions around them."""

from __future__ import annotations

import contextlib
import importlib
import io
import warnings
from collections.abc import Iterator
from typing import Any

import onnx
import onnx_ir as ir
import torch
from cases import Case
from torch.onnx._internal.torchscript_exporter import registration

import opbridge

__all__ = ["export_with_opbridge", "export_with_torchscript", "registered", "torch_registry"]

# torch registers its own symbolic functions when they are first needed; afterwards its registry changes no more.
for _opset in range(7, 21):
    importlib.import_module(f"torch.onnx.symbolic_opset{_opset}")


def torch_registry() -> dict[str, tuple[dict[int, Any], ...]]:
    """A copy of all that torch's registry of symbolic functions holds."""
    return {
        name: (dict(functions._base), dict(functions._overrides), dict(functions._merged))
        for name, group in registration.registry._registry.items()
        for functions in [group._functions]
    }


def _restore(state: dict[str, tuple[dict[int, Any], ...]]) -> None:
    groups = registration.registry._registry
    for name in set(groups) - set(state):
        del groups[name]
    for name, parts in state.items():
        functions = groups[name]._functions
        functions._base, functions._overrides, functions._merged = (dict(part) for part in parts)


@contextlib.contextmanager
def registered(case: Case, opset: int) -> Iterator[None]:
    """With the case's symbolic functions in torch's registry, which is as before afterwards.

    They are registered for the very opset of the export: torch takes the newest one that the opset allows, and would
    take its own where that is newer.
    """
    before = torch_registry()
    try:
        for operator, function in case.registered.items():
            torch.onnx.register_custom_op_symbolic(operator, function, opset)
        yield
    finally:
        _restore(before)


def export_with_torchscript(case: Case, opset: int) -> ir.Model:
    """The TorchScript exporter's model, which holds what the symbolic functions built and nothing folded."""
    buffer = io.BytesIO()
    with registered(case, opset), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # What torch.onnx.export(dynamo=False) calls, with the export mode that it no longer passes on.
        torch.onnx.utils.export(
            case.model,
            case.args,
            buffer,
            operator_export_type=getattr(torch.onnx.OperatorExportTypes, case.mode or "ONNX"),
            opset_version=opset,
            do_constant_folding=False,
            keep_initializers_as_inputs=False,
            custom_opsets=dict(case.custom_opsets) or None,
            input_names=[f"input_{index}" for index in range(len(case.dynamic))] or None,
            dynamic_axes={f"input_{index}": dict(names) for index, names in enumerate(case.dynamic) if names},
        )
    return ir.from_proto(onnx.load_from_string(buffer.getvalue()))


def export_with_opbridge(case: Case, opset: int) -> opbridge.Program:
    """Ours, compared with eager PyTorch where ONNX Runtime can run it."""
    mode = {"operator_export_type": case.mode} if case.mode else {}
    with registered(case, opset):
        before = torch_registry()
        program = opbridge.export(
            case.model,
            case.args,
            opset_version=opset,
            custom_opsets=dict(case.custom_opsets) or None,
            verify=case.verify,
            # The module takes its inputs as *args.
            dynamic_shapes=(case.dynamic,) if case.dynamic else None,
            **mode,
        )
        assert torch_registry() == before
    return program
