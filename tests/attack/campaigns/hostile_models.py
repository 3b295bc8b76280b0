"""Models that lint, fix and convert are given: those of reported problems, damaged, and others written to do harm.

Each command ends with 0, 1 or 2 within some seconds, says what is wrong in plain text, and reads nothing outside of the
model's folder. The commands run in a process of their own, which may crash or hang.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attack.batches import Unfit, command, in_child, run_batch
from attack.hostile_models import SECRET, hostile
from attack.mutations import mutated
from attack.results import write_one

__all__ = ["run"]

_FILES_OF_A_PROCESS = 250
_FIXED, _CONVERTED = 10, 50
"""One in so many files is repaired, and put at another opset, which take longer."""

_TARGETS = (
    "onnx:15",
    "onnxruntime",
    "onnxruntime:1.16",
    "onnxruntime:1.24",
    "onnxruntime:1.25",
    "tensorrt:8.5",
    "tensorrt:10.1",
    "tensorrt",
    "openvino",
    "mnn",
    "qnn",
    "webgpu",
    "webgpu-native",
    "webnn",
    "coreml-mlprogram",
    "cuda",
    "directml",
)


def run(seconds: float, seed: int, most: int | None = None, first: int = 0) -> dict[str, Any]:
    """Tries files until the time is over, or those before number `most` were tried.

    Args:
        seconds: The time.
        seed: What the files are drawn from, each with its number.
        most: The number to end at.
        first: The number to begin with.

    Returns:
        The number of files, of commands by their outcome, and the findings, each with the number that makes its file.
    """
    found: list[dict[str, Any]] = []
    outcomes: collections.Counter[str] = collections.Counter()
    number = first
    with tempfile.TemporaryDirectory(prefix="opbridge-attack-") as folder:
        place = Path(folder)
        if status := in_child(lambda: _write_seeds(place / "seeds")):
            raise RuntimeError(f"the files to begin with cannot be made: exit status {status}")
        end = time.monotonic() + seconds
        while time.monotonic() < end and (most is None or number < most):
            numbers = range(number, min(number + _FILES_OF_A_PROCESS, most or sys.maxsize))
            number = run_batch(
                lambda at: _calls(place, random.Random(f"{seed} {at}"), at), seed, numbers, end, outcomes, found
            )
    return {"files": number - first, "commands": sum(outcomes.values()), "outcomes": dict(outcomes), "findings": found}


def _write_seeds(folder: Path) -> None:
    from helpers.problems import PROBLEMS

    folder.mkdir()
    for problem in PROBLEMS:
        for at, model in enumerate((problem.model, *problem.clean)):
            (folder / f"{problem.identifier}-{at}.onnx").write_bytes(model.SerializeToString())


def _calls(place: Path, random_: random.Random, number: int) -> Iterator[tuple[str, Callable[[], None]]]:
    """What is done with the file of a number."""
    folder = place / "tried"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (place / "secret.bin").write_bytes(SECRET)
    os.symlink("../secret.bin", folder / "link.bin")
    seeds = sorted((place / "seeds").iterdir())
    if random_.random() < 0.3:
        content, name = hostile(random_), "hostile"
        if random_.random() < 0.3:
            content = mutated(content, random_, is_model=True)
    else:
        seed = random_.choice(seeds)
        content, name = mutated(seed.read_bytes(), random_, is_model=True), seed.stem
    model = folder / "model.onnx"
    model.write_bytes(content)
    if keep := os.environ.get("ATTACK_KEEP"):
        Path(keep).write_bytes(content)
    targets = random_.sample(_TARGETS, 3)
    options = random_.choice(([], [], ["--json"], ["--sarif"], ["--github"]))
    yield f"{name}: lint", lambda: command(["lint", str(model), *(f"-t{each}" for each in targets), *options])
    fixed = folder / "fixed.onnx"
    if number % _FIXED == 0:
        yield (
            f"{name}: fix for {targets[0]}",
            lambda: _written(["fix", str(model), "-t", targets[0], "-o", str(fixed)], fixed),
        )
    if number % _CONVERTED == 0:
        opset = str(random_.choice((7, 11, 13, 17, 21, 24)))
        converted = folder / "converted.onnx"
        yield (
            f"{name}: convert to {opset}",
            lambda: _written(["convert", str(model), "--opset", opset, "-o", str(converted)], converted),
        )


def _written(arguments: list[str], output: Path) -> None:
    """Runs a command, and looks into what it wrote.

    Raises:
        Unfit: It holds what is outside of the folder.
    """
    command(arguments)
    for each in output.parent.iterdir():
        if each.name != "link.bin" and each.is_file() and SECRET[:16] in each.read_bytes():
            raise Unfit(f"{each.name} holds what stands in a file outside of the folder")


def _together(results: list[dict[str, Any]]) -> dict[str, Any]:
    """What runs over other numbers came to, as of one run."""
    outcomes: collections.Counter[str] = collections.Counter()
    for each in results:
        outcomes.update(each["outcomes"])
    return {
        "files": sum(each["files"] for each in results),
        "commands": sum(each["commands"] for each in results),
        "outcomes": dict(outcomes),
        "findings": [finding for each in results for finding in each["findings"]],
    }


if __name__ == "__main__":
    # The seconds, the seed, the numbers to end at and to begin with; --keep FILE adds the result to those of other
    # numbers in a file; --write puts them all into a section of bench/RESULTS.md. With equal numbers, nothing is tried.
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", type=float)
    parser.add_argument("seed", type=int)
    parser.add_argument("most", type=int, nargs="?")
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    results = json.loads(given.keep.read_text()) if given.keep is not None and given.keep.exists() else []
    if given.most != given.first:
        numbers = "" if given.most is None else f" {given.most}{f' {given.first}' if given.first else ''}"
        module = "PYTHONPATH=src:tests python -m attack.campaigns.hostile_models"
        asked = f"{module} {given.seconds:g} {given.seed}{numbers}"
        results.append({**run(given.seconds, given.seed, given.most, given.first), "command": asked})
        print(json.dumps(results[-1], indent=1))
    if given.keep is not None:
        given.keep.write_text(json.dumps(results, indent=1))
    if given.write:
        write_one("hostile_models", _together(results), "`, `".join(each["command"] for each in results))
