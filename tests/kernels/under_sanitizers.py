"""Runs tests with every library of kernels built with sanitizers: the built-in kernels, the aten kernel, the header.

    python tests/kernels/under_sanitizers.py address,undefined [arguments of pytest]
    python tests/kernels/under_sanitizers.py thread [arguments of pytest]

Without further arguments, all tests of kernels but those about building. Python and PyTorch and ONNX Runtime are not
compiled with them: only what our code does is seen. What they order by atomic operations of their own looks like a
race, so that only races between two places of our libraries count; `handover.h` tells of work that is handed over to
their threads.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["environment"]

_HERE = Path(__file__).parent
_RUNTIMES = {"address": "libasan.so", "thread": "libtsan.so"}
_TESTS = (
    *("test_aten_allowed.py", "test_aten_checks.py", "test_aten_kernel.py", "test_kernel_load.py"),
    *("test_kernel_onnx.py", "test_kernel_views.py", "test_builtin_kernels.py", "test_gradients.py"),
    *("test_tensorrt_plugins.py", "test_tensorrt_shapes.py"),
)
_DESELECTED = (
    "sanitizers",  # it builds with sanitizers itself
    "server",  # a program of its own, which is not started with the sanitizers' runtime
    "campaign",
    "mutated",
    *("command_line_builds", "without_a_kernel"),  # they ask a library what is not asked of one with sanitizers
)


def environment(sanitizers: tuple[str, ...], reports: Path) -> dict[str, str]:
    """The environment of a process whose libraries are built with sanitizers, which write to files of a name."""
    from opbridge.kernels.compiler import find_compiler

    libraries = [_RUNTIMES[each] for each in sanitizers if each in _RUNTIMES] + ["libstdc++.so.6"]
    command = find_compiler().command
    paths = [subprocess.check_output([*command, f"-print-file-name={each}"], text=True).strip() for each in libraries]
    options = f"log_path={reports}:detect_leaks=0:allocator_may_return_null=1:report_signal_unsafe=0"
    return {
        **os.environ,
        "LD_PRELOAD": " ".join(paths),
        "ASAN_OPTIONS": options,
        "TSAN_OPTIONS": f"{options}:exitcode=0:ignore_noninstrumented_modules=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, [*sys.path, str(_HERE.parent)])),
        "OPBRIDGE_UNDER_SANITIZERS": ",".join(sanitizers),
    }


def main(arguments: list[str]) -> int:
    """The command line."""
    if "OPBRIDGE_UNDER_SANITIZERS" in os.environ:
        return _run(arguments)
    sanitizers, *chosen = arguments
    chosen = chosen or [*(str(_HERE / each) for each in _TESTS), "-q", "-k", f"not ({' or '.join(_DESELECTED)})"]
    with tempfile.TemporaryDirectory(prefix="opbridge-sanitizers-") as folder:
        reports = Path(folder, "report")
        command = [sys.executable, __file__, *chosen]
        status = subprocess.run(command, env=environment(tuple(sanitizers.split(",")), reports)).returncode
        found = [text for each in sorted(Path(folder).iterdir()) for text in _of_ours(each.read_text(errors="replace"))]
    for text in found[:10]:
        print(text)
    print(f"{len(found)} reports of the sanitizers: {sanitizers}")
    return status or bool(found)


def _of_ours(reports: str) -> list[str]:
    """The reports whose first accesses are all in libraries of ours."""
    return [text for text in reports.split("==================\n") if "SUMMARY" in text and _is_ours(text)]


def _is_ours(text: str) -> bool:
    if "ThreadSanitizer: data race" not in text:
        return True
    accesses = [line for line in text.splitlines() if line.lstrip().startswith("#0 ")]
    # Each names a source of ours, or a library in the cache of builds.
    return len(accesses) > 1 and all("opbridge" in line and "site-packages" not in line for line in accesses[:2])


def _run(arguments: list[str]) -> int:
    """The process in which every library is built so."""
    import pytest

    from opbridge.kernels.compiler import Settings

    sanitizers = tuple(os.environ["OPBRIDGE_UNDER_SANITIZERS"].split(","))
    checked = Settings.__post_init__

    def with_sanitizers(settings: Settings) -> None:
        object.__setattr__(settings, "sanitize", settings.sanitize or sanitizers)
        # Unoptimised code is checked as thoroughly, and compiled four times as fast.
        object.__setattr__(settings, "flags", (*settings.flags, "-O0"))
        checked(settings)

    # Every build of the tests goes through here, whoever asks for it; the types forbid to exchange a method.
    Settings.__post_init__ = with_sanitizers  # type: ignore[method-assign]
    return int(pytest.main(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
