"""Runs the Python blocks of a Markdown page, each in a process of its own after the page's first block.

C++ blocks that begin with the name of a file (// my_add.cpp) are written to the folder that this runs in.

python tests/docs_blocks.py PAGE     prints one JSON object: the line a block begins on -> its error, or null
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import sys
import tempfile
import traceback
import types

__all__ = ["blocks"]


def blocks(page: pathlib.Path) -> dict[int, str]:
    """The Python blocks of a page, by the line that they begin on."""
    text = page.read_text()
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return {text.count("\n", 0, match.start(1)) + 1: match.group(1) for match in found}


def write_sources(page: pathlib.Path) -> None:
    """Writes the page's C++ files."""
    for name, code in re.findall(r"^```cpp\n// (\w+\.cpp)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        pathlib.Path(name).write_text(code)


def main(page: pathlib.Path) -> None:
    write_sources(page)
    found = blocks(page)
    first = min(found)
    # A module that Python knows: onnxscript looks a function's globals up there.
    module = sys.modules["page"] = types.ModuleType("page")
    space = module.__dict__
    # torch is imported here, once; what a block registers ends with its process.
    _run(page, first, found[first], space)
    print(json.dumps({line: _run_apart(page, line, code, space) for line, code in found.items() if line != first}))


def _run_apart(page: pathlib.Path, line: int, code: str, space: dict) -> str | None:
    with tempfile.TemporaryFile("w+") as said:
        child = os.fork()
        if child == 0:
            status = 0
            try:
                os.dup2(2, 1)
                _run(page, line, code, space)
            except BaseException:
                traceback.print_exc(file=said)
                said.flush()
                status = 1
            os._exit(status)
        _, status = os.waitpid(child, 0)
        said.seek(0)
        return None if status == 0 else said.read() or f"ended with status {status}"


def _run(page: pathlib.Path, line: int, code: str, space: dict) -> None:
    # With the lines above it left empty, an error names the page's own line.
    exec(compile("\n" * (line - 1) + code, str(page), "exec"), space)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
