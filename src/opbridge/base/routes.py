"""The routes by which an operator gets across, best first; docs/architecture.md says what each is."""

from __future__ import annotations

__all__ = ["ALLOWED_BY_DEFAULT", "ROUTES"]

ROUTES = ("standard", "function", "kernel", "aten", "fallthrough")


ALLOWED_BY_DEFAULT = ("standard", "function", "kernel")
