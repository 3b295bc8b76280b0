"""`opbridge.profile`."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opbridge.errors import ModelFileError, RunError, UsageError
from opbridge.profiling import file_graph
from opbridge.profiling import inputs as own_inputs
from opbridge.profiling.data import Kernel, TorchTimes
from opbridge.profiling.kinds import kind_of
from opbridge.profiling.origins import Origin, origins
from opbridge.profiling.report import Profile
from opbridge.profiling.running import Measured, Profiled, check_runtime
from opbridge.runtimes import known
from opbridge.runtimes.limits import Limits
from opbridge.runtimes.onnxruntime.kernel_table import CPU
from opbridge.runtimes.onnxruntime.model_file import checked_model

if TYPE_CHECKING:
    from opbridge.rules.measured import Inputs

__all__ = ["profile"]

_SECONDS = 20.0
"""After so many seconds no further run is begun, but for the first three."""


def profile(
    path: str | os.PathLike[str] | bytes,
    model: Any = None,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    runtime: str = "onnxruntime",
    inputs: Inputs | None = None,
    sizes: Mapping[str, int] | None = None,
    runs: int = 20,
    warmup: int = 3,
    threads: int | None = None,
    kernels: Sequence[str | os.PathLike[str]] = (),
    aten: Sequence[str] = (),
    limits: Limits | None = None,
    html: str | os.PathLike[str] | None = None,
) -> Profile:
    """Times an ONNX file by operator, module and source line, beside eager PyTorch.

    1. The file runs in ONNX Runtime with its profiler, in a process of its own, and without it. The time of a node is
       the median over all runs.
    2. A node that ONNX Runtime fused counts for all nodes of the file that it stands for. Nodes that ONNX Runtime
       inserted (Casts, changes of layout, copies between devices) are named as such, and count for the node that they
       were inserted for.
    3. The time of a Loop or an If is without that of the nodes in its bodies.
    4. With a model, eager PyTorch runs on the same inputs, with as many threads, and each of its operators is timed.

    Args:
        path: The path of an ONNX file, or the content of one.
        model: The module, function or ExportedProgram that the file was exported from. Without it the file alone is
            timed, on random inputs or on `inputs`.
        args: With a model, its inputs: a tuple, or one tensor.
        kwargs: With a model, its keyword inputs.
        runtime: "onnxruntime", or "cuda" ("cuda:1" for the second GPU).
        inputs: Without a model, arrays by the names of the inputs or in their order, or the path of an .npz file.
        sizes: Without a model, the sizes of the file's dynamic dimensions by their names, {"n": 8}. A dimension without
            a name is written as "x:0", the input and the axis. Others are 1 where they are the first of an input, else
            64.
        runs: How many runs are measured. No further one is begun after 20 seconds, but for the first three.
        warmup: How many runs precede them, and do not count.
        threads: The number of threads of an operator, for ONNX Runtime and for PyTorch; None: one for each core that
            the process may use.
        kernels: Libraries with kernels of the file, beside those that come with opbridge.
        aten: Operators that PyTorch may run for the file, as `opbridge.session` takes them.
        limits: What the process of the file may use.
        html: A page of HTML to write, with a flame graph.

    Returns:
        The times. `rows("line")` has them by source line; `document()` as plain data.

    Raises:
        ModelFileError: The file is missing, damaged or without nodes, or ONNX Runtime refuses it.
        UsageError: An argument is of the wrong kind, the runtime is not installed or has no profiler, or the inputs do
            not fit the file.
        RunError: The file does not run on the inputs, or the run ended its process.
        SaveError: The page cannot be written.
    """
    from opbridge.pages import writing

    page = None if html is None else writing.refuse_unwritable(html)
    for name, value, least in (("runs", runs, 1), ("warmup", warmup, 0), ("threads", threads, 1)):
        if value is not None and (type(value) is not int or value < least):
            raise UsageError(f"{name}={value!r} is invalid; expected {least} or more.")
    if model is None and (args is not None or kwargs is not None):
        raise UsageError("args= and kwargs= are valid only with a model. Give the model, or arrays in inputs=.")
    if model is not None and (inputs is not None or sizes):
        given = "inputs" if inputs is not None else "sizes"
        raise UsageError(f"{given}= is valid only without a model, whose own inputs are taken. Leave it out.")
    if inputs is not None and sizes:
        raise UsageError("sizes= is valid only for random inputs, but inputs= are given. Leave one of them out.")
    checked, label = checked_model(path)
    check_runtime(runtime)
    proto = file_graph.read(checked, label)
    renamed = file_graph.with_own_names(proto)
    folder = "" if isinstance(checked, bytes) else os.path.dirname(os.path.abspath(checked))
    content = proto.SerializeToString() if renamed else checked
    if threads is None:
        threads = len(os.sched_getaffinity(0))
    limits = limits or Limits()
    try:
        running = Profiled(content, runtime, limits, folder if renamed else "", kernels, aten, threads)
    except ModelFileError as error:
        if not renamed:
            raise
        words = str(error).replace("The model in memory", label)  # what was loaded has other names for its nodes
        raise ModelFileError(words.replace("the working directory", f"the folder {folder}")) from error
    try:
        chosen: dict[str, int] = {}
        times: TorchTimes | None = None
        if model is not None:
            from opbridge.profiling import beside

            matched = beside.Beside(label, checked, model, args, kwargs)
            values = matched.values()
        elif inputs is not None:
            given_arrays = own_inputs.given_feeds(running.inputs, inputs)
            values = {name: own_inputs.as_value(name, each) for name, each in given_arrays.items()}
        else:
            shapes, chosen = own_inputs.sizes_of(running.inputs, own_inputs.sizes_given(sizes))
            values = _that_run(running, own_inputs.random_feeds(running.inputs, shapes), label)
        measured = running.measure(values, runs, warmup, _SECONDS)
    finally:
        running.close()
    if model is not None:
        times = matched.times(runs, warmup, threads, _SECONDS)
    found = Profile(
        file=label,
        runtime=f"{known.split(runtime)[0]} {running.version}",
        threads=threads,
        warmup=warmup,
        runs=measured.runs,
        plain=statistics.median(measured.plain),
        fastest=min(measured.plain),
        profiled=statistics.median(measured.profiled),
        kernels=_kernels(measured, file_graph.graph_of(proto.graph, renamed), runtime),
        torch=times,
        shapes={name: list(each.shape()) for name, each in values.items()},
        sizes=chosen,
        notes=(running.note,) if running.note else (),
    )
    if page is not None:
        found.write_html(page)
    return found


def _that_run(running: Profiled, attempts: Sequence[Mapping[str, Any]], label: str) -> dict[str, Any]:
    """The first of several inputs that the model runs on.

    Raises:
        RunError: It runs on none of them.
    """
    why = ""
    for feeds in attempts:
        values = {name: own_inputs.as_value(name, each) for name, each in feeds.items()}
        failed = running.runs_on(values)
        if not failed:
            return values
        why = why or failed
    raise RunError(
        f"{label} does not run on random inputs: {why.rstrip('.')}. Give its inputs in an .npz file (--inputs), the "
        "sizes of its dynamic dimensions (--size), or the model that it was exported from (SPEC)."
    )


def _kernels(measured: Measured, file: file_graph.FileGraph, runtime: str) -> list[Kernel]:
    """The nodes that ran, the time of bodies subtracted from that of the nodes that hold them."""
    known_origins = origins(file, measured.graph)
    domains = {node.name: node.operator for node in measured.graph.all_nodes()}
    totals = {name: spent for name, _, _, _, spent in measured.kernels}
    inside: dict[str, float] = {}
    for name, spent in totals.items():
        holder = known_origins.get(name, Origin()).holder
        if holder:
            inside[holder] = inside.get(holder, 0.0) + spent
    on_gpu = known.split(runtime)[0] in known.ON_DEVICE
    found = []
    for name, op_type, provider, calls, spent in measured.kernels:
        origin = known_origins.get(name, Origin())
        operator = domains.get(name, op_type)
        own = max(spent - inside.get(name, 0.0), 0.0)
        kind = kind_of(operator, len(origin.of))
        fell = on_gpu and provider == CPU and not kind.startswith("copy")
        times = (calls, own / 1e3, spent / 1e3)
        found.append(Kernel(name, operator, provider, *times, origin.of, origin.near, kind, fell, origin.holder))
    return found
