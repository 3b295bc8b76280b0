"""How fast ONNX Runtime loads and runs opbridge's file of a model, beside torch.onnx's default exporter and PyTorch.

Runs: sessions on the files of torch.onnx's default exporter, of opbridge, and of opbridge with --target onnxruntime
and opset 23, which has fused forms, in one process, in turns, after a warm-up; medians. Eager PyTorch runs before them
and after them, because the threads of a session wait for work so that they take time from PyTorch's. The outputs are
compared first.
Loading: every session in a process of its own, in turns; medians of the time and of the process's peak memory.

    python bench/latency.py                            # every model; yolo11n and UNet need ultralytics and diffusers
    python bench/latency.py --only load                # loading alone
    python bench/latency.py --models BERT --only run   # one row, put into the table
    python bench/latency.py --quick                    # one model, nothing written
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
from typing import Any

import latency_models
import models
import numpy
import torch
from results import commit, interleaved, median, merged, rows_of, table, write_section

import opbridge

_HEADER = ["one run on the CPU, ms", "PyTorch", "torch.onnx", "opbridge", "fused"]
_HEADER += ["opbridge / torch.onnx", "opbridge / PyTorch", "fused / opbridge", "commit"]

LOADED = ("vit_b_16", "resnet50", "BERT", "Llama")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one model; nothing is written")
    parser.add_argument("--runs", type=int, default=50, help="timed runs of each (50)")
    parser.add_argument("--threads", type=int, default=0, help="ONNX Runtime's threads; 0 is one a core (0)")
    parser.add_argument("--models", nargs="*", choices=list(latency_models.MODELS), default=list(latency_models.MODELS))
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
    """The section on latency, which is written after each model."""
    for name in ["resnet50"] if options.quick else options.models:
        if (package := latency_models.missing(name)) is not None:
            print(f"{name} is not measured: {package} is not installed")
            continue
        row = latencies(name, options.runs, options.threads)
        if options.quick:
            print(f"\n{table(_HEADER, [row])}")
            continue
        known = [each for each in rows_of("latency", _HEADER[0]) if len(each) == len(_HEADER)]
        found = {each[0]: each for each in merged(known, [row])}
        body = table(_HEADER, [found[each] for each in latency_models.MODELS if each in found])
        threads = f"{options.threads} threads" if options.threads else "one thread per core"
        said = (
            f"Medians of runs, {options.runs} in the last command, interleaved in one process after a warm-up; "
            f"{threads}. The fused file is opbridge's with `--target onnxruntime --opset 23`. A row is of the commit "
            "that it names."
        )
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
    model, args, kwargs, _ = latency_models.build(name)
    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(model(*args, **kwargs))[0].numpy()
    eager = {"eager": lambda: run(model, args, kwargs)}
    before = interleaved(eager, runs // 2, warm_up=5)["eager"]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        files = {key: Path(folder) / f"{key}.onnx" for key in ("stock", "ours", "fused")}
        torch.onnx.export(model, args, files["stock"], kwargs=kwargs, dynamo=True, verbose=False)
        opbridge.export(model, args, files["ours"], kwargs=kwargs, verify=False)
        opbridge.export(
            model, args, files["fused"], kwargs=kwargs, verify=False, target="onnxruntime", opset_version=23
        )
        sessions = {key: opbridge.session(file, threads=threads) for key, file in files.items()}
    given = [*args, *kwargs.values()]
    feeds = {
        key: {value.name: arg.numpy() for value, arg in zip(session.get_inputs(), given, strict=True)}
        for key, session in sessions.items()
    }
    for key, session in sessions.items():
        found = session.run(None, feeds[key])[0]
        numpy.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4, err_msg=f"{name}, {key}")
    contenders = {key: lambda key=key: sessions[key].run(None, feeds[key]) for key in sessions}
    seconds = interleaved(contenders, runs, warm_up=5)
    sessions.clear()
    plain = median([*before, *interleaved(eager, runs // 2, warm_up=5)["eager"]])
    stock, ours, fused = (median(seconds[key]) for key in contenders)
    times = [f"{each * 1e3:.2f}" for each in (plain, stock, ours, fused)]
    row = [name, *times, *(f"{each:.2f}" for each in (ours / stock, ours / plain, fused / ours)), commit()]
    print(" | ".join(row), flush=True)
    return row


def run(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """One run of PyTorch."""
    with torch.no_grad():
        model(*args, **kwargs)


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
