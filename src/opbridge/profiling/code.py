"""The text of the lines that the rows of a profile are about."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

from opbridge.profiling.data import Kernel
from opbridge.profiling.grouping import Row
from opbridge.reports.code import Code

__all__ = ["with_code"]


def with_code(rows: Sequence[Row], kernels: Sequence[Kernel]) -> list[Row]:
    """Rows by line with the text of their line, where its file is found; of several, of that with the most time."""
    spent: defaultdict[str, float] = defaultdict(float)
    for each in kernels:
        if (node := each.main) is not None:
            spent[node.line] += each.milliseconds
    code = Code()
    first = [max(row.lines, key=lambda line: spent[line], default="") for row in rows]
    numbers = [code.written(line) for line in first]
    code.excerpts()
    return [
        dataclasses.replace(row, code=str(code.frames[number[0]][3]) if number else "")
        for row, number in zip(rows, numbers, strict=True)
    ]
