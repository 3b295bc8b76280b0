"""The process that runs a model with ONNX Runtime's profiler, and without it."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnxruntime

from opbridge.errors import OpbridgeError
from opbridge.kernels import aten
from opbridge.profiling.trace import Timed, runs_of
from opbridge.runtimes.messages import Read
from opbridge.runtimes.onnxruntime import cuda_provider
from opbridge.runtimes.onnxruntime.isolated import tensor_from
from opbridge.runtimes.onnxruntime.kernel_table import LOG_NOTHING
from opbridge.runtimes.onnxruntime.loading import DATA_FOLDER, FLOAT_PRODUCTS, session
from opbridge.runtimes.onnxruntime.model_file import required_kernels
from opbridge.runtimes.serving import Answer, bytes_of, limit_memory, serve, silence

__all__ = ["main"]

_TIMES_FILES = 4

_WITHOUT_WEIGHTS = {
    "session.optimized_model_external_initializers_file_name": "weights",
    "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
}
"""Of the graph that ONNX Runtime writes."""


def main() -> None:
    """Answers requests until the other end closes."""
    serve(_load, _run)


class _Model:
    """A model as it is loaded here, again and again."""

    def __init__(self, asked: Mapping[str, Any], model: str | bytes) -> None:
        self._asked, self._model = asked, model
        given = [each if isinstance(each, str) else tuple(each) for each in asked["providers"] or ()]
        self.providers: list[Any] | None = given or None
        self._unprofiled: Any = None

    def unprofiled(self) -> Any:
        """The session without the profiler, which is kept."""
        if self._unprofiled is None:
            self._unprofiled = self.session({})
        return self._unprofiled

    def close(self) -> None:
        """Frees the session without the profiler."""
        self._unprofiled = None

    def session(self, entries: Mapping[str, str], **attributes: Any) -> Any:
        """A session with the options of this model, and others.

        Args:
            entries: Entries of its configuration.
            **attributes: Attributes of its options.
        """
        options = onnxruntime.SessionOptions()
        options.log_severity_level = LOG_NOTHING
        options.add_session_config_entry(*FLOAT_PRODUCTS)
        if self._asked["folder"]:
            options.add_session_config_entry(DATA_FOLDER, self._asked["folder"])
        for key, value in entries.items():
            options.add_session_config_entry(key, value)
        for name, value in attributes.items():
            setattr(options, name, value)
        return session(
            self._model,
            kernels=self._asked["kernels"],
            providers=self.providers,
            options=options,
            threads=self._asked["threads"],
            aten=self._asked["aten"],
        )


def _load(asked: Mapping[str, Any], model: str | bytes) -> tuple[_Model, dict[str, Any]]:
    silence()
    if aten.NAME in required_kernels(model):
        aten.load_torch("The model", "")
    found = _Model(asked, model)
    if not cuda_provider.is_named(found.providers or ()):
        limit_memory(asked["limits"]["gigabytes"], beside=_TIMES_FILES * bytes_of(model))
    loaded = found.unprofiled()
    answer = {
        "inputs": [[each.name, each.type, each.shape] for each in loaded.get_inputs()],
        "note": loaded.note,
        "version": onnxruntime.__version__,
    }
    return found, answer


def _run(model: _Model, asked: Mapping[str, Any], read: Read) -> Answer:
    feeds = {each["name"]: tensor_from(each, read) for each in asked["feeds"]}
    try:
        if not asked["only_try"]:
            return _profiled(model, feeds, asked)
        model.unprofiled().run_with_ort_values(None, feeds)
        return {}, []
    except Exception as error:  # whatever ONNX Runtime raises; its errors have no other common base class
        message = cuda_provider.with_explanation(" ".join(str(error).split()))
        kind = type(error).__name__ if isinstance(error, OpbridgeError) else "RunError"
        return {"error": kind, "message": message[:4000], "ends": cuda_provider.is_fatal(message)}, []


def _profiled(model: _Model, feeds: Mapping[str, Any], asked: Mapping[str, Any]) -> Answer:
    runs, warmup, seconds = int(asked["runs"]), int(asked["warmup"]), float(asked["seconds"])
    plain = _timed(model.unprofiled(), feeds, warmup, runs, seconds)
    model.close()
    with tempfile.TemporaryDirectory(prefix="opbridge-profile-") as folder:
        (Path(folder) / "weights").symlink_to("/dev/null")  # they would be as large as those of the model
        written = Path(folder) / "loaded.onnx"
        loaded = model.session(
            _WITHOUT_WEIGHTS,
            enable_profiling=True,
            profile_file_prefix=str(Path(folder) / "trace"),
            optimized_model_filepath=str(written),
        )
        graph = written.read_bytes()
        profiled = _timed(loaded, feeds, warmup, runs, seconds)
        with open(loaded.end_profiling(), encoding="utf-8", errors="replace") as lines:
            found = list(runs_of(lines))[warmup:]
    answer = {"plain": plain, "profiled": profiled, "runs": len(found), "kernels": _medians(found)}
    content = json.dumps(answer).encode()
    return {"size": len(content), "graph": len(graph)}, [content, graph]


def _timed(loaded: Any, feeds: Mapping[str, Any], warmup: int, runs: int, seconds: float) -> list[float]:
    """The milliseconds that each run took, after some that do not count; fewer runs where they would take too long."""
    for _ in range(warmup):
        loaded.run_with_ort_values(None, feeds)
    found: list[float] = []
    deadline = time.perf_counter() + seconds
    while len(found) < runs and (len(found) < 3 or time.perf_counter() < deadline):
        start = time.perf_counter()
        loaded.run_with_ort_values(None, feeds)
        found.append(1e3 * (time.perf_counter() - start))
    return found


def _medians(runs: list[Timed]) -> list[list[Any]]:
    """Each node with how often it is computed in a run, and the median of its microseconds in one."""
    keys = dict.fromkeys(key for run in runs for key in run)
    found = []
    for key in keys:
        each = [run.get(key, [0, 0]) for run in runs]
        found.append([*key, statistics.median(one[0] for one in each), statistics.median(one[1] for one in each)])
    return found
