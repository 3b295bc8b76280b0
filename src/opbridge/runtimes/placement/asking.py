"""A process with libraries in the place of CUDA's, where this machine has no GPU, which asks ONNX Runtime."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opbridge.errors import BuildError, ModelFileError, OpbridgeError, RunError, UsageError
from opbridge.runtimes.cuda_stand_in import libraries
from opbridge.runtimes.onnxruntime import cuda_provider
from opbridge.runtimes.onnxruntime.onnxruntime_private import cuda_version

__all__ = ["asked"]

_SECONDS = 600.0
_CODE = "from opbridge.runtimes.placement.worker import main; main()"


def asked(request: Mapping[str, Any], device: int = 0) -> dict[str, Any]:
    """What the process answers to a request.

    Args:
        request: The request, as `worker` takes it, but for the number of the device.
        device: The GPU that is asked where no libraries can be in the place of CUDA's.

    Raises:
        UsageError: The installed ONNX Runtime has no CUDA, or none of this can be known on this machine.
        ModelFileError: ONNX Runtime refuses the model.
        RunError: The process ended.
    """
    if not cuda_provider.has_provider():
        raise UsageError(
            "Where nodes run on CUDA is asked of onnxruntime-gpu, which is not installed. Install it with: "
            f"{cuda_provider.INSTALL}"
        )
    environment, device = _environment(device)
    request = {**request, "device": device}
    environment["PYTHONPATH"] = os.pathsep.join(each or os.getcwd() for each in sys.path)
    with tempfile.TemporaryDirectory(prefix="opbridge-placement-") as folder:
        given, answer = Path(folder) / "request.json", Path(folder) / "answer.json"
        given.write_text(json.dumps(request))
        command = [sys.executable, "-c", _CODE, str(given), str(answer)]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise RunError(f"ONNX Runtime did not load the model for CUDA in {_SECONDS:.0f} s.") from None
        if not answer.exists():
            said = done.stderr.decode(errors="replace").strip()[-500:]
            raise RunError(f"The process that loads the model for CUDA ended with status {done.returncode}: {said}")
        found: dict[str, Any] = json.loads(answer.read_text())
    if "error" in found:
        kinds: dict[str, type[OpbridgeError]] = {"ModelFileError": ModelFileError, "UsageError": UsageError}
        raise kinds.get(str(found["error"]), RunError)(str(found["message"]))
    return found


def _environment(device: int) -> tuple[dict[str, str], int]:
    """The environment of the process, and the number of its device.

    Raises:
        UsageError: There is no GPU, and nothing can be in its place.
    """
    why = libraries.problem()
    if not why:
        try:
            return libraries.environment(cuda_version()), 0
        except BuildError as error:
            why = str(error).rstrip(".")
    if cuda_provider.obstacle(device):
        raise UsageError(f"Where nodes run on CUDA cannot be asked on this machine: {why}.")
    return dict(os.environ), device
