"""What a person sees of the catalogue of translations, and of kernels that were built or begun."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from opbridge.cli.console import ROUTE_STYLES, aligned, plain_table, print_plain, size

if TYPE_CHECKING:
    from opbridge.plan.inventory import Inventory
    from opbridge.translations.registry import Translation

__all__ = ["print_build", "print_catalogue", "print_missing", "print_new", "print_not_covered", "print_plugins"]


def print_catalogue(console: Console, rows: Sequence[Translation]) -> None:
    """The translations that `opbridge ops` found."""
    header = ("operator", "route", "opset", "origin", "inputs")
    cells = [
        (row.operator, row.route, str(row.opset), row.origin, "complex" if row.complex else "real") for row in rows
    ]
    operators = len({row.operator for row in rows})
    summary = f"{operators} operator{'s' * (operators != 1)}, {len(rows)} translation{'s' * (len(rows) != 1)}"
    if not console.is_terminal:
        print_plain(console, aligned([header, *cells], right=[2]) + f"\n{summary}")
        return
    table = plain_table()
    for name in header:
        table.add_column(name, justify="right" if name == "opset" else "left", overflow="fold")
    for operator, route, *rest in cells:
        table.add_row(operator, Text(route, ROUTE_STYLES.get(route, "")), *rest)
    console.print(table)
    console.print(Text(summary, "bold"))


def print_missing(console: Console, found: Inventory) -> None:
    """The operators without a route, and for each namespace how many have one and how many do not count."""
    if found.missing:
        permission = {"aten": "aten, if allowed", "none": "none"}
        rows = [("operator", "route"), *((row.operator, permission[row.route]) for row in found.missing)]
        print_plain(console, aligned(rows) + "\n")
    lines = []
    counts = found.counts()
    for namespace in sorted(counts.keys() | found.excluded.keys()):
        routes = counts.get(namespace, {})
        carried = [f"{routes[route]} by {what}" for route, what in _CARRIED.items() if routes.get(route)]
        total, having = sum(routes.values()), sum(routes.get(route, 0) for route in _CARRIED)
        how = f" ({', '.join(carried)})" if carried else ""
        lines.append(f"{namespace}: {having} of {total} functional operators have a route{how}")
        reasons = found.excluded.get(namespace, {})
        if reasons:
            listed = ", ".join(
                f"{count} {reason}" for reason, count in sorted(reasons.items(), key=lambda each: -each[1])
            )
            lines.append(f"  {sum(reasons.values())} excluded: {listed}")
    lines += [f"{namespace}: not installed" for namespace in found.absent]
    print_plain(console, "\n".join(lines))


_CARRIED = {"translation": "translation", "decomposition": "decomposition"}


def print_build(console: Console, path: Path, operators: Sequence[str], preload: str | None) -> None:
    """The library that `opbridge build` wrote, and what it has."""
    rows = [("library", f"{path} ({size(path.stat().st_size)})"), *(("operator", schema) for schema in operators)]
    rows.append(("next", f"opbridge.load('{path}'), or opbridge.session(model, kernels=['{path}'])"))
    if preload is not None:
        rows.append(("", f"with LD_PRELOAD='{preload}' ASAN_OPTIONS=detect_leaks=0 in the environment"))
    print_plain(console, aligned(rows))


def print_plugins(console: Console, path: Path, plugins: Sequence[str], others: Sequence[str]) -> None:
    """The library that `opbridge build --tensorrt` wrote, and which of its operators are plug-ins."""
    rows = [("library", f"{path} ({size(path.stat().st_size)})"), *(("plug-in", each) for each in plugins)]
    rows += [("no plug-in", f"{each}: it has no kernel for CUDA devices") for each in others]
    rows.append(("next", f"trtexec --onnx=model.onnx --dynamicPlugins={path}"))
    print_plain(console, aligned(rows))


def print_new(console: Console, files: Sequence[Path]) -> None:
    """What `opbridge new` wrote, and what to do with it."""
    kernel, test, model = files
    rows = [("kernel", str(kernel)), ("test", str(test)), ("model", str(model)), ("next", f"pytest {test}")]
    rows.append(("", f"opbridge export {model}:build -o {model.with_suffix('.onnx').name}"))
    print_plain(console, aligned(rows))


def print_not_covered(console: Console, pattern: str, near: Sequence[str]) -> None:
    """That nothing fits a pattern, and what looks like it."""
    hint = f" Similar names: {', '.join(near)}." if near else ""
    advice = (
        "An operator that PyTorch decomposes into other operators needs no translation; 'opbridge check SPEC' "
        "shows the route of every operator of a model."
    )
    print_plain(console, f"No translation is registered for '{pattern}'.{hint} {advice}")
