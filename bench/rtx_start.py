"""How long a fresh process takes to parse and build one small model with TensorRT-RTX.

    python bench/rtx_start.py [--print] [--runs 10]

The model is a Gemm and a Relu, built for sm_89. "the library alone" is TensorRT-RTX's own Python module without
opbridge, "opbridge" reads the model, and parses and builds it as `opbridge engine` does in its child process, with the
profile of its inputs. Seconds are medians of processes in turns: wall-clock time, which depends on other load, and
processor time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from results import median, table, write_section

from opbridge.runtimes import known

_MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 64] x) => (float[n, 32] y) {
  z = Gemm (x, w, b)
  y = Relu (z)
}"""

_ALONE = """
import sys
import tensorrt_rtx_bindings as trt
log = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(log)
network = builder.create_network(0)
parser = trt.OnnxParser(network, log)
assert parser.parse_from_file(sys.argv[1])
configuration = builder.create_builder_config()
configuration.num_compute_capabilities = 1
configuration.set_compute_capability(trt.ComputeCapability.SM89, 0)
profile = builder.create_optimization_profile()
profile.set_shape("x", [1, 64], [8, 64], [64, 64])
configuration.add_optimization_profile(profile)
assert builder.build_serialized_network(network, configuration) is not None
"""

_OPBRIDGE = """
import sys
from opbridge.runtimes.tensorrt_rtx.building import build
assert build(sys.argv[1], asked=["sm_89"]).engine
"""

_CONTENDERS = {"the library alone": _ALONE, "opbridge": _OPBRIDGE}


def main() -> None:
    """Measures, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="write nothing to RESULTS.md")
    parser.add_argument("--runs", type=int, default=10)
    given = parser.parse_args()
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in _CONTENDERS}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.onnx"
        model = onnx.parser.parse_model(_MODEL)
        for name, shape in (("w", (64, 32)), ("b", (32,))):
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(shape, np.float32), name))
        onnx.save(model, path)
        for run in range(-1, given.runs):
            for name, code in _CONTENDERS.items():
                seconds = _timed(code, path)
                if run >= 0:
                    measured[name].append(seconds)
    rows = [
        (name, f"{median([each for each, _ in found]):.2f}", f"{median([each for _, each in found]):.2f}")
        for name, found in measured.items()
    ]
    body = table(("", "seconds", "processor seconds"), rows)
    load = f"The load of the machine was {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."
    body += f"\n\n{known.label('tensorrt-rtx')}, {given.runs} processes each. {load}"
    if given.print:
        print(body)
    else:
        write_section("rtx_start", "A fresh process that builds with TensorRT-RTX", body)


def _timed(code: str, path: Path) -> tuple[float, float]:
    """Seconds and processor seconds of a process."""
    before, start = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-c", code, path], check=True, stderr=subprocess.DEVNULL)
    seconds, after = time.perf_counter() - start, os.times()
    return seconds, after.children_user - before.children_user + after.children_system - before.children_system


if __name__ == "__main__":
    main()
