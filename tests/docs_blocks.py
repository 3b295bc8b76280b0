"""Runs the code of a Markdown page, each block in a process of its own after the page's first Python block.

| block | |
| --- | --- |
| `python` | runs; where a block `text title="Output"` follows, that is what it prints |
| `console` | each line that begins with `$ opbridge` runs, and prints the lines below it |
| `python` that begins with `# name.py`, `cpp` that begins with `// name.cpp` | is written to the current folder |

In what is printed, `...` stands for any text.

python tests/docs_blocks.py PAGE     prints one JSON object: the line a block begins on -> its error, or null
"""

from __future__ import annotations

import difflib
import doctest
import json
import os
import pathlib
import re
import shlex
import sys
import tempfile
import traceback
import types
from dataclasses import dataclass

__all__ = ["Block", "blocks", "following"]


@dataclass(frozen=True)
class Block:
    """One block of a page.

    Attributes:
        kind: "python" or "console".
        code: What runs.
        output: What it prints; None where that is not said.
    """

    kind: str
    code: str
    output: str | None = None


_FENCED = re.compile(
    r'^```(?P<kind>python|console)\n(?P<code>.*?)^```$(?:\n+```text title="Output"\n(?P<output>.*?)^```$)?',
    re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(r"^```(?:cpp|python)\n(?://|#) (\w+\.(?:cpp|py))\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: pathlib.Path) -> dict[int, Block]:
    """The blocks of a page that run, by the line that they begin on."""
    text = page.read_text()
    found = {}
    for match in _FENCED.finditer(text):
        block = Block(match["kind"], match["code"], match["output"])
        if not re.match(r"# \w+\.py\n", block.code):
            found[text.count("\n", 0, match.start("code")) + 1] = block
    return found


def first_block(found: dict[int, Block]) -> int:
    """The line of the page's first Python block, which runs before every other one."""
    return min(line for line, block in found.items() if block.kind == "python")


def following(page: pathlib.Path) -> list[int]:
    """The lines of the blocks that run after the first one."""
    found = blocks(page)
    return sorted(found.keys() - {first_block(found)})


def write_sources(page: pathlib.Path) -> None:
    """Writes the page's files."""
    for name, code in _FILE.findall(page.read_text()):
        # With its first line, so that the line numbers are those of the page's block.
        pathlib.Path(name).write_text(("# " if name.endswith(".py") else "// ") + f"{name}\n{code}")


def main(page: pathlib.Path) -> None:
    write_sources(page)
    sys.path.insert(0, os.getcwd())
    found = blocks(page)
    first = first_block(found)
    # A module that Python knows: onnxscript looks a function's globals up there.
    module = sys.modules["page"] = types.ModuleType("page")
    space = module.__dict__
    # torch is imported here, once; what a block registers ends with its process.
    _run(page, first, found[first], space)
    print(json.dumps({line: _run_apart(page, line, block, space) for line, block in found.items() if line != first}))


def _run_apart(page: pathlib.Path, line: int, block: Block, space: dict) -> str | None:
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as printed:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            status = 0
            try:
                os.dup2(printed.fileno(), 1)
                _run(page, line, block, space)
                sys.stdout.flush()
            except BaseException:
                traceback.print_exc(file=said)
                said.flush()
                status = 1
            os._exit(status)
        _, status = os.waitpid(child, 0)
        said.seek(0)
        if status:
            return said.read() or f"ended with status {status}"
        printed.seek(0)
        return _difference(page, line, block, printed.read())


def _run(page: pathlib.Path, line: int, block: Block, space: dict) -> None:
    if block.kind == "console":
        _run_commands(block.code)
        return
    # With the lines above it left empty, an error names the page's own line.
    exec(compile("\n" * (line - 1) + block.code, str(page), "exec"), space)


def _run_commands(code: str) -> None:
    from opbridge.cli import main as opbridge

    for line in code.splitlines():
        if line.startswith("$ "):
            print(line, flush=True)
            program, *arguments = shlex.split(line.removeprefix("$ "), comments=True)
            assert program == "opbridge", f"only commands of opbridge run here, not: {line}"
            opbridge(arguments)
            sys.stdout.flush()


def _difference(page: pathlib.Path, line: int, block: Block, printed: str) -> str | None:
    """How what was printed differs from what the page says, or None."""
    expected = block.code if block.kind == "console" else block.output
    if expected is None:
        return None
    expected, printed = (
        "".join(f"{each.rstrip()}\n" for each in text.strip().splitlines()) for text in (expected, printed)
    )
    if doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS):
        return None
    changes = difflib.unified_diff(expected.splitlines(), printed.splitlines(), "the page", "printed", lineterm="")
    return "\n".join([f'"{page}", line {line}: it prints something else.', *changes])


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
