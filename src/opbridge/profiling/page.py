"""The document of the page of a profile: its tables, and the trees of its flame graphs."""

from __future__ import annotations

from typing import Any

from opbridge.profiling import grouping
from opbridge.profiling.data import Kernel, TorchCall
from opbridge.profiling.file_graph import short_name
from opbridge.profiling.grouping import BY, NO_LINE

__all__ = ["document"]

_MOST_ROWS = 5000


def document(profile: Any) -> dict[str, Any]:
    """What the page shows.

    Args:
        profile: A `Profile`, which imports this module.
    """
    torch = profile.torch
    return {
        "file": profile.file,
        "runtime": profile.runtime,
        "threads": profile.threads,
        "runs": profile.runs,
        "run": profile.plain,
        "fastest": profile.fastest,
        "profiled": profile.profiled,
        "kernels": profile.milliseconds,
        "count": len(profile.kernels),
        "inputs": {name: list(shape) for name, shape in profile.shapes.items()},
        "sizes": dict(profile.sizes),
        "notes": [*profile.notes, *profile.unmatched(), *profile.busy()],
        "torch": None
        if torch is None
        else {
            "version": torch.version,
            "device": torch.device,
            "run": torch.plain,
            "fastest": torch.fastest,
            "timed": torch.timed,
            "operators": sum(each.milliseconds for each in torch.calls),
        },
        "first": profile.usual,
        "tables": {by: [_row(each) for each in profile.rows(by)[:_MOST_ROWS]] for by in BY},
        "torch_operators": [{"n": name, "k": calls, "m": spent} for name, calls, spent in profile.torch_rows()],
        "own": [
            {
                "n": each.what,
                "k": each.nodes,
                "m": each.milliseconds,
                "p": [grouping.without_folders(place) for place in each.places[:5]],
            }
            for each in profile.own()
        ],
        "flame": _tree(profile.kernels),
        "torch_flame": None if torch is None else _torch_tree(torch.calls),
    }


def _row(row: grouping.Row) -> dict[str, Any]:
    names = [short_name(each) for each in row.operators[:3]]
    return {
        "n": grouping.without_folders(row.label),
        "f": row.label,
        "k": row.calls,
        "m": row.milliseconds,
        "s": row.share,
        "t": row.torch,
        "l": row.lost,
        "o": ", ".join(names),
        "c": row.code,
    }


class _Branch:
    """A frame of a flame graph while the tree is built: its time is that of all in it."""

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind = name, kind
        self.milliseconds, self.calls = 0.0, 0.0
        self.inside: dict[tuple[str, str], _Branch] = {}

    def add(self, path: list[tuple[str, str]], milliseconds: float, calls: float) -> None:
        """Adds time to this frame, and to those of a path in it."""
        here = self
        here.milliseconds += milliseconds
        here.calls += calls
        for name, kind in path:
            here = here.inside.setdefault((name, kind), _Branch(name, kind))
            here.milliseconds += milliseconds
            here.calls += calls

    def plain(self) -> dict[str, Any]:
        """As plain data, the frames in the order in which they ran first; the layers of a list by their numbers."""
        frames = list(self.inside.values())
        if all(each.name.isdecimal() for each in frames):
            frames.sort(key=lambda each: int(each.name))
        inside = [each.plain() for each in frames]
        return {"n": self.name, "k": self.kind, "m": self.milliseconds, "q": self.calls, "c": inside}


def _tree(kernels: Any) -> dict[str, Any]:
    root = _Branch("model", "module")
    for each in kernels:
        root.add(_path(each), each.milliseconds, each.calls)
    return root.plain()


def _path(kernel: Kernel) -> list[tuple[str, str]]:
    """The modules, the lines and the operator of a kernel, from the outside to the inside."""
    places = kernel.places
    paths = [each.module.split(".") if each.module else [] for each in places]
    shared: list[str] = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    found = [(each, "module") for each in shared]
    ends = dict.fromkeys(".".join(each[len(shared) :]) for each in paths if len(each) > len(shared))
    if ends:
        found.append((", ".join(ends), "module"))
    lines = grouping.lines_label(list(dict.fromkeys(each.line for each in places if each.line)))
    if lines:
        found.append((grouping.without_folders(lines), "line"))
    inserted = kernel.kind not in ("", "fused")
    kind = "cpu" if kernel.on_cpu else "inserted" if inserted else "operator"
    name = short_name(kernel.operator)
    return [*found, (f"{name} ({kernel.kind})" if inserted else name, kind)]


def _torch_tree(calls: Any) -> dict[str, Any]:
    root = _Branch("model", "module")
    for each in calls:
        root.add(_torch_path(each), each.milliseconds, each.calls)
    return root.plain()


def _torch_path(call: TorchCall) -> list[tuple[str, str]]:
    found = [(each, "module") for each in call.module.split(".") if each]
    return [*found, (grouping.without_folders(call.line) or NO_LINE, "line"), (call.operator, "operator")]
