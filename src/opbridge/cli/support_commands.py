"""The command for what is known of packages: support."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from opbridge.base.requirements import require
from opbridge.cli.answers import Answer
from opbridge.cli.app import app
from opbridge.cli.options import JsonOption
from opbridge.cli.support_view import print_support
from opbridge.errors import UsageError

if TYPE_CHECKING:
    from opbridge.model_support.changed_sources import PackageSources

__all__ = ["support"]


@app.command()
def support(
    package: Annotated[
        str | None, typer.Argument(help="A package, as it is imported: transformers. All packages if not given.")
    ] = None,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare", help="Import the packages, and compare each function with its replacement on sample inputs."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> Answer:
    """List the functions of packages that opbridge replaces in a capture and whose source has changed.

    A function is replaced only if its source is one with which the replacement was compared. The exit status is 1 if
    the installed release of a package has another source for one of them, or if the support that another distribution
    provides cannot be loaded.
    """
    require("export")
    from opbridge.model_support import changed_sources

    found = changed_sources.package_sources_known(package)
    if not found:
        raise UsageError(f"No support for a package {package} is installed. `opbridge support` lists all packages.")
    differences = {each.package: _differences(each) for each in found} if compare else {}
    ok = not any(each.changed or each.fault for each in found) and not any(differences.values())
    document = {"ok": ok, "packages": [_document(each, differences.get(each.package)) for each in found]}
    return Answer(document, lambda screen: print_support(screen, found, differences), ok)


def _differences(found: PackageSources) -> dict[str, list[str]]:
    """What is different between functions and their replacements, by target."""
    from opbridge.model_support import comparison

    each = {target: comparison.differences(entry, target) for target, entry in found.replacements().items()}
    return {target: said for target, said in each.items() if said}


def _document(found: PackageSources, differences: dict[str, list[str]] | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "package": found.package,
        "release": found.release,
        "distribution": found.brought_by,
        "fault": found.fault,
        "targets": [
            {
                "target": each.target,
                "kind": each.kind,
                "state": each.state,
                "fingerprint": each.fingerprint,
                "changed_calls": list(each.changed_calls),
            }
            for each in found.targets
        ],
    }
    return document if differences is None else {**document, "differences": differences}
