"""Symbolic functions of the kinds that public repositories hold, each with a model that reaches it.

One file a kind; importing this package defines the operators of the namespace `opcases` and fills `CASES`.
"""

from __future__ import annotations

from cases import attributes, blocks, constants, domains, dynamic, functions, helpers, inputs, outputs, stock, types
from cases.declare import CASES, Case

__all__ = [
    "CASES",
    "Case",
    "attributes",
    "blocks",
    "constants",
    "domains",
    "dynamic",
    "functions",
    "helpers",
    "inputs",
    "outputs",
    "stock",
    "types",
]
