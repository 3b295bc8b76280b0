"""The blocks of a Markdown page that run; and a script that runs one of them after the page's first Python block.

| block | |
| --- | --- |
| `python` | runs; where a block `text title="Output"` follows, that is what it prints |
| `console` | each line that begins with `$ opbridge` runs, and prints the lines below it |
| `python` that begins with `# name.py`, `cpp` with `// name.cpp` or `.cu` | is written to the folder where this runs |

In what is printed, `...` stands for any text.

docs_blocks.py PAGE LINE     runs the block that begins on this line
"""

from __future__ import annotations

import contextlib
import difflib
import doctest
import io
import linecache
import os
import re
import shlex
import sys
import types
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Block", "blocks", "first_block"]


@dataclass(frozen=True)
class Block:
    """One block of a page.

    Attributes:
        kind: "python" or "console".
        code: What runs.
        output: What it prints; None where the page does not say.
    """

    kind: str
    code: str
    output: str | None = None


_FENCED = re.compile(
    r'^```(?P<kind>python|console)\n(?P<code>.*?)^```$(?:\n+```text title="Output"\n(?P<output>.*?)^```$)?',
    re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(r"^```(?:cpp|python)\n(?://|#) (\w+\.(?:cpp|cu|py))\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> dict[int, Block]:
    """The blocks of a page that run, by the line that they begin on."""
    text = page.read_text()
    found = {}
    for match in _FENCED.finditer(text):
        if not re.match(r"# \w+\.py\n", match["code"]):
            line = text.count("\n", 0, match.start("code")) + 1
            found[line] = Block(match["kind"], match["code"], match["output"])
    return found


def first_block(page: Path) -> int:
    """The line of the page's first Python block, which runs before every other one."""
    return min(line for line, block in blocks(page).items() if block.kind == "python")


def _write_sources(page: Path) -> None:
    for name, code in _FILE.findall(page.read_text()):
        # With its first line, so that the line numbers are those of the page's block.
        Path(name).write_text(("# " if name.endswith(".py") else "// ") + f"{name}\n{code}")


def _run(page: Path, line: int, block: Block, space: dict) -> None:
    if block.kind == "python":
        # With the lines above it left empty, an error names the page's own line. Who asks for the source of a function
        # gets what has run.
        above = linecache.cache.get(str(page), (0, None, [], ""))[2]
        lines = [*above, *["\n"] * (line - 1 - len(above)), *block.code.splitlines(keepends=True)]
        linecache.cache[str(page)] = len(lines), None, lines, str(page)
        exec(compile("\n" * (line - 1) + block.code, str(page), "exec"), space)
        return
    from opbridge.cli import main as opbridge

    for command in block.code.splitlines():
        if command.startswith("$ "):
            print(command)
            program, *arguments = shlex.split(command.removeprefix("$ "), comments=True)
            assert program == "opbridge", f"only commands of opbridge run here, not: {command}"
            opbridge(arguments)


def _check_printed(page: Path, line: int, block: Block, printed: str) -> None:
    expected = block.code if block.kind == "console" else block.output
    if expected is None:
        return
    expected, printed = (
        "".join(f"{each.rstrip()}\n" for each in text.strip().splitlines()) for text in (expected, printed)
    )
    if not doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS):
        changes = difflib.unified_diff(expected.splitlines(), printed.splitlines(), "the page", "printed", lineterm="")
        sys.exit("\n".join([f'"{page}", line {line}: it prints something else.', *changes]))


def main(page: Path, line: int) -> None:
    _write_sources(page)
    sys.path.insert(0, os.getcwd())
    found = blocks(page)
    # A module that Python knows: onnxscript looks a function's globals up there.
    space = sys.modules.setdefault("page", types.ModuleType("page")).__dict__
    first = first_block(page)
    if line != first:
        _run(page, first, found[first], space)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        _run(page, line, found[line], space)
    _check_printed(page, line, found[line], printed.getvalue())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
