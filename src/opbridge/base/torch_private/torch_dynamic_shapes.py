"""Private interfaces of torch about the forms in which torch.export takes dynamic shapes.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch


def hint_kind(value: object) -> str | None:
    """AUTO, DYNAMIC or STATIC for `torch.export.Dim.AUTO` and its siblings, None for anything else."""
    return value.type.name if isinstance(value, type(torch.export.Dim.AUTO)) else None


def is_shapes_spec(value: object) -> bool:
    """Whether this is a ShapesSpec or ParamsSpec, a form of dynamic shapes of newer releases of torch."""
    return type(value).__module__ == "torch.fx.experimental.dynamic_spec"


def map_shapes(
    function: Callable[[str, Any, Any], Any], arguments: Mapping[str, Any], shapes: Mapping[str, Any]
) -> dict[str, Any]:
    """Maps a function over the leaves of the arguments and their dynamic shapes.

    Args:
        function: Called with the path of a leaf (`x`, `batch['ids'][0]`), the leaf, and its entry in `shapes`.
        arguments: By parameter name, as `inspect.Signature.bind` gives them.
        shapes: In the same structure, down to the leaves.

    Raises:
        ValueError: The two structures differ.
    """
    from torch._dynamo.exc import UserError
    from torch.export.dynamic_shapes import _tree_map_with_path
    from torch.utils import _pytree

    def at(path: Any, leaf: Any, shape: Any) -> Any:
        # Inside of a class that is registered with pytree, the path starts again and consists of indices.
        named = bool(path) and isinstance(path[0], _pytree.MappingKey)
        place = f"{path[0].key}{_pytree.keystr(path[1:])}" if named else f"input{_pytree.keystr(path)}"
        return function(place, leaf, shape)

    try:
        return _tree_map_with_path(at, dict(arguments), dict(shapes), tree_name="inputs")
    except UserError as error:
        raise ValueError(str(error)) from error
