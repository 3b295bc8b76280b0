"""The export modes of torch.onnx.export, `operator_export_type=`, as routes.

A mode is a combination of permitted routes (`allow=`) and pinned operators (`routes=`), and nothing else. "The default"
is standard, function and kernel.

| mode                 | allow                       | routes          | what becomes of an operator                   |
| ---                  | ---                         | ---             | ---                                           |
| `ONNX`               | the default                 |                 | standard ONNX, a function or a kernel         |
| `ONNX_ATEN`          | the default                 | `aten::*` aten  | an operator of ATen is handed to libtorch     |
| `ONNX_ATEN_FALLBACK` | the default and aten        |                 | as ONNX; to libtorch what has no other route  |
| `ONNX_FALLTHROUGH`   | the default and fallthrough |                 | as ONNX; as it is where it has no other route |
| `RAW`                | the default and fallthrough | `*` fallthrough | as it is: nothing is translated               |

In every mode, what depends on no input is computed at export, sizes are standard ONNX, and control flow is If, Loop or
Scan. A pattern has no effect on operators that its route cannot represent. On the command line,
`opbridge export SPEC --raw` prints the capture itself and writes no file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opbridge.base.routes import ALLOWED_BY_DEFAULT as _DEFAULT
from opbridge.errors import UsageError
from opbridge.plan.permitted_routes import PermittedRoutes

__all__ = ["MODES", "permitted_routes"]


MODES = {
    "ONNX": PermittedRoutes(),
    "ONNX_ATEN": PermittedRoutes(pinned={"aten::*": "aten"}),
    "ONNX_ATEN_FALLBACK": PermittedRoutes((*_DEFAULT, "aten")),
    "ONNX_FALLTHROUGH": PermittedRoutes((*_DEFAULT, "fallthrough")),
    "RAW": PermittedRoutes((*_DEFAULT, "fallthrough"), {"*": "fallthrough"}),
}


def permitted_routes(
    operator_export_type: Any, allow: Sequence[str], routes: Mapping[str, str] | None
) -> PermittedRoutes:
    """The routes that operators may take in an export.

    Args:
        operator_export_type: A mode by name or as `torch.onnx.OperatorExportTypes`; None: `allow` and `routes` decide.
        allow: The routes permitted.
        routes: Operators pinned to a route.

    Raises:
        UsageError: There is no such mode, or it is given together with `allow` or `routes`; or `allow` is a string, or
            names a route that does not exist.
    """
    if isinstance(allow, str):
        every = tuple(dict.fromkeys((*_DEFAULT, allow)))
        raise UsageError(f"allow={allow!r} is a string. Give a tuple of all allowed routes: allow={every}.")
    if operator_export_type is None:
        return PermittedRoutes(tuple(allow), dict(routes or {}))
    name = operator_export_type if isinstance(operator_export_type, str) else getattr(operator_export_type, "name", "")
    mode = MODES.get(name)
    if mode is None:
        raise UsageError(
            f"operator_export_type={operator_export_type!r} is invalid; expected {', '.join(MODES)}, by name or as "
            "torch.onnx.OperatorExportTypes."
        )
    if tuple(allow) != _DEFAULT or routes:
        given = " and ".join(
            text for text, there in (("allow=", tuple(allow) != _DEFAULT), ("routes=", bool(routes))) if there
        )
        raise UsageError(
            f"operator_export_type={name} stands for allow={mode.allow} with routes={dict(mode.pinned)}, which "
            f"conflicts with {given}. Give one or the other."
        )
    return mode
