"""The rows of a profile: its time by operator, module, source line or node, beside PyTorch's."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from opbridge.profiling.data import Kernel, TorchCall
from opbridge.profiling.file_graph import FileNode

__all__ = ["BY", "NO_LINE", "Row", "lines_label", "modules_label", "rows", "without_folders"]

BY = ("operator", "module", "line", "node")

NO_LINE = "(no source line)"
_MODEL = "(the model itself)"
_UNKNOWN = "(inserted by the runtime)"
_SHOWN_PLACES = 4
_FOLDERS = re.compile(r"[^\s,]*/(?=[^/\s,]+\.py:)")


@dataclass(frozen=True)
class Row:
    """A row of a profile.

    Attributes:
        label: The operator, module, lines or node.
        calls: How many kernels ran for it in one run.
        milliseconds: Their time in one run.
        share: That as a part of the time of all kernels, from 0 to 1.
        torch: The milliseconds that eager PyTorch takes for the same; None where that cannot be told apart.
        operators: The operators with the most time in it, the first one with the most.
        lines: The lines of the model's code that it has.
        code: By line, the text of the one with the most time.
    """

    label: str
    calls: float
    milliseconds: float
    share: float
    torch: float | None
    operators: tuple[str, ...]
    lines: tuple[str, ...]
    code: str = ""

    @property
    def lost(self) -> float | None:
        """The milliseconds by which it is slower than PyTorch; below 0 where it is faster."""
        return None if self.torch is None else self.milliseconds - self.torch


def rows(kernels: Sequence[Kernel], torch: Sequence[TorchCall] | None, by: str, depth: int | None = None) -> list[Row]:
    """The rows of a profile.

    1. A kernel that stands for nodes of several lines or modules makes one row of them, so that PyTorch's time, which
       is summed over the same lines or modules, is that of the same work.
    2. By node, PyTorch's time is given where one kernel alone computes what its lines of its modules compute. By
       operator it is not: PyTorch's operators are others.
    3. With PyTorch's time the rows that are slower than it are first, the one that loses most at the top; the others
       follow by their time.

    Args:
        kernels: The kernels.
        torch: The operators of eager PyTorch; None where it was not timed.
        by: One of `BY`.
        depth: How many parts of a module's path are kept; None: all.
    """
    total = sum(each.milliseconds for each in kernels) or 1.0

    def of_line(node: FileNode | TorchCall) -> str:
        return node.line or NO_LINE

    def of_module(node: FileNode | TorchCall) -> str:
        return ".".join(node.module.split(".")[:depth]) or _MODEL

    def of_place(node: FileNode | TorchCall) -> tuple[str, str]:
        return node.module, node.line

    if by == "operator":
        groups = _grouped(kernels, lambda each: each.operator + (f" ({each.kind})" if _is_own(each) else ""))
        found = [_row(name, members, total, None) for name, members in groups.items()]
    elif by == "node":
        units = _units(kernels, torch or (), of_place)
        found = []
        for members, calls in units:
            spent = sum(each.milliseconds for each in calls) if torch is not None and len(members) == 1 else None
            found += [_row(_node_label(each), [each], total, spent) for each in members]
    else:
        key = of_line if by == "line" else of_module
        found = []
        for members, calls in _units(kernels, torch or (), key):
            names = dict.fromkeys(key(node) for each in members for node in each.places)
            names |= dict.fromkeys(map(key, calls))
            spent = None if torch is None else sum(each.milliseconds for each in calls)
            label = (lines_label if by == "line" else modules_label)(list(names)) or _UNKNOWN
            found.append(_row(label, members, total, spent, calls))
    if torch is not None and by != "operator":
        return sorted(found, key=lambda row: (-max(row.lost or 0.0, 0.0), -row.milliseconds))
    return sorted(found, key=lambda row: -row.milliseconds)


def _is_own(kernel: Kernel) -> bool:
    return bool(kernel.kind) and kernel.kind != "fused"


def _grouped(kernels: Iterable[Kernel], key: Callable[[Kernel], str]) -> dict[str, list[Kernel]]:
    found: dict[str, list[Kernel]] = defaultdict(list)
    for each in kernels:
        found[key(each)].append(each)
    return found


def _units(
    kernels: Sequence[Kernel], torch: Sequence[TorchCall], key: Callable[[FileNode | TorchCall], object]
) -> list[tuple[list[Kernel], list[TorchCall]]]:
    """The kernels and PyTorch's operators, joined where a kernel stands for nodes with several keys."""
    parent: dict[object, object] = {}

    def root(name: object) -> object:
        parent.setdefault(name, name)
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for each in kernels:
        keys = [key(node) for node in each.places]
        for other in keys[1:]:
            parent[root(other)] = root(keys[0])
    found: dict[object, tuple[list[Kernel], list[TorchCall]]] = {}
    for each in kernels:
        places = each.places
        found.setdefault(root(key(places[0])) if places else None, ([], []))[0].append(each)
    for call in torch:
        found.setdefault(root(key(call)), ([], []))[1].append(call)
    return list(found.values())


