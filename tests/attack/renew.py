"""Makes the list of operators that a file may run by default, for the torch that is installed.

    PYTHONPATH=src:tests python -m attack.renew [--only 'aten::conv*,aten::cov']

Goes on where it was interrupted. With --only, the calls of those operators are made, again where they were made before,
and all other operators keep their lines of the list.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import torch

from attack import evidence, guard
from attack.journal import Journal

__all__ = ["main"]

_ROOT = Path(__file__).parents[2]
_EVIDENCE = _ROOT / "src" / "opbridge" / "kernels" / "aten" / "evidence"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="patterns of operators, separated by commas")
    given = parser.parse_args()
    release = ".".join(torch.__version__.split(".")[:2])
    journal = _ROOT / "build" / "attack" / f"operators-{release}.jsonl"
    command = [sys.executable, "-m", "attack.operator_server", str(journal)]
    if given.only:
        Journal(journal).forget(given.only)
        command += ["--only", given.only]
    subprocess.run(command, check=True, env=guard.environment(), cwd=_ROOT)
    evidence.main(journal, _EVIDENCE / f"torch_{release.replace('.', '_')}.def")


if __name__ == "__main__":
    main()
