"""What torch's capture is given, what it says on the way, and what is in the program that it gives.

Checked on torch 2.13.0 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import logging
import os
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

__all__ = [
    "in_onnx_export",
    "keep_model_frames",
    "mute_export",
    "original_module",
    "output_paths",
    "storage_key",
    "trace_under",
    "without_writes",
]


_NOISY_LOGGERS = (
    "torch.export._trace",
    "torch._export.non_strict_utils",
    "torch._subclasses.fake_tensor",
    "torch.export.dynamic_shapes",
    "torch.fx.experimental.symbolic_shapes",
    "torch._dynamo.eval_frame",
)


def trace_under(
    fake_mode: Any, function: Callable[..., Any], inputs: Sequence[Any], table: dict[Any, Callable[..., Any]]
) -> torch.fx.GraphModule:
    """What a function does to fake tensors, as a graph of operators decomposed by `table`."""
    from torch.fx.experimental.proxy_tensor import make_fx

    context: Any = fake_mode if fake_mode is not None else contextlib.nullcontext()
    with context, torch.no_grad():
        return make_fx(function, decomposition_table=table, tracing_mode="real", _allow_non_fake_inputs=True)(*inputs)


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