def _row(
    label: str, kernels: Sequence[Kernel], total: float, torch: float | None, calls: Sequence[TorchCall] = ()
) -> Row:
    spent = sum(each.milliseconds for each in kernels)
    operators: defaultdict[str, float] = defaultdict(float)
    for each in kernels:
        operators[each.operator] += each.milliseconds
    lines = dict.fromkeys(node.line for each in kernels for node in each.places if node.line)
    lines |= dict.fromkeys(each.line for each in calls if each.line)
    count = sum(each.calls for each in kernels)
    names = tuple(sorted(operators, key=operators.__getitem__, reverse=True)[:5])
    return Row(label, count, spent, spent / total, torch, names, tuple(sorted(lines, key=_by_number)))


def _node_label(kernel: Kernel) -> str:
    if _is_own(kernel):
        near = f" for {kernel.near.shown}" if kernel.near is not None else ""
        return f"{kernel.kind}{near}"
    return kernel.of[0].shown if kernel.of else kernel.name


def without_folders(label: str) -> str:
    """Lines by the names of their files alone: "bert.py:12" for "models/bert.py:12"."""
    return _FOLDERS.sub("", label)


def _by_number(line: str) -> tuple[str, int]:
    file, _, number = line.rpartition(":")
    return file, int(number) if number.isdecimal() else 0


def lines_label(lines: Sequence[str]) -> str:
    """Lines in a few words: "net.py:12-14, 20, head.py:7"."""
    found = []
    for file, group in groupby(sorted(lines, key=_by_number), key=lambda each: each.rpartition(":")[0]):
        numbers = [_by_number(each)[1] for each in group]
        found.append(f"{file}:{', '.join(_ranges(numbers))}" if file else NO_LINE)
    return ", ".join(found)


def _ranges(numbers: Sequence[int]) -> list[str]:
    found: list[list[int]] = []
    for each in numbers:
        if found and each == found[-1][-1] + 1:
            found[-1].append(each)
        else:
            found.append([each])
    return [str(each[0]) if len(each) == 1 else f"{each[0]}-{each[-1]}" for each in found]


def modules_label(modules: Sequence[str]) -> str:
    """Modules in a few words: "layer1.0.(conv1, bn1, relu)", "layer1.0 with bn2, relu"."""
    if len(modules) < 2:
        return "".join(modules)
    parts = [[] if each == _MODEL else each.split(".") for each in modules]
    shared = 0
    while all(len(each) > shared and each[shared] == parts[0][shared] for each in parts):
        shared += 1
    ends = [".".join(each[shared:]) for each in parts if len(each) > shared]
    more = f", and {len(ends) - _SHOWN_PLACES} more" if len(ends) > _SHOWN_PLACES else ""
    inside = ", ".join(sorted(ends[:_SHOWN_PLACES], key=_natural)) + more
    prefix = ".".join(parts[0][:shared])
    if prefix and len(ends) < len(parts):  # the module itself is one of them
        return f"{prefix} with {inside}"
    return f"{prefix}.({inside})" if prefix else f"({inside})"


def _natural(text: str) -> list[object]:
    return [(int(each), "") if each.isdecimal() else (-1, each) for each in re.split(r"(\d+)", text)]
