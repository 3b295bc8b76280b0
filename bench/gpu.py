"""Kernels on a CUDA device: right by float64 on the CPU, in PyTorch and ONNX Runtime, and how long they take.

One script of at most four minutes, for a machine with a GPU and no network. It needs torch with CUDA and what opbridge
needs; with onnxruntime-gpu the kernels run there too, and compute-sanitizer is used where it is installed.

    python bench/gpu.py             # writes the section to bench/RESULTS.md
    python bench/gpu.py --check     # compares and measures nothing; what compute-sanitizer runs
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import gpu_builtin
import gpu_models
import onnx
import torch
from gpu_tensorrt import check_plugins
from results import table, write_section

import opbridge
from opbridge.kernels.builtin import load_builtin

ELEMENTS = Path(__file__).parents[1] / "tests" / "kernels" / "elements.cpp"
LAUNCHES = ELEMENTS.with_name("launches.cpp")
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.float16: 5e-3, torch.bfloat16: 4e-2}

Case = tuple[str, torch.Tensor, torch.Tensor]  # what it is, a result on the device, and what it should be


def main() -> int:
    """The command line; 1 where a result is wrong, 2 where there is no device."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare; write nothing")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("This torch finds no CUDA device, so that nothing was run.")
        return 2
    elements, builtin = opbridge.load(ELEMENTS), load_builtin()
    launched = opbridge.load(LAUNCHES)
    cases = [
        *element_cases(elements),
        *convolution_cases(builtin),
        *launch_cases(launched),
        *gpu_builtin.cases(),
        *graph_cases(elements),
        *refused(elements),
    ]
    wrong = [line for case in cases if (line := difference(*case))]
    for line in wrong:
        print(line)
    print(f"{len(cases) - len(wrong)} of {len(cases)} results in PyTorch are right")
    of_plugins, wrong_plugins = check_plugins()
    print("\n".join([*wrong_plugins, of_plugins]))
    if options.check:
        return int(bool(wrong or wrong_plugins))
    rows = [*convolution_times(builtin), *launch_times(elements)]
    for calls in (gpu_builtin.timed(builtin), gpu_builtin.backward_calls(builtin)):
        rows += [compared(*each) for each in calls]
    said = [
        f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, commit {commit()}. {len(cases) - len(wrong)} of "
        f"{len(cases)} results in PyTorch agree with float64 on the CPU.",
        of_plugins,
        through_onnxruntime(elements),
        sanitized(),
        table(["operator and size", "opbridge, ms", "PyTorch, ms", "ratio"], rows),
    ]
    write_section("gpu", "Kernels on a CUDA device", "\n\n".join([*said, *wrong, *wrong_plugins]))
    models, wrong_models = gpu_models.report()
    write_section("gpu-models", "Models on a CUDA device", "\n\n".join([models, *wrong_models]))
    return int(bool(wrong or wrong_plugins or wrong_models))


def difference(name: str, found: torch.Tensor, expected: torch.Tensor) -> str:
    """What is wrong with a result, or nothing."""
    if found.shape != expected.shape:
        return f"WRONG {name}: the shape is {tuple(found.shape)}, expected {tuple(expected.shape)}"
    if not found.numel():
        return ""
    got, expected = found.cpu().double(), expected.cpu().double()
    # What is no number or infinite has to be the same, and is then no difference.
    same = (got == expected) | (got.isnan() & expected.isnan())
    error = torch.where(same, 0.0, (got - expected).abs()).max().item()
    limit = TOLERANCE.get(found.dtype, 0.0) * max(
        1.0, expected[expected.isfinite()].abs().amax().item() if expected.isfinite().any() else 1.0
    )
    return "" if error <= limit else f"WRONG {name}: the difference is {error:.3g}, expected at most {limit:.3g}"


