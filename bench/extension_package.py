"""Builds torch_scatter from the package index beside the installed torch, and sweeps its operators.

    python bench/extension_package.py FOLDER [options of `opbridge coverage`]

It is built once into FOLDER, with the installed torch and compiler and for the CPU alone, which takes some minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PACKAGE = "torch_scatter"
_LIMIT = 1800
_HERE = Path(__file__).resolve().parent


def build(folder: Path) -> None:
    """Installs the package into a folder, with what building it needs into another one.

    Raises:
        subprocess.CalledProcessError: it does not build; pip has said why.
    """
    tools = folder / "tools"
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    if not tools.exists():
        subprocess.run([*pip, "--target", str(tools), "ninja", "setuptools", "wheel"], check=True, timeout=_LIMIT)
    environment = {
        **os.environ,
        "PYTHONPATH": str(tools),
        "PATH": f"{tools / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "FORCE_ONLY_CPU": "1",
    }
    command = [*pip, "--no-deps", "--no-build-isolation", "--target", str(folder / "package"), PACKAGE]
    subprocess.run(command, check=True, timeout=_LIMIT, env=environment)


def main() -> int:
    folder, options = Path(sys.argv[1]).resolve(), sys.argv[2:]
    if not (folder / "package" / PACKAGE).is_dir():
        build(folder)
    path = os.pathsep.join([str(folder / "package"), *filter(None, [os.environ.get("PYTHONPATH")])])
    code = "import sys; from opbridge.cli import main; sys.exit(main())"
    database = f"{_HERE / 'extension_samples.py'}:OPERATORS"
    command = [sys.executable, "-c", code, "coverage", "--db", database, *options]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main())
