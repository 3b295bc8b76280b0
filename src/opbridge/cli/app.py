"""The application that the commands belong to."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.core import TyperGroup

from opbridge.base.version import __version__

__all__ = ["app"]

_ORDER = (
    *("check", "export", "verify", "lint", "fix", "convert", "cast", "bisect", "compare", "extract", "profile"),
    *("engine", "targets"),
    *("ops", "build", "new", "coverage", "models", "support"),
)


class _InOrder(TyperGroup):
    """Lists the commands in the order in which a user comes to need them."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return sorted(super().list_commands(ctx), key=_ORDER.index)


app = typer.Typer(
    cls=_InOrder,
    help="Export PyTorch models to ONNX, list every operator, and compare the file with PyTorch.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Exit status: 0 success; 1 a check failed (missing operators, a mismatch, an error among the findings); 2 "
    "invalid usage; 3 an internal error of opbridge.",
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"opbridge {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", help="Show the traceback of an error. The environment variable OPBRIDGE_DEBUG=1 does the same."
        ),
    ] = False,
) -> None:
    """Declares the options that every command has; main() reads --debug, wherever on the line it stands."""
