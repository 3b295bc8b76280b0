"""Keywords and inputs of torch.onnx.export that opbridge.export has in another form.

1. Keywords for what opbridge does in any case, or for internals of torch's exporter, are accepted and have no effect.
2. Values of these for what opbridge does not do are refused; the error says what to do instead.
3. A dict at the end of `args` whose keys are parameters of the model holds keyword inputs.

`dynamic_axes`, which goes by the graph's input names, is a form of dynamic shapes: `opbridge.capture.dynamic_axes`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from opbridge.errors import UsageError

__all__ = ["check_legacy", "split_inputs"]

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
