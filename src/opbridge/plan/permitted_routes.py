"""The routes that operators may take: `allow=` and `routes=` of `opbridge.export`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from opbridge.base.routes import ALLOWED_BY_DEFAULT, ROUTES
from opbridge.errors import UsageError

__all__ = ["PermittedRoutes"]


@dataclass(frozen=True)
class PermittedRoutes:
    """The routes that operators may take.

    Attributes:
        allow: The allowed routes.
        pinned: Operators pinned to a route, by name; a name without an overload stands for all of them, and a shell
            pattern ("aten::*") for every operator that it fits and that the route can carry.

    Raises:
        UsageError: There is no such route.
    """

    allow: tuple[str, ...] = ALLOWED_BY_DEFAULT
    pinned: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for route in (*self.allow, *self.pinned.values()):
            if route not in ROUTES:
                raise UsageError(f"Unknown route '{route}'. The routes are {', '.join(ROUTES)}.")
