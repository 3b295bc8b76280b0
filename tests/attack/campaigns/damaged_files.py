"""Files that were damaged on purpose, given to everything that reads a file.

Each one is answered within some seconds, with a result or with an error of opbridge's that ends a command with 1 or 2
and controls no terminal. The calls are made in a process of their own, which may crash or hang.
"""

from __future__ import annotations

import collections
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attack.batches import command, in_child, run_batch
from attack.mutations import mutated
from attack.small_models import SPEC, write_seeds

__all__ = ["run"]

_FILES_OF_A_PROCESS = 500


def run(seconds: float, seed: int, most: int | None = None) -> dict[str, Any]:
    """Tries files until the time is over, or `most` of them were tried.

    Returns:
        The number of files, of calls by their outcome, and the findings, each with the number that makes its file.
    """
    found: list[dict[str, Any]] = []
    outcomes: collections.Counter[str] = collections.Counter()
    number = 0
    with tempfile.TemporaryDirectory(prefix="opbridge-attack-") as folder:
        seeds = Path(folder, "seeds")
        if status := in_child(lambda: write_seeds(seeds)):
            raise RuntimeError(f"the files to begin with cannot be made: exit status {status}")
        end = time.monotonic() + seconds
        while time.monotonic() < end and (most is None or number < most):
            numbers = range(number, min(number + _FILES_OF_A_PROCESS, most or sys.maxsize))
            number = run_batch(
                lambda at: _calls(seeds, Path(folder, "tried"), seed, at), seed, numbers, end, outcomes, found
            )
    return {"files": number, "calls": sum(outcomes.values()), "outcomes": dict(outcomes), "findings": found}


def _calls(seeds: Path, folder: Path, seed: int, number: int) -> Iterator[tuple[str, Callable[[], None]]]:
    """What reads the file of a number."""
    random_ = random.Random(f"{seed} {number}")
    shutil.rmtree(folder, ignore_errors=True)
    source = random_.choice(sorted(each for each in seeds.iterdir() if each.is_dir()))
    shutil.copytree(source, folder)
    file = random_.choice(sorted(each for each in folder.iterdir() if each.name != "spec.txt"))
    file.write_bytes(mutated(file.read_bytes(), random_, is_model=file.suffix == ".onnx"))
    for name, call in _readers(folder, file, (source / "spec.txt").read_text(), number):
        yield f"{source.name} {name} {file.name}", call


def _readers(folder: Path, file: Path, spec: str, number: int) -> Iterator[tuple[str, Callable[[], None]]]:
    """What reads the file."""
    import opbridge
    from attack import small_models
    from opbridge.coverage import results
    from opbridge.coverage.models import results as model_results

    model = folder / "model.onnx"
    if file.suffix == ".json":
        yield "results of operators", lambda: results.read(file)
        yield "results of models", lambda: model_results.read(file)
        return
    inputs = [f"--inputs={file}"] if file.suffix in (".npz", ".npy") else []
    if not inputs:
        yield "session", lambda: opbridge.session(model, threads=1)
        yield "session of bytes", lambda: opbridge.session(model.read_bytes(), threads=1)
        yield "verify", lambda: opbridge.verify(model, *getattr(small_models, spec)(), samples=1)
    if inputs or number % 4 == 0:
        yield "command", lambda: command(["verify", str(model), f"{SPEC}:{spec}", *inputs])
    if file.suffix == ".onnx" and number % 8 == 0:
        shutil.copy(model, folder / "part.onnx")
        parts = opbridge.Parts({"part": getattr(small_models, spec)()})
        yield "verify a set", lambda: parts.verify(folder)


if __name__ == "__main__":
    print(json.dumps(run(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if sys.argv[3:] else None), indent=1))
