"""`--dynamic`: the dimensions that are to be dynamic, as the command line says them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

from opbridge.base import specs
from opbridge.errors import UsageError

__all__ = ["dynamic_shapes"]

_ITEM = re.compile(r"(?:(?P<input>[^\d\W]\w*):)?(?P<axis>-?\d+)(?:=(?P<name>[^\d\W]\w*))?")
_FORMS = (
    "auto; batch (dimension 0 of every input); dimensions of every input, such as 0,2 or 0=batch,2=length; or a "
    "dimension of one input, such as x:0=batch"
)


def dynamic_shapes(given: Sequence[str], subject: specs.Subject) -> Any:
    """What `--dynamic` says, as the `dynamic_shapes` of `opbridge.export`.

    1. "auto" stays as it is.
    2. "batch" is dimension 0 of every tensor among the inputs, under this name.
    3. "2" or "2=length" is a dimension of every tensor that has it; "x:2" or "x:2=length" of those in the input x.

    Args:
        given: The values of the option.
        subject: The model and its inputs.

    Raises:
        UsageError: Another form, or an input or a dimension that there is not.
    """
    items = [item for text in given for item in text.replace(",", " ").split()]
    if items == ["auto"]:
        return "auto"
    import torch
    from torch.export import Dim
    from torch.utils import _pytree as pytree

    arguments = _arguments(subject)
    asked: list[tuple[str | None, int, Any]] = []
    for item in items:
        found = _ITEM.fullmatch("0=batch" if item == "batch" else item)
        if found is None:
            raise UsageError(f"Invalid value for --dynamic: '{item}'. Expected {_FORMS}.")
        if found["input"] is not None and found["input"] not in arguments:
            raise UsageError(
                f"Invalid value for --dynamic: '{item}'. The model has no input '{found['input']}'; its inputs are "
                f"{', '.join(arguments)}."
            )
        asked.append((found["input"], int(found["axis"]), found["name"] or Dim.DYNAMIC))
    used = set()

    def shape(path: Any, leaf: Any) -> Any:
        dimensions: dict[int, Any] = {}
        for number, (name, axis, dimension) in enumerate(asked):
            if isinstance(leaf, torch.Tensor) and name in (None, path[0].key) and -leaf.dim() <= axis < leaf.dim():
                dimensions[axis % leaf.dim()] = dimension
                used.add(number)
        return dimensions or None

    shapes = pytree.tree_map_with_path(shape, arguments)
    left = [item for number, item in enumerate(items) if number not in used]
    if left:
        raise UsageError(f"Invalid value for --dynamic: '{left[0]}'. No input has this dimension.")
    return shapes


def _arguments(subject: specs.Subject) -> Mapping[str, Any]:
    """The inputs, by the parameters of the model."""
    from opbridge.capture.model_inputs import example_inputs, fit_signature
    from opbridge.capture.model_module import as_module

    args, kwargs = example_inputs(subject.args, subject.keywords.get("kwargs"))
    module = as_module(subject.model, args, kwargs)
    fit_signature(module, args, kwargs)
    return dict(inspect.signature(module.forward).bind(*args, **kwargs).arguments)
