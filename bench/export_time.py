"""How long an export to a file takes: torch.export alone, opbridge's capture alone, opbridge, and torch.onnx.

All in one process, in turns, after a warm-up; medians. Then the memory that exporting a large model adds at its peak.

    python bench/export_time.py            # at least 5 runs of each, and the memory of vit_l_16
    python bench/export_time.py --quick    # two small models, 5 runs, no memory, nothing written
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import models
import torch
from results import interleaved, median, table, write_section

import opbridge
from opbridge.capture import capture
from opbridge.fit.target import find_target

LARGE = "vit_l_16"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two small models; nothing is written")
    parser.add_argument("--runs", type=int, default=5, help="timed runs of each (5)")
    parser.add_argument("--models", nargs="*", default=models.EXPORTED)
    parser.add_argument("--peak-memory-of", choices=sorted(EXPORTERS), help=argparse.SUPPRESS)  # the child's part
    options = parser.parse_args()
    silence()
    if options.peak_memory_of:
        print(peak_memory(options.peak_memory_of, LARGE))
        return
    names = ["two operators", "resnet50"] if options.quick else options.models
    times = table(
        [
            "export to a file, seconds",
            "torch.export alone",
            "capture",
            "x",
            "opbridge",
            "x",
            "opbridge, verified",
            "torch.onnx",
            "x",
        ],
        [export_times(name, options.runs) for name in names],
    )
    if options.quick:
        print(f"\n{times}")
        return
    memory = table(
        [f"peak memory that exporting {LARGE} adds", "MB", "x the weights"],
        [added_memory(exporter) for exporter in EXPORTERS],
    )
    body = (
        f"Medians of {options.runs} runs, interleaved in one process after a warm-up. `x` is relative to torch.export. "
        "`capture` is opbridge's capture alone, as in an export. Verification is disabled except in the column "
        f'"opbridge, verified".\n\n{times}\n\n{memory}'
    )
    write_section("export_time", "Export time and memory", body)


def with_opbridge(built: models.Built, path: Path, verify: bool = False) -> None:
    """What opbridge does to get a file; by default without comparing it with PyTorch."""
    model, args, kwargs, dynamic_shapes = built
    opbridge.export(model, args, path, kwargs=kwargs, dynamic_shapes=dynamic_shapes, verify=verify)


def with_torch_onnx(built: models.Built, path: Path) -> None:
    """torch.onnx's default exporter with its defaults."""
    model, args, kwargs, dynamic_shapes = built
    torch.onnx.export(model, args, path, kwargs=kwargs, dynamic_shapes=dynamic_shapes, dynamo=True, verbose=False)


def with_torch_export(built: models.Built) -> None:
    """torch.export alone, in its default mode."""
    model, args, kwargs, dynamic_shapes = built
    torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)


def capture_alone(built: models.Built) -> None:
    """opbridge's capture as `opbridge.export` calls it."""
    model, args, kwargs, dynamic_shapes = built
    capture(model, args, kwargs, dynamic_shapes=dynamic_shapes, opset=find_target(None, None).opset)


EXPORTERS: dict[str, Callable[[models.Built, Path], None]] = {
    "opbridge": with_opbridge,
    "torch.onnx": with_torch_onnx,
}


def export_times(name: str, runs: int) -> list[str]:
    """One row of the table."""
    built = models.build(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)

        def remove_files() -> None:
            # Every run writes a new file: replacing one makes some file systems flush the other first.
            for file in path.iterdir():
                file.unlink()

        seconds = interleaved(
            {
                "torch.export": quietly(lambda: with_torch_export(built)),
                "capture": quietly(lambda: capture_alone(built)),
                "opbridge": quietly(lambda: with_opbridge(built, path / "opbridge.onnx")),
                "verified": quietly(lambda: with_opbridge(built, path / "verified.onnx", verify=True)),
                "torch.onnx": quietly(lambda: with_torch_onnx(built, path / "stock.onnx")),
            },
            runs,
            tidy=remove_files,
        )
    base, taken, ours, verified, stock = (median(seconds[key]) for key in seconds)
    row = [name, f"{base:.3f}", f"{taken:.3f}", f"{taken / base:.2f}", f"{ours:.3f}", f"{ours / base:.1f}"]
    row += [f"{verified:.3f}", f"{stock:.3f}", f"{stock / base:.1f}"]
    print(" | ".join(row), flush=True)
    return row


def quietly(function: Callable[[], object]) -> Callable[[], object]:
    """The same without what it prints."""

    def run() -> object:
        with contextlib.redirect_stdout(io.StringIO()):
            return function()

    return run


def silence() -> None:
    """Warnings about the models are not what is measured here."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)


def added_memory(exporter: str) -> list[str]:
    """One row of the table, measured in a process of its own."""
    command = [sys.executable, __file__, "--peak-memory-of", exporter]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    added, weights = map(int, done.stdout.split()[-2:])
    row = [f"{exporter} (weights: {weights / 1e6:.0f} MB)", f"{added / 1e6:.0f}", f"{added / weights:.2f}"]
    print(" | ".join(row), flush=True)
    return row


def peak_memory(exporter: str, name: str) -> str:
    """The bytes that an export adds at its peak to what the process holds before it, and those of the weights."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        # What any first export loads is no part of the answer.
        export = EXPORTERS[exporter]
        quietly(lambda: export(models.build("two operators"), path))()
        built = models.build(name)
        weights = sum(tensor.nbytes for tensor in built.model.state_dict().values())
        with Watch() as watch:
            quietly(lambda: export(built, path))()
    return f"{watch.added} {weights}"


class Watch:
    """The most memory that this process holds inside the `with`, above what it holds at its beginning.

    Another process looks on: a thread of this one would stand still wherever native code keeps Python's lock.
    """

    _LOOK_ON = """
import sys, time, threading
statm, page, most = open(f"/proc/{sys.argv[1]}/statm"), int(sys.argv[2]), 0
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
print("ready", flush=True)
while not ended.is_set():
    statm.seek(0)
    _, resident, shared = map(int, statm.read().split()[:3])  # pages of mapped files are not the process's own
    first = locals().get("first", resident - shared)
    most = max(most, resident - shared - first)
    time.sleep(0.001)
print(most * page)
"""

    added: int

    def __enter__(self) -> Watch:
        arguments = [str(os.getpid()), str(os.sysconf("SC_PAGE_SIZE"))]
        command = [sys.executable, "-c", self._LOOK_ON, *arguments]
        self._watcher = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._watcher.stdout.readline()
        return self

    def __exit__(self, *error: object) -> None:
        said, _ = self._watcher.communicate()
        self.added = int(said.split()[-1])


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"took {time.perf_counter() - started:.0f} s", file=sys.stderr)
