"""A whole sweep over models: which ones, where they are tried, what is kept."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from opbridge.base.wording import listed
from opbridge.coverage import building
from opbridge.coverage.engine import files, running
from opbridge.coverage.models import results
from opbridge.coverage.models.catalogue import absent, in_shard, known_families, packages_of, pick
from opbridge.coverage.models.entries import DYNAMIC
from opbridge.coverage.models.results import Results
from opbridge.coverage.models.tasks import ModelSettings, ModelTask
from opbridge.coverage.models.work import ModelWork
from opbridge.errors import UsageError

__all__ = ["sweep"]

_EXPORTERS = ("opbridge", "torch")
_DTYPES = ("float16", "bfloat16")
_SHARE = 0.8
"""What of the machine's memory all workers together may hold."""


def sweep(
    families: str | Sequence[str] | None = None,
    *,
    names: str | Sequence[str] = "*",
    dynamic: str = "batch",
    exporter: str = "opbridge",
    timeout: float = 300.0,
    memory: float | None = None,
    shard: str | None = None,
    target: str | None = None,
    dtype: str | None = None,
    jobs: int | None = None,
    ray: str | None = None,
    output: str | os.PathLike[str] | None = None,
    progress: running.Progress | None = None,
) -> Results:
    """Exports whole models, runs them in ONNX Runtime, and compares them with eager PyTorch.

    1. Each model is built with random weights, and run; then it is exported, loaded, and compared on inputs that the
       export did not see, of other sizes where dimensions are dynamic, by the tolerances of `opbridge.verify`.
    2. Each dimension that was asked to be dynamic has to be so in the file.
    3. Each model runs in a worker process. One that crashes, hangs or takes too much memory costs that model only.
    4. What is done is kept in a file beside `output`, until all is: the same sweep, interrupted and called again, goes
       on from there. `jobs` and `ray` may be others then.

    A script that calls this needs `if __name__ == "__main__":`, as worker processes import it again.

    Args:
        families: The families, by name, or FILE.py:NAME for a list of `entries.ModelEntry`; None: all whose packages
            are installed.
        names: Which models of them, by shell patterns.
        dynamic: Which dimensions are dynamic: "none", "batch", or "all" that users of the model vary.
        exporter: "opbridge", or "torch" (torch.onnx.export with dynamo).
        timeout: The seconds that a model may take.
        memory: The GB that a worker process may hold; None: its share of four fifths of the machine's memory, on a
            cluster any number.
        shard: "K/N": only the models of shard K of N, K from 1 to N. Each model is in one of them by a hash of its
            name, so that a shard is a random sample, and N machines may share a sweep.
        target: The target that the models are exported for, as `opbridge.export` takes it. "tensorrt-rtx", which needs
            no GPU for that, parses and builds each file in place of the run in ONNX Runtime: the outcome is "built",
            "parse error" or "build error".
        dtype: "float16" or "bfloat16": of models and inputs, as with `model.half()`; None: each model's own.
        jobs: How many worker processes; None: one for each core.
        ray: The address of a Ray cluster to use instead.
        output: The file to write; None keeps the results in memory.
        progress: Called after each model.

    Raises:
        UsageError: An argument that cannot be used, a family that is named and not installed, or no model fits.
        SaveError: `output` cannot be written.
        KeyboardInterrupt: It was interrupted; what is done is kept where there is an `output`.
    """
    workers = running.processes(jobs)
    settings = _checked(families, names, dynamic, exporter, timeout, memory, shard, target, dtype)
    path = None if output is None else Path(output)
    tasks, missing = _to_try(settings, families is not None)
    packages = [package for name in settings.families for package in packages_of(name)]
    versions = {**files.versions(*dict.fromkeys(packages)), **building.version_of(target)}
    head = {"versions": versions, "settings": files.plain(settings)}
    work = ModelWork(settings, _limit(memory, None if ray else workers))
    with running.done(work, tasks, head, path, jobs=workers, ray=ray, progress=progress) as done:
        rows = [results.row(task, verdict) for task in tasks if (verdict := done.verdicts[task]) is not None]
        run = {
            "where": "ray" if ray else "local",
            "jobs": None if ray else workers,
            "seconds": done.seconds,
            "cpu_seconds": round(sum(each["cpu_seconds"] for each in rows), 3),
            "resumed_models": done.resumed,
        }
        found = Results(results.document(head, rows, run, missing), path)
        if path is not None:
            files.write(path, found.document, ("families", "models"))
    return found