def element_cases(ops: opbridge.kernels.load.Operators) -> Iterator[Case]:
    """Functions of an element: types, strides, broadcasting, several outputs, other streams, large tensors."""
    generator = torch.Generator().manual_seed(0)
    for dtype in DTYPES:
        a, b = torch.randn(2, 33, 65, generator=generator).to(dtype)
        on = a.cuda(), b.cuda()
        yield f"scaled_add {dtype}", ops.scaled_add(*on, alpha=3.0), (3.0 * a.double() + b.double()).to(dtype)
        strided = ops.scaled_add(on[0].t(), on[1].t())
        yield f"strided {dtype}", strided, (2.0 * a.t().double() + b.t().double()).to(dtype)
        wide = ops.broadcast_add(on[0], on[1][:, :1])
        yield f"broadcast_add {dtype}", wide, (2.0 * a.double() + b[:, :1].double()).to(dtype)
        value, chosen = ops.split(on[0], None, 2.0, least=1, flip=True)
        yield f"split {dtype}", value, (-2.0 * a.double().abs()).to(dtype)
        yield f"split's second output {dtype}", chosen, 2.0 * a.double().abs() >= 1
        x = a.reshape(1, 33, 65)
        pooled = torch.nn.functional.avg_pool1d(torch.nn.functional.pad(x.double(), (1, 1)), 3, 2)
        yield f"smooth {dtype}", ops.smooth(x.cuda(), 2), pooled.to(dtype)
    yield "an empty tensor", ops.scaled_add(torch.empty(0, 3).cuda(), torch.empty(0, 3).cuda()), torch.empty(0, 3)
    with torch.cuda.stream(torch.cuda.Stream()):
        x = torch.full((1 << 22,), 2.0, device="cuda")
        y = ops.scaled_add(x, x)
        yield "another stream", y, torch.full((1 << 22,), 6.0)
    if torch.cuda.get_device_properties(0).total_memory > 40 << 30:
        x = torch.ones((1 << 31) + 8, dtype=torch.float16, device="cuda")
        yield "more than 2^31 elements", ops.scaled_add(x, x)[-16:], torch.full((16,), 3.0, dtype=torch.float16)


def composed(x: torch.Tensor, weight: torch.Tensor, padding_l: int) -> torch.Tensor:
    """A dynamic convolution by unfold and einsum."""
    batch, channels, time = x.shape
    heads, taps = weight.shape[1:3]
    padded = torch.nn.functional.pad(x, (padding_l, taps - 1 - padding_l))
    windows = padded.unfold(2, taps, 1).reshape(batch, heads, channels // heads, time, taps)
    return torch.einsum("bhctk,bhkt->bhct", windows, weight).reshape(batch, channels, time)


def convolution(batch: int, channels: int, time: int, heads: int, taps: int) -> tuple[torch.Tensor, torch.Tensor, int]:
    generator = torch.Generator().manual_seed(batch + taps)
    x = torch.randn(batch, channels, time, generator=generator, dtype=torch.float64)
    weight = torch.randn(batch, heads, taps, time, generator=generator, dtype=torch.float64).softmax(2)
    return x, weight, taps // 2


def convolution_cases(ops: opbridge.kernels.load.Operators) -> Iterator[Case]:
    """dynamic_conv against its composition in float64."""
    for sizes in ((2, 8, 20, 4, 7), (1, 6, 1, 3, 3), (2, 64, 300, 8, 31), (1, 4, 5, 2, 1)):
        x, weight, padding = convolution(*sizes)
        for dtype in DTYPES:
            given = x.to(dtype), weight.to(dtype)
            found = ops.dynamic_conv(given[0].cuda(), given[1].cuda(), padding)
            yield f"dynamic_conv {sizes} {dtype}", found, composed(given[0].double(), given[1].double(), padding)


def launch_cases(ops: opbridge.kernels.load.Operators) -> Iterator[Case]:
    """Kernels of a .cu file: shared memory, atomics, several launches, sizes that only the kernel knows."""
    x = torch.rand(100_000, generator=torch.Generator().manual_seed(0)) * 3 - 1
    yield "histogram", ops.histogram(x.cuda(), 0.0, 1.0), torch.histc(x, 8, 0, 1) / len(x)
    yield "positive", ops.positive(x.cuda()), torch.ones(int((x > 0).sum()))
    for dtype in DTYPES:
        rows = x[:9000].reshape(30, 300).to(dtype)
        yield f"softmax {dtype}", ops.softmax(rows.cuda()), rows.double().softmax(1)
    yield "repeat, times on the device", ops.repeat(x.cuda(), torch.tensor([3]).cuda()), x.repeat(3)
    yield "repeat, times on the CPU", ops.repeat(x.cuda(), torch.tensor([2])), x.repeat(2)


def graph_cases(ops: opbridge.kernels.load.Operators) -> Iterator[Case]:
    """A captured graph, launched again with other values."""
    x = torch.ones(1000, device="cuda")
    ops.scaled_add(x, x)  # loads the code
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = ops.scaled_add(x, x)
    x.fill_(5.0)
    graph.replay()
    torch.cuda.synchronize()
    yield "a captured graph", y.clone(), torch.full((1000,), 15.0)


def refused(ops: opbridge.kernels.load.Operators) -> Iterator[Case]:
    """Errors, after which the context goes on."""
    for words, arguments in (
        ("must have the same shape", (torch.ones(3).cuda(), torch.ones(4).cuda())),
        ("Move them to one device", (torch.ones(3).cuda(), torch.ones(3))),
    ):
        try:
            ops.scaled_add(*arguments)
            said = ""
        except RuntimeError as error:
            said = str(error)
        yield f"an error with '{words}' (was: {said})", torch.tensor(words in said), torch.tensor(True)
    x = torch.ones(3).cuda()
    yield "a call after errors", ops.scaled_add(x, x), torch.full((3,), 3.0)


def milliseconds(call: Callable[[], object]) -> float:
    """The median time on the device of a call."""
    for _ in range(5):
        call()
    found = []
    for _ in range(15):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(20):
            call()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) / 20)
    return statistics.median(found)


