"""The Python blocks of a Markdown page; and a script that runs one of them after the page's first block.

C++ blocks that begin with the name of a file (// my_add.cpp) are written to the folder that this runs in.

docs_blocks.py PAGE LINE     runs the block that begins on this line
"""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

__all__ = ["blocks"]


def blocks(page: Path) -> dict[int, str]:
    """The Python blocks of a page, by the line that they begin on."""
    text = page.read_text()
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return {text.count("\n", 0, match.start(1)) + 1: match.group(1) for match in found}


def _write_sources(page: Path) -> None:
    for name, code in re.findall(r"^```cpp\n// (\w+\.cpp)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        Path(name).write_text(code)


def main(page: Path, line: int) -> None:
    _write_sources(page)
    found = blocks(page)
    # A module that Python knows: onnxscript looks a function's globals up there.
    module = sys.modules["page"] = types.ModuleType("page")
    for begin in dict.fromkeys([min(found), line]):
        # With the lines above it left empty, an error names the page's own line.
        exec(compile("\n" * (begin - 1) + found[begin], str(page), "exec"), module.__dict__)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
