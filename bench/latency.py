"""How fast ONNX Runtime loads and runs opbridge's file of a model, beside the one of torch.onnx's default exporter.

Runs: both sessions in one process, in turns, after a warm-up; medians. The outputs of the two are compared first.
Loading: every session in a process of its own, in turns; medians of the time and of the process's peak memory.

    python bench/latency.py                # every model
    python bench/latency.py --only load    # loading alone
    python bench/latency.py --quick        # one model, nothing written
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import models
import numpy
import torch
from results import interleaved, median, table, write_section

import opbridge

LOADED = ("vit_b_16", "resnet50", "BERT", "Llama")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one model; nothing is written")
    parser.add_argument("--runs", type=int, default=50, help="timed runs of each (50)")
    parser.add_argument("--threads", type=int, default=0, help="ONNX Runtime's threads; 0 is one a core (0)")
    parser.add_argument("--models", nargs="*", default=list(models.NAMES))
    parser.add_argument("--only", choices=["run", "load"], help="one of the two measurements (both)")
    parser.add_argument("--loads", type=int, default=5, help="timed loads of each file (5)")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    if options.only != "load":
        measure_runs(options)
    if options.only != "run":
        measure_loads(options)


def measure_runs(options: argparse.Namespace) -> None:
    """The section on latency."""
    names = ["resnet50"] if options.quick else options.models
    rows = [latencies(name, options.runs, options.threads) for name in names]
    body = table(["one run in ONNX Runtime, ms", "torch.onnx", "opbridge", "opbridge / torch.onnx"], rows)
    if options.quick:
        print(f"\n{body}")
        return
    threads = f"{options.threads} threads" if options.threads else "one thread per core"
    said = f"Medians of {options.runs} runs, interleaved in one process after a warm-up; one image; {threads}."
    write_section("latency", "Latency of the exported models", f"{said}\n\n{body}")


def measure_loads(options: argparse.Namespace) -> None:
    """The section on loading."""
    rows = [row for name in (["resnet50"] if options.quick else LOADED) for row in loads(name, options.loads)]
    header = ["a session is created, s", "torch.onnx", "opbridge", "opbridge / torch.onnx"]
    body = table([*header, "peak, MB: torch.onnx", "opbridge"], rows)
    if options.quick:
        print(f"\n{body}")
        return
    said = (
        f"Medians of {options.loads} loads, interleaved, each in a separate process, with its peak memory; the files "
        "were in the page cache. torch.onnx writes external data by default, opbridge only if one file cannot store "
        "the weights."
    )
    write_section("load", "Loading the exported models", f"{said}\n\n{body}")


def latencies(name: str, runs: int, threads: int) -> list[str]:
    """One row of the table."""
    model, args, *_ = models.build(name)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        stock, ours = Path(folder) / "stock.onnx", Path(folder) / "opbridge.onnx"
        torch.onnx.export(model, args, stock, dynamo=True, verbose=False)
        opbridge.export(model, args, ours, verify=False)
        sessions = {"stock": opbridge.session(stock, threads=threads), "ours": opbridge.session(ours, threads=threads)}
    feeds = {
        key: {value.name: arg.numpy() for value, arg in zip(session.get_inputs(), args, strict=True)}
        for key, session in sessions.items()
    }
    outputs = [sessions[key].run(None, feeds[key])[0] for key in sessions]
    numpy.testing.assert_allclose(*outputs, rtol=1e-3, atol=1e-4, err_msg=name)
    seconds = interleaved(
        {key: lambda key=key: sessions[key].run(None, feeds[key]) for key in sessions}, runs, warm_up=5
    )
    theirs, own = median(seconds["stock"]), median(seconds["ours"])
    row = [name, f"{theirs * 1e3:.2f}", f"{own * 1e3:.2f}", f"{own / theirs:.2f}"]
    print(" | ".join(row), flush=True)
    return row


def loads(name: str, times: int) -> list[list[str]]:
    """Two rows of the table: one file, and external data."""
    model, args, kwargs, _ = models.build(name)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for external in (False, True):
            with contextlib.redirect_stdout(io.StringIO()):
                stock, ours = (Path(folder) / f"{exporter}{external}.onnx" for exporter in ("stock", "opbridge"))
                torch.onnx.export(model, args, stock, kwargs=kwargs, dynamo=True, verbose=False, external_data=external)
                opbridge.export(model, args, ours, kwargs=kwargs, verify=False, external_data=external)
            files |= {("stock", external): stock, ("ours", external): ours}
        measured: dict[tuple[str, bool], list[tuple[float, float]]] = {key: [] for key in files}
        for turn in range(times + 1):
            for key, file in files.items():
                done = load(file)
                if turn:  # the first brings the file into memory
                    measured[key].append(done)
    for external in (False, True):
        (theirs, their_peak), (own, own_peak) = (
            map(median, zip(*measured[key, external], strict=True)) for key in ("stock", "ours")
        )
        label = f"{name}, {'external data' if external else 'one file'}"
        row = [label, f"{theirs:.3f}", f"{own:.3f}", f"{own / theirs:.2f}", f"{their_peak:.0f}", f"{own_peak:.0f}"]
        print(" | ".join(row), flush=True)
        rows.append(row)
    return rows


_LOAD = """
import re, sys, time
import onnxruntime
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
start = time.perf_counter()
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
seconds = time.perf_counter() - start
# Not getrusage, which begins with what the parent held.
print(seconds, int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024)
"""


def load(file: Path) -> tuple[float, float]:
    """The seconds that a session takes to be created in a new process, and the peak of that process's memory in MB."""
    done = subprocess.run([sys.executable, "-c", _LOAD, str(file)], check=True, capture_output=True, text=True)
    seconds, peak = map(float, done.stdout.split())
    return seconds, peak


if __name__ == "__main__":
    main()
