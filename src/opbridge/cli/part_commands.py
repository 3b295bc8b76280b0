"""check, export and verify of a set of parts: what a SPEC's factory gives as `opbridge.Parts`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from opbridge.base import specs
from opbridge.cli.answers import Answer
from opbridge.cli.console import aligned, print_plain, size
from opbridge.cli.export_view import print_verification
from opbridge.cli.plan_view import print_plan
from opbridge.errors import UsageError

if TYPE_CHECKING:
    from opbridge.parts.data import ExportedParts, GivenParts, PartsVerification
    from opbridge.plan.data import Plan

__all__ = ["check_parts", "export_parts", "verify_parts"]

Keywords = Callable[[specs.Subject], dict[str, Any]]
"""Gives the keywords of a part, with the command line's options put over its own."""


def check_parts(parts: GivenParts, keywords: Keywords, options: Mapping[str, Any]) -> Answer:
    """The plan of each part."""
    from opbridge.parts import exporting

    plans = exporting.check(_with_keywords(parts, keywords), options)
    is_ok = all(plan.ok for plan in plans.values())
    document = {"ok": is_ok, "parts": {name: plan.to_json() for name, plan in plans.items()}}
    faults = [fault.error for plan in plans.values() for fault in plan.faults]
    return Answer(document, lambda screen: _print_plans(screen, plans), is_ok, faults)


def export_parts(parts: GivenParts, output: Path, keywords: Keywords, options: Mapping[str, Any], spec: str) -> Answer:
    """The set, written to the folder `output`."""
    from opbridge.parts import exporting

    done = exporting.export(_with_keywords(parts, keywords), output, dict(options))
    document = {
        "ok": True,
        "files": [{"path": str(path), "bytes": path.stat().st_size} for path in done.files],
        "timings": done.timings,
        "parts": {
            name: {
                "path": str(program.path),
                "plan": program.plan.to_json(),
                "verification": program.verification.to_json() if program.verification else None,
                "kernels": program.kernels,
                "unverified": program.unverified,
            }
            for name, program in done.programs.items()
        },
        "verification": done.verification.to_json() if done.verification else None,
        "unverified": done.unverified,
    }
    return Answer(document, lambda screen: _print_export(screen, done, spec, options.get("report")))


def verify_parts(
    parts: GivenParts, folder: Path, dynamic: Callable[[specs.Subject], dict[str, Any]], options: Mapping[str, Any]
) -> Answer:
    """The comparison of each file of the set, and of the pipeline."""
    from opbridge.parts import exporting

    found = exporting.verify(_with_keywords(parts, dynamic), folder, options)
    return Answer(found.to_json(), lambda screen: _print_verifications(screen, found), found.ok)


def refuse_inputs(files: Any) -> None:
    """Refuses `--inputs` for a set.

    Raises:
        UsageError: It was given.
    """
    if files:
        raise UsageError(
            "--inputs is valid only for one model, but the factory returns several. Provide the inputs in the "
            "factory: inputs= of opbridge.Parts for the whole pipeline, and the keyword 'inputs' for one part."
        )


def _with_keywords(parts: GivenParts, keywords: Keywords) -> GivenParts:
    from opbridge.parts.data import GivenParts

    changed = {
        name: dataclasses.replace(part, keywords=keywords(specs.Subject(name, part.model, part.args, part.keywords)))
        for name, part in parts.parts.items()
    }
    return GivenParts(changed, parts.run, parts.args, parts.kwargs, parts.inputs)


def _print_plans(console: Console, plans: Mapping[str, Plan]) -> None:
    for number, (name, plan) in enumerate(plans.items()):
        heading = f"part '{name}'"
        if console.is_terminal:
            console.print(Text(f"\n{heading}" if number else heading, "bold"))
        else:
            print_plain(console, f"\n{heading}" if number else heading)
        print_plan(console, plan)


def _print_verifications(console: Console, found: PartsVerification) -> None:
    for each in found.all():
        print_verification(console, each)


def _print_export(console: Console, done: ExportedParts, spec: str, report: Path | None) -> None:
    rows = [("file", f"{path} ({size(path.stat().st_size)})") for path in done.files]
    if report is not None:
        rows.append(("report", str(report)))
    for name, program in done.programs.items():
        rows.append((name, program.plan.summary()))
        if program.unverified:
            rows.append(("", f"not verified: {program.unverified}"))
        elif program.verification is not None:
            rows.append(("", program.verification.summary()))
        rows += [("", f"note: {note}") for note in program.plan.notes]
    if done.verification is not None:
        rows.append(("run", done.verification.summary()))
        rows += [("", f"left out: {run.label}: {run.left_out}") for run in done.verification.left_out]
    elif done.unverified:
        rows.append(("run", f"not verified: {done.unverified}"))
    stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in done.timings.items())
    rows.append(("time", f"{sum(done.timings.values()):.2f} s: {stages}"))
    first = next(iter(done.programs.values()))
    rows.append(("next", f"opbridge.session('{first.path}') runs a part; opbridge verify {done.path} {spec} compares"))
    print_plain(console, aligned(rows))
