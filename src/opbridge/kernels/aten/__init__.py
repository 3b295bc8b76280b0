"""The library that runs `aten` nodes in ONNX Runtime: its source, and what it has to be told. Needs no torch.

It is a library of its own, beside the built-in kernels, as it is of use only where libtorch is.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys

from opbridge.errors import ModelFileError
from opbridge.kernels.shipped import shipped

__all__ = [
    "DOMAIN",
    "LIBRARY",
    "LIBTORCH",
    "NAME",
    "OLDER_FORM",
    "PATTERNS",
    "bears_anything",
    "define_check",
    "is_refused",
    "load_torch",
    "missing_evidence",
    "refusal",
    "rule",
]

DOMAIN = "org.pytorch.aten"
NAME = f"{DOMAIN}::ATen"

PATTERNS = "opbridge.aten"
"""The entry of a session's options that names operators beside those of the default list."""

LIBTORCH = "opbridge.libtorch"
"""The entry of a session's options that names libtorch's path."""

OLDER_FORM = "the node has the format of older exporters"
"""What the library says of a node that `opbridge.nodes.aten_node.older_models` rewrites."""

LIBRARY = "_aten"
"""The library's name among those that come with opbridge."""


def refusal(schema: str) -> str:
    """Why an operator with this schema, of the torch here, runs only where a session names it; "" where it need not."""
    return _answer("opbridge_aten_refusal", schema)


def bears_anything(schema: str) -> bool:
    """Whether an operator with this schema reads and writes nothing but its arguments, without a check of them."""
    return refusal(schema) == "" and _answer("opbridge_aten_has_check", schema) == ""


def rule(schema: str) -> str:
    """Why no evidence puts an operator with this schema on the default list; "" where some may."""
    return _answer("opbridge_aten_rule", schema)


def missing_evidence(operator: str, torch_version: str) -> str:
    """Why there is not enough evidence that an operator bears any arguments in a release of torch; "" where there is.

    Args:
        operator: "aten::add.Tensor".
        torch_version: "2.15".
    """
    return _answer("opbridge_aten_missing_evidence", operator.removeprefix("aten::"), torch_version)


def define_check(schema: str) -> bool:
    """Defines the check of an operator's arguments as an operator of torch's, `opbridge_checks::name.overload`.

    It is given all arguments but those of the types Scalar? and Generator, by name, a tensor for a Scalar. It returns
    nothing, and raises a RuntimeError for a call that a node would not make. For those who make calls as nodes do, in
    PyTorch.

    Returns:
        Whether the operator has a check.

    Raises:
        RuntimeError: torch does not take the operator.
    """
    said = _answer("opbridge_aten_define_check", schema)
    if said.startswith("error: "):
        raise RuntimeError(said)
    return said != ""


def _answer(question: str, *about: str) -> str:
    asked = ctypes.CDLL(str(shipped(LIBRARY)))[question]
    asked.restype, asked.argtypes = ctypes.c_char_p, [ctypes.c_char_p] * len(about)
    return str(asked(*(each.encode() for each in about)).decode())


def is_refused(operator: str) -> bool:
    """Whether an operator ("aten::topk") runs only where a session names it, as far as the torch here has it."""
    from opbridge.base.torch_private import torch_operators

    found = torch_operators.operator_object(operator)
    return found is not None and refusal(str(found._schema)) != ""


def load_torch(label: str, path: str = "") -> None:
    """Brings libtorch into the process, unless its path is given.

    Args:
        label: The model that needs it, for the message.
        path: What the session's options name.

    Raises:
        ModelFileError: torch is not installed.
    """
    if path or os.environ.get("OPBRIDGE_LIBTORCH") or "torch" in sys.modules:
        return
    try:
        importlib.import_module("torch")
    except ImportError as error:
        raise ModelFileError(
            f"{label} has operators that are run by PyTorch, but torch cannot be imported ({error}). Install it "
            "(pip install 'opbridge[torch]'), or set the environment variable OPBRIDGE_LIBTORCH to the path of "
            "libtorch_cpu.so."
        ) from None
