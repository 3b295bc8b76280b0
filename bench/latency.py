"""How fast ONNX Runtime runs opbridge's file of a model, beside the file that torch.onnx's default exporter writes.

Both sessions in one process, in turns, after a warm-up; medians. The outputs of the two are compared first.

    python bench/latency.py            # every model
    python bench/latency.py --quick    # one model, nothing written
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import tempfile
import warnings
from pathlib import Path

import models
import numpy
import torch
from results import interleaved, median, table, write_section

import opbridge


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one model; nothing is written")
    parser.add_argument("--runs", type=int, default=50, help="timed runs of each (50)")
    parser.add_argument("--threads", type=int, default=0, help="ONNX Runtime's threads; 0 is one a core (0)")
    parser.add_argument("--models", nargs="*", default=list(models.NAMES))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    names = ["resnet50"] if options.quick else options.models
    rows = [latencies(name, options.runs, options.threads) for name in names]
    body = table(["one run in ONNX Runtime, ms", "torch.onnx", "opbridge", "opbridge / torch.onnx"], rows)
    if options.quick:
        print(f"\n{body}")
        return
    threads = f"{options.threads} threads" if options.threads else "one thread a core"
    said = f"Medians of {options.runs} runs, in turns in one process after a warm-up; one image; {threads}."
    write_section("latency", "Latency of the exported models", f"{said}\n\n{body}")


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


if __name__ == "__main__":
    main()
