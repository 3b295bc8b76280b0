"""Keywords and inputs of torch.onnx.export that opbridge.export has in another form.

1. `dynamic_axes`, which goes by the graph's input names, becomes `dynamic_shapes`.
2. Keywords for what opbridge does in any case, or for internals of torch's exporter, are accepted and have no effect.
3. Values of these for what opbridge does not do are refused; the error says what to do instead.
4. A dict at the end of `args` whose keys are parameters of the model holds keyword inputs.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from opbridge.errors import UsageError

__all__ = ["check_legacy", "dynamic_shapes_of", "split_inputs"]

_NO_EFFECT = frozenset(
    {
        "artifacts_dir",
        "autograd_inlining",
        "do_constant_folding",
        "dump_exported_program",
        "dynamo",
        "enable_onnx_checker",
        "example_outputs",
        "export_modules_as_functions",
        "fallback",
        "optimize",
        "profile",
        "report",
        "strip_doc_string",
        "use_external_data_format",
        "verbose",
    }
)

_REFUSED = {
    "export_params": (False, "weights are always part of the model; leave it out"),
    "keep_initializers_as_inputs": (True, "weights are never inputs of the graph; leave it out"),
}


def check_legacy(keywords: Mapping[str, Any], module: Any) -> None:
    """Refuses values of torch.onnx.export's keywords that opbridge does not support.

    Raises:
        TypeError: A keyword that neither function has.
        UsageError: A value that opbridge does not support.
    """
    for name, value in keywords.items():
        if name in _REFUSED:
            refused, remedy = _REFUSED[name]
            if value is refused:
                raise UsageError(f"{name}={value!r} is not supported: {remedy}.")
        elif name == "training":
            mode = getattr(value, "name", str(value))
            if mode == "TRAINING" and not getattr(module, "training", False):
                raise UsageError(
                    "training=TrainingMode.TRAINING does not match the mode of the model. Call model.train() "
                    "first, and leave training= out."
                )
            if mode == "EVAL" and getattr(module, "training", False):
                raise UsageError(
                    "training=TrainingMode.EVAL does not match the mode of the model. Call model.eval() first, and "
                    "leave training= out."
                )
        elif name not in _NO_EFFECT:
            raise TypeError(f"export() got an unexpected keyword argument '{name}'")


def split_inputs(model: Any, args: Any, kwargs: Mapping[str, Any] | None) -> tuple[Any, Mapping[str, Any] | None]:
    """Positional and keyword inputs, where a dict at the end of the former may hold the latter.

    A dict is treated as keyword inputs where the model cannot be called with it by position, or where all of its keys
    are names of parameters that the inputs before it leave free.
    """
    if kwargs or not isinstance(args, tuple) or not args or not isinstance(args[-1], dict):
        return args, kwargs
    forward = getattr(model, "forward", model)
    try:
        signature = inspect.signature(forward)
    except (TypeError, ValueError):
        return args, kwargs
    *before, last = args
    if not all(isinstance(key, str) for key in last):
        return args, kwargs
    try:
        signature.bind(*before, **last)
    except TypeError:
        return args, kwargs
    named = {each.name for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD}
    if last and named.issuperset(last):
        return tuple(before), last
    try:
        signature.bind(*args)
    except TypeError:
        return tuple(before), last
    return args, kwargs


def dynamic_shapes_of(
    dynamic_axes: Mapping[str, Any],
    module: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    input_names: Sequence[str] | None,
) -> dict[str, Any]:
    """`dynamic_shapes` from the `dynamic_axes` of torch.onnx.export.

    Args:
        dynamic_axes: By the name of an input: a dict of dimensions and their names, or a list of dimensions. Entries
            for outputs are ignored, since the sizes of outputs follow from those of the inputs.
        module: The model, as a module.
        args: Positional example inputs.
        kwargs: Keyword example inputs.
        input_names: Names for the inputs; None: the names of the model's parameters.

    Raises:
        UsageError: Axes of another form.
    """
    import torch
    from torch.utils import _pytree as pytree

    from opbridge.model_support import caches

    try:
        given = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    except TypeError:
        return {}  # the capture reports what does not fit
    paths, _ = pytree.tree_flatten_with_path(dict(given))
    tensors = [path for path, leaf in paths if isinstance(leaf, torch.Tensor)]
    names = list(input_names or [])
    chosen = {
        path: names[position] if position < len(names) else _default_name(path) for position, path in enumerate(tensors)
    }

    def shape(path: Any, leaf: Any) -> Any:
        axes = dynamic_axes.get(chosen.get(path, ""))
        return None if axes is None else _by_dimension(chosen[path], axes)

    return {
        name: [shape(path, leaf) for path, leaf in paths if path[0].key == name]
        if caches.is_cache(value)
        else pytree.tree_map_with_path(shape, {name: value})[name]
        for name, value in given.items()
    }


def _default_name(path: Any) -> str:
    """The name of an input that the user gives none: the parameter, or that of a tensor of a cache."""
    from opbridge.model_support import caches

    part = caches.part_of(path)
    return str(path[0].key) if part is None else part.name(caches.prefix_of(path, str(path[0].key)), "past")


def _by_dimension(name: str, axes: Any) -> dict[int, str]:
    if isinstance(axes, Mapping) and all(isinstance(key, int) for key in axes):
        return {key: str(value) for key, value in axes.items()}
    if isinstance(axes, (list, tuple)) and all(isinstance(each, int) for each in axes):
        return {each: f"{name}_dim_{each}" for each in axes}
    raise UsageError(
        f"dynamic_axes has {axes!r} for {name}; expected a dict of dimensions and their names, {{0: 'batch'}}, or "
        "a list of dimensions."
    )
