"""A whole sweep: which samples, where they are tried, what is kept."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opbridge.base.routes import ROUTES
from opbridge.coverage import building, results
from opbridge.coverage.databases import ORDER
from opbridge.coverage.engine import files, running
from opbridge.coverage.exporting import EXPORTERS
from opbridge.coverage.results import Results
from opbridge.coverage.tasks import Settings, Verdict, to_try
from opbridge.coverage.work import OperatorWork
from opbridge.errors import UsageError
from opbridge.runtimes import known

__all__ = ["ALLOWED", "head_of", "sweep"]

ALLOWED = tuple(route for route in ROUTES if route != "fallthrough")


def sweep(
    ops: str | Sequence[str] = "*",
    *,
    samples: int = 3,
    dtypes: str | Sequence[str] | None = None,
    opset: int | None = None,
    exporter: str = "opbridge",
    allow: Sequence[str] = ALLOWED,
    timeout: float = 60.0,
    db: str | None = None,
    runtime: str = known.ONNXRUNTIME,
    target: str | None = None,
    jobs: int | None = None,
    ray: str | None = None,
    output: str | os.PathLike[str] | None = None,
    progress: running.Progress | None = None,
) -> Results:
    """Exports samples of operators, runs them in ONNX Runtime, and compares them with eager PyTorch.

    1. Each sample becomes a model whose tensors, also those in lists, are inputs, and whose other arguments are
       constants. It is exported, loaded, run on the sample and compared in shape, dtype and every value.
    2. What differs from one seed to the next is random, and compared in distribution, over many runs.
    3. Each sample runs in a worker process. One that crashes or hangs costs that sample only.
    4. What is done is kept in a file beside `output`, until all is: the same sweep, interrupted and called again, goes
       on from there. `jobs` and `ray` may be others then.

    A script that calls this needs `if __name__ == "__main__":`, as worker processes import it again.

    Args:
        ops: Which operators, by shell patterns, of torch's test database op_db; patterns that begin with
            "torchvision::" name those of torchvision.
        samples: How many samples of each operator and dtype, at most.
        dtypes: Names of dtypes, "all" for all that ONNX and the operator share; None: float32, or else the operator's
            first.
        opset: The opset to export for; None: the exporter's own choice.
        exporter: "opbridge", "torch" (torch.onnx.export with dynamo) or "torchscript" (without).
        allow: The routes that opbridge may take.
        timeout: Seconds that a sample may take.
        db: Another database, `FILE.py:NAME` or `package.module:NAME`: a list of `databases.Entry` or torch's OpInfos.
        runtime: What runs the exported samples, as `opbridge.verify` takes it. One that builds files without a GPU,
            "tensorrt-rtx", parses and builds them where it cannot run them.
        target: The target that opbridge exports for, as `opbridge.export` takes it.
        jobs: How many worker processes; None: one for each core.
        ray: The address of a Ray cluster to use instead.
        output: The file to write; None keeps the results in memory.
        progress: Called after each sample.

    Raises:
        UsageError: an argument that cannot be used, or no operator fits.
        SaveError: `output` cannot be written.
        KeyboardInterrupt: it was interrupted; what is done is kept where there is an `output`.
    """
    settings = _checked(ops, samples, dtypes, opset, exporter, allow, timeout, db, runtime, target)
    workers = running.processes(jobs)
    path = None if output is None else Path(output)
    head = _head(settings)
    tasks, left_out = to_try(settings)
    with running.done(OperatorWork(settings), tasks, head, path, jobs=workers, ray=ray, progress=progress) as done:
        rows = [results.row(task, Verdict("left out", reason)) for task, reason in left_out]
        rows += [results.row(task, verdict) for task in tasks if (verdict := done.verdicts[task]) is not None]
        run = {
            "where": "ray" if ray else "local",
            "jobs": None if ray else workers,
            "seconds": done.seconds,
            "cpu_seconds": round(sum(each["cpu_seconds"] for each in rows), 3),
            "resumed_samples": done.resumed,
        }
        absent = sum(verdict is None for verdict in done.verdicts.values())
        found = Results(results.document(head, rows, run, absent), path)
        if path is not None:
            results.write(path, found.document)
    return found


def head_of(
    ops: str | Sequence[str] = "*",
    *,
    samples: int = 3,
    dtypes: str | Sequence[str] | None = None,
    opset: int | None = None,
    exporter: str = "opbridge",
    allow: Sequence[str] = ALLOWED,
    timeout: float = 60.0,
    db: str | None = None,
    runtime: str = known.ONNXRUNTIME,
    target: str | None = None,
) -> dict[str, Any]:
    """The versions and settings that the file of such a sweep begins with: what its results depend on.

    Raises:
        UsageError: an argument that cannot be used.
    """
    settings = _checked(ops, samples, dtypes, opset, exporter, allow, timeout, db, runtime, target)
    return _head(settings)


def _head(settings: Settings) -> dict[str, Any]:
    versions = {**files.versions("torchvision"), **building.version_of(settings.runtime)}
    return {"versions": versions, "settings": files.plain(settings)}


def _checked(
    ops: str | Sequence[str],
    samples: int,
    dtypes: str | Sequence[str] | None,
    opset: int | None,
    exporter: str,
    allow: Sequence[str],
    timeout: float,
    db: str | None,
    runtime: str,
    target: str | None,
) -> Settings:
    patterns = (ops,) if isinstance(ops, str) else tuple(ops)
    if samples < 1:
        raise UsageError(f"Invalid value samples={samples}; expected 1 or more.")
    if not timeout > 0:
        raise UsageError(f"Invalid value timeout={timeout}; expected a number of seconds above 0.")
    if exporter not in EXPORTERS:
        raise UsageError(f"Unknown exporter {exporter!r}; expected one of {', '.join(EXPORTERS)}.")
    for route in allow:
        if route not in ROUTES:
            raise UsageError(f"Unknown route {route!r}; expected one of {', '.join(ROUTES)}.")
    known.installed(runtime)
    building.checked_target(target)
    wanted = None if dtypes is None else (dtypes,) if isinstance(dtypes, str) else tuple(dtypes)
    dtype_names = [str(dtype).removeprefix("torch.") for dtype in ORDER]
    for name in () if wanted in (None, ("all",)) else wanted or ():
        if name not in dtype_names:
            raise UsageError(f"Unknown dtype {name!r}; expected all, or some of {', '.join(dtype_names)}.")
    library = [pattern.startswith("torchvision::") for pattern in patterns]
    if any(library) and not all(library) and db is None:
        raise UsageError(
            "Operators of torchvision and of torch cannot be combined in one run. Give patterns of one of them."
        )
    database = db or ("torchvision" if any(library) else "torch")
    routes = tuple(route for route in ROUTES if route in allow) if exporter == "opbridge" else ()
    return Settings(patterns, database, samples, wanted, opset, exporter, routes, timeout, runtime, target)