def _checked(
    families: str | Sequence[str] | None,
    names: str | Sequence[str],
    dynamic: str,
    exporter: str,
    timeout: float,
    memory: float | None,
    shard: str | None,
    target: str | None,
    dtype: str | None,
) -> ModelSettings:
    if dynamic not in DYNAMIC:
        raise UsageError(f"Invalid value dynamic={dynamic!r}; expected one of {', '.join(DYNAMIC)}.")
    if exporter not in _EXPORTERS:
        raise UsageError(f"Unknown exporter {exporter!r}; expected one of {', '.join(_EXPORTERS)}.")
    if not timeout > 0:
        raise UsageError(f"Invalid value timeout={timeout}; expected a number of seconds above 0.")
    if memory is not None and not memory > 0:
        raise UsageError(f"Invalid value memory={memory}; expected a number of GB above 0.")
    if shard is not None:
        _numbers(shard)
    if dtype not in (None, *_DTYPES):
        raise UsageError(f"Unknown dtype {dtype!r}; expected one of {', '.join(_DTYPES)}.")
    building.checked_target(target)
    wanted = known_families() if families is None else (families,) if isinstance(families, str) else tuple(families)
    patterns = (names,) if isinstance(names, str) else tuple(names)
    named = tuple(dict.fromkeys(wanted))
    return ModelSettings(named, patterns, dynamic, exporter, float(timeout), memory, shard, target, dtype)


def _numbers(shard: str) -> tuple[int, int]:
    """K and N of "K/N".

    Raises:
        UsageError: It is something else.
    """
    found = re.fullmatch(r"(\d+)/(\d+)", shard)
    if found is not None:
        number, count = map(int, found.groups())
        if 1 <= number <= count:
            return number, count
    raise UsageError(f"shard={shard!r} is invalid; expected K/N with K from 1 to N, as in --shard 1/4.")


def _limit(memory: float | None, workers: int | None) -> int | None:
    """The bytes that a worker may hold: what was given, in GB, or its share of this machine's memory."""
    if memory is not None:
        return int(memory * 1e9)
    if workers is None:
        return None
    return int(_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / workers)


def _to_try(settings: ModelSettings, is_named: bool) -> tuple[list[ModelTask], dict[str, str]]:
    """The models of a sweep, and the families that are left out, with the reason.

    Raises:
        UsageError: No model fits, or a family that is named is not installed.
    """
    tasks: list[ModelTask] = []
    missing: dict[str, str] = {}
    for family in settings.families:
        packages = absent(family)
        if packages:
            reason = f"{listed(list(packages), 6)} not installed"
            if is_named:
                raise UsageError(
                    f"The family {family} requires packages that are not installed: pip install {' '.join(packages)}."
                )
            missing[family] = reason
            continue
        try:
            fitting = pick(family, settings.names)
            if settings.shard is not None:
                fitting = [name for name in fitting if in_shard(name, *_numbers(settings.shard))]
        except Exception as error:  # a package raises anything when it is imported
            if is_named:
                raise
            missing[family] = f"its models cannot be listed: {type(error).__name__}: {error}"
            continue
        tasks.extend(ModelTask(family, name) for name in fitting)
    if not tasks:
        in_it = f" in shard {settings.shard}" if settings.shard else ""
        said = "".join(f" {family}: {reason}." for family, reason in missing.items())
        raise UsageError(
            f"No model of {', '.join(settings.families)} matches {' or '.join(settings.names)}{in_it}. Use shell "
            f"patterns, as in --name 'resnet*'.{said}"
        )
    return tasks, missing
