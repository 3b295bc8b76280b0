"""What each example prints, kept beside the guides that show it: `python docs/printed.py [NAME ...]` writes it again.

docs/printed/NAME.txt is the output of examples/NAME.py as it was printed, with nothing but the folders of this machine
left out. A test runs each example and compares, apart from what differs from run to run, as `comparable` says.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

__all__ = ["FOLDER", "comparable", "tidied"]

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "printed"

_TEMPORARY = re.compile(r"/tmp/[\w./-]*/")


def tidied(printed: str) -> str:
    """What was printed, without the folders of the machine that it was printed on."""
    text = printed.replace(f"{ROOT}{os.sep}", "")
    if cache := os.environ.get("OPBRIDGE_CACHE"):  # what is built there is built in the user's cache elsewhere
        text = text.replace(cache, "~/.cache/opbridge")
    text = text.replace(str(Path.home()), "~")
    text = _TEMPORARY.sub("", text)
    return "".join(f"{line.rstrip()}\n" for line in text.strip().splitlines())


def comparable(printed: str) -> str:
    """What was printed, with "#" in the place of what differs from run to run and from machine to machine.

    1. Measured differences, times and losses: numbers with an exponent or a fraction.
    2. Versions of packages: numbers with dots, and what stands behind a plus.
    3. The digits of a hash in the name of a library that was built.
    4. Spaces, as the width of a column follows from what stands in it.
    5. The shape of an output of floats in a table of differences: it is that of the run that differs most.
    """
    text = re.sub(r"\b[0-9a-f]{12,}\b", "#", printed)
    text = re.sub(r"-?\d+(\.\d+)+(e[+-]?\d+)?(\+\w+)?|-?\d+e[+-]?\d+", "#", text)
    text = re.sub(r"[ \t]+", " ", text)
    return re.sub(r"(?m)^(\S+ (?:float|complex)\d+) \d+(?:x\d+)*", r"\1 #", text)


def main(names: list[str]) -> None:
    """Runs the examples, all of them by default, and writes what they print."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120", "PYTHONPATH": str(ROOT / "src")}
    for name in names or sorted(path.stem for path in (ROOT / "examples").glob("*.py")):
        script = ROOT / "examples" / f"{name}.py"
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, check=False, env=environment, cwd=ROOT
        )
        if done.returncode:
            sys.exit(f"{script.name}: exit status {done.returncode}\n{done.stderr}")
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}.txt").write_text(tidied(done.stdout))


if __name__ == "__main__":
    main(sys.argv[1:])
