"""The outputs of transformers' models, which are dataclasses and dicts in one."""

from __future__ import annotations

import sys
from typing import Any

from opbridge.base.torch_private import torch_overrides
from opbridge.model_support.entries import Container

__all__ = ["CONTAINER"]

_MODULE = "transformers.utils.generic"


def _is_output(kind: type) -> bool:
    return any(each.__name__ == "ModelOutput" and each.__module__ == _MODULE for each in kind.__mro__)


def _register(kind: Any) -> None:
    with torch_overrides.as_while_not_exporting():  # where it does nothing
        sys.modules[_MODULE]._register_model_output_pytree_node(kind)  # which would fail after ours


CONTAINER = Container(is_class=_is_output, register=_register)
