"""Private interfaces of torch.export and torch.fx: tracing, stack traces, log output, and parts of the result.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from opbridge.base.attributes import replacing

__all__ = [
    "asks_for_gradient",
    "in_onnx_export",
    "keep_model_frames",
    "lazy_graph_module",
    "mute_export",
    "mute_logs",
    "named_children",
    "number_keys",
    "original_module",
    "output_name",
    "output_paths",
    "register_container",
    "replaced_containers",
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
    """Traces a function on fake tensors into a graph of operators, which are decomposed by `table`."""
    from torch.fx.experimental.proxy_tensor import make_fx

    context: Any = fake_mode if fake_mode is not None else contextlib.nullcontext()
    with context, torch.no_grad():
        return make_fx(function, decomposition_table=table, tracing_mode="real", _allow_non_fake_inputs=True)(*inputs)


def asks_for_gradient(error: BaseException) -> bool:
    """Whether torch refuses a gradient because nothing requires one, as while gradients are off."""
    return re.search(r"(does not|doesn't) require grad", str(error)) is not None


def storage_key(tensor: torch.Tensor) -> int:
    """A key that is equal for tensors that share memory, fake tensors included."""
    # A sparse tensor has several storages and none of its own.
    return tensor.untyped_storage()._cdata if tensor.layout == torch.strided else id(tensor)


def lazy_graph_module(attributes: dict[str, Any], graph: torch.fx.Graph) -> torch.fx.GraphModule:
    """A module of a graph whose Python code is generated when it is first called.

    Args:
        attributes: What the graph's get_attr nodes stand for, by their targets.
        graph: The graph.
    """
    from torch.fx._lazy_graph_module import _LazyGraphModule

    return _LazyGraphModule(attributes, graph)


def register_container(
    kind: type,
    flatten: Callable[[Any], tuple[list[Any], Any]],
    unflatten: Callable[[type, Any, Any], Any],
) -> None:
    """Registers a class as a container of pytree's.

    Args:
        kind: The class.
        flatten: Gives the items of an instance, and what tells instances of the same length apart: a list of keys, or
            the length.
        unflatten: Makes an instance of the class from items and the second result of `flatten`.

    Raises:
        ValueError: It is registered already.
    """
    from torch.utils import _pytree

    def with_keys(value: Any) -> tuple[list[Any], Any]:
        items, context = flatten(value)
        if isinstance(context, list):
            return [(_pytree.MappingKey(key), item) for key, item in zip(context, items, strict=True)], context
        return [(_pytree.SequenceKey(place), item) for place, item in enumerate(items)], context

    _pytree.register_pytree_node(
        kind,
        flatten,
        lambda items, context: unflatten(kind, items, context),
        serialized_type_name=f"{kind.__module__}.{kind.__qualname__}",
        flatten_with_keys_fn=with_keys,
    )


def number_keys() -> None:
    """Gives each class that was registered as a container without the keys of its items numbers for them."""
    from torch.utils import _pytree

    nodes = _pytree.SUPPORTED_NODES
    for kind, node in list(nodes.items()):
        if node.flatten_with_keys_fn is None:
            nodes[kind] = node._replace(flatten_with_keys_fn=_numbered(node.flatten_fn))


def _numbered(flatten: Callable[[Any], tuple[Any, Any]]) -> Callable[[Any], tuple[list[Any], Any]]:
    from torch.utils import _pytree

    def with_keys(value: Any) -> tuple[list[Any], Any]:
        items, context = flatten(value)
        return [(_pytree.SequenceKey(place), item) for place, item in enumerate(items)], context

    return with_keys


@contextlib.contextmanager
def replaced_containers(
    is_meant: Callable[[type], bool],
    flatten: Callable[[Any], Any],
    unflatten: Callable[[Any, Any], Any],
    flatten_with_keys: Callable[[Any], Any],
) -> Iterator[None]:
    """Within this context, classes that others registered as containers of pytree's have other functions.

    Args:
        is_meant: Tells the classes.
        flatten: As for `register_pytree_node`; a class that has it already stays as it is.
        unflatten: The same.
        flatten_with_keys: The same.
    """
    from torch.utils import _pytree

    nodes = _pytree.SUPPORTED_NODES
    kept = {kind: node for kind, node in nodes.items() if is_meant(kind) and node.flatten_fn is not flatten}
    for kind, node in kept.items():
        nodes[kind] = node._replace(flatten_fn=flatten, unflatten_fn=unflatten, flatten_with_keys_fn=flatten_with_keys)
    try:
        yield
    finally:
        nodes.update(kept)


def output_paths(structure: Any) -> list[str]:
    """A name for each leaf of a pytree structure, from its path: "logits", "hidden_states.0", "output"."""
    return [output_name(path) for path in _leaf_paths(structure)]


def output_name(path: Sequence[str]) -> str:
    """The name of an output, from the keys of the containers that it is in; an empty key adds nothing."""
    name = ".".join(key for key in path if key)
    return f"output_{name}" if name[:1].isdigit() else name or "output"


def named_children(spec: Any) -> list[tuple[str, Any]]:
    """The structures of the parts of a container, each with its key."""
    children = spec.children() if callable(getattr(spec, "children", None)) else spec.children_specs
    return list(zip(_child_names(spec.context, len(children)), children, strict=True))


def _leaf_paths(spec: Any) -> list[tuple[str, ...]]:
    if spec.is_leaf():
        return [()]
    return [(name, *path) for name, child in named_children(spec) for path in _leaf_paths(child)]


def _child_names(context: Any, count: int) -> list[str]:
    """The keys of a container. pytree's context is a list of them, or has such a list as its first item; that of a
    named tuple is its class."""
    context = getattr(context, "_fields", context) if isinstance(context, type) else context
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
    """Within this context, the stack traces of nodes hold all frames of the model's code, not only those of `forward`.

    Args:
        markers: Files of the caller of the model: the frames of the model are inside of their innermost frame.
    """
    from torch.fx.proxy import TracerBase

    folder = os.path.join(os.path.dirname(torch.__file__), "")

    def of_the_model(self: Any, summary: traceback.StackSummary) -> traceback.StackSummary:
        inner: list[traceback.FrameSummary] = []
        for frame in reversed(summary):
            if frame.filename in markers:
                break
            if not frame.filename.startswith(folder):
                inner.append(frame)
        return traceback.StackSummary.from_list(reversed(inner))

    with replacing((TracerBase, "_filter_traceback_frames", of_the_model)):
        yield


@contextlib.contextmanager
def mute_logs() -> Iterator[None]:
    """Within this context, torch does not log its warnings about what fails: opbridge's error holds what they say.

    Nothing is muted where TORCH_LOGS is set.
    """
    if "TORCH_LOGS" in os.environ:
        yield
        return
    loggers = [logger for logger in map(logging.getLogger, _NOISY_LOGGERS) if not logger.disabled]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in loggers:
            logger.disabled = False


@contextlib.contextmanager
def mute_export() -> Iterator[None]:
    """Within this context, torch.export does not print the partial graph when it fails, unless TORCH_LOGS is set.

    Entering it imports the module that prints, with AOTAutograd: it is meant for the call of torch.export alone.
    """
    import torch.export._trace as trace

    if "TORCH_LOGS" in os.environ or "print" in vars(trace):
        yield
        return
    vars(trace)["print"] = lambda *args, **kwargs: None  # it prints the graph through the builtin
    try:
        yield
    finally:
        vars(trace).pop("print", None)


@contextlib.contextmanager
def in_onnx_export(enabled: bool = True) -> Iterator[None]:
    """Within this context, `torch.onnx.is_in_onnx_export()` is true, which models use that export differently."""
    from torch.onnx._internal.exporter import _flags

    with replacing((_flags, "_is_onnx_exporting", _flags._is_onnx_exporting or enabled)):
        yield


def original_module(model: Any) -> Any:
    """The module inside of `torch.compile` or a data-parallel wrapper; any other model unchanged."""
    while isinstance(model, torch.nn.Module):
        if isinstance(model, torch._dynamo.eval_frame.OptimizedModule):
            model = model._orig_mod
        elif isinstance(model, torch.nn.DataParallel | torch.nn.parallel.DistributedDataParallel):
            model = model.module
        else:
            return model
    return model