def compared(name: str, ours: Callable[[], object], theirs: Callable[[], object] | None) -> Sequence[str]:
    first = milliseconds(ours)
    if theirs is None:
        return name, f"{first:.4f}", "", ""
    second = milliseconds(theirs)
    return name, f"{first:.4f}", f"{second:.4f}", f"{second / first:.2f}"


def convolution_times(ops: opbridge.kernels.load.Operators) -> Iterator[Sequence[str]]:
    for sizes in ((16, 512, 32, 8, 31), (8, 512, 1024, 8, 15)):
        for dtype in (torch.float32, torch.float16):
            x, weight, padding = convolution(*sizes)
            given = x.to(dtype).cuda(), weight.to(dtype).cuda(), padding
            name = f"dynamic_conv {sizes}, {str(dtype).removeprefix('torch.')}"
            yield compared(name, lambda given=given: ops.dynamic_conv(*given), lambda given=given: composed(*given))


def launch_times(ops: opbridge.kernels.load.Operators) -> Iterator[Sequence[str]]:
    for count in (1, 1 << 24):
        a, b = torch.randn(2, count, device="cuda")
        name = f"scaled_add of {count} elements"
        yield compared(name, lambda a=a, b=b: ops.scaled_add(a, b), lambda a=a, b=b: torch.add(b, a, alpha=2.0))


def through_onnxruntime(ops: opbridge.kernels.load.Operators) -> str:
    """The same kernel in ONNX Runtime's CUDA provider, where it is installed."""
    import numpy as np
    import onnxruntime

    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return "This onnxruntime has no CUDA execution provider, so that the kernels were not run there."
    node = onnx.helper.make_node("scaled_add", ["a", "b"], ["y"], domain="elementtest", alpha=3.0)
    values = [onnx.helper.make_tensor_value_info(name, 1, ["n"]) for name in "aby"]
    graph = onnx.helper.make_graph([node], "g", values[:2], values[2:])
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("elementtest", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(ops.path))
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")  # an error where a node is on the CPU
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CUDAExecutionProvider"])
    a, b = np.random.default_rng(0).standard_normal((2, 1000)).astype(np.float32)
    error = float(np.abs(session.run(None, {"a": a, "b": b})[0] - (3 * a + b)).max())
    return f"In onnxruntime {onnxruntime.__version__}, on its CUDA provider, the largest error is {error:.3g}."


def sanitized() -> str:
    """What compute-sanitizer finds in the comparisons."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        return "compute-sanitizer is not installed."
    command = [program, "--error-exitcode", "9", sys.executable, __file__, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return f"compute-sanitizer: {'no error' if done.returncode == 0 else done.stdout[-2000:]}."


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ELEMENTS.parent)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
