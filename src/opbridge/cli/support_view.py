"""What a person sees of what is known of packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from opbridge.base.wording import counted
from opbridge.cli.console import aligned, print_plain

if TYPE_CHECKING:
    from opbridge.model_support.changed_sources import PackageSources, TargetSource

__all__ = ["print_support"]


def print_support(
    console: Console, packages: Sequence[PackageSources], differences: Mapping[str, Mapping[str, Sequence[str]]]
) -> None:
    """For each package a line with counts; before it, the functions that have changed.

    Args:
        console: Where it is printed.
        packages: The packages.
        differences: What is different between functions and their replacements, by package and target, where they
            were compared.
    """
    changed = [("fingerprint", "kind", "changed function"), *(_row(each) for of in packages for each in of.changed)]
    lines = [aligned(changed), ""] if len(changed) > 1 else []
    for of in differences.values():
        lines += [f"{target} differs on {said}" for target, all_said in of.items() for said in all_said]
    lines += [_summary(each, differences.get(each.package)) for each in packages]
    print_plain(console, "\n".join(lines))


def _row(each: TargetSource) -> tuple[str, str, str]:
    calls = f" (it calls {', '.join(each.changed_calls)})" if each.changed_calls else ""
    return each.fingerprint or "not there", each.kind, f"{each.target}{calls}"


def _summary(found: PackageSources, differences: Mapping[str, Sequence[str]] | None) -> str:
    if found.release is None:
        return f"{found.package}: not installed"
    name = f"{found.package} {found.release}".rstrip()
    if found.brought_by != "opbridge":
        name += f" (support by {found.brought_by})"
    if found.fault:
        return f"{name}: the support cannot be loaded: {found.fault}"
    states = [each.state for each in found.targets]
    known, changed, absent = (states.count(state) for state in ("known", "changed", "absent"))
    said = f"{name}: {known} of {counted(len(states), 'function')} with a known source, {changed} changed"
    if absent:
        said += f", {absent} absent"
    return said if differences is None else f"{said}; {len(differences)} with differences"
