"""What tests of built-in kernels share: the same calls in ONNX Runtime, in PyTorch and under the sanitizers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from kernels.cases import Attributes, Case, Refused
from kernels.running import TOLERANCE, assert_near, through_onnxruntime

from opbridge.kernels.build import build
from opbridge.kernels.builtin import load_builtin
from opbridge.kernels.compiler import Settings, find_compiler
from opbridge.kernels.shipped import LIBRARIES

__all__ = ["DTYPES", "Kernels", "as_tensors", "assert_clean", "read_beyond_inputs"]

DTYPES = list(TOLERANCE)
_HERE = Path(__file__).parent
_SANITIZERS = ("address", "undefined")


class Kernels:
    """The built-in kernels, called with cases."""

    def __init__(self) -> None:
        self.operators = load_builtin()

    def session(self, model: bytes) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 2
        options.register_custom_ops_library(str(self.operators.path))
        return onnxruntime.InferenceSession(model, options)

    def check_in_onnxruntime(self, cases: Sequence[Case], dtype: str) -> None:
        """Each case gives its results in ONNX Runtime."""
        for case in cases:
            outputs = len(case.expected)
            actual = through_onnxruntime(case.operator, case.inputs, case.attributes, outputs, dtype, self.session)
            assert_near(actual, case, dtype)

    def check_in_torch(self, cases: Sequence[Case], dtype: str) -> None:
        """Each case gives its results in PyTorch, with inputs that are not row-major too."""
        for case in cases:
            for order in (_same, _backwards):
                inputs = [order(each) for each in case.inputs]
                results = called(case.operator, inputs, case.attributes, _torch(dtype))
                assert_near([result.double().numpy() for result in results], case, dtype)

    def check_refused(self, refused: Refused) -> None:
        """A call is an error in both, with its words."""
        inputs = refused.inputs()
        outputs = refused.outputs
        with pytest.raises(Exception, match=refused.words):
            through_onnxruntime(refused.operator, inputs, refused.attributes, outputs, "float32", self.session)
        with pytest.raises(Exception, match=refused.words):
            called(refused.operator, inputs, refused.attributes, torch.float32)


def as_tensors(inputs: Sequence[np.ndarray | None], dtype: torch.dtype) -> list[torch.Tensor | None]:
    """The inputs of a case, those of floating point in a dtype."""
    tensors = [None if each is None else torch.from_numpy(each) for each in inputs]
    return [each.to(dtype) if each is not None and each.is_floating_point() else each for each in tensors]


def called(
    operator: str, inputs: Sequence[np.ndarray | None], attributes: Attributes, dtype: torch.dtype
) -> list[torch.Tensor]:
    """The outputs of an operator of opbridge_ops."""
    results = getattr(torch.ops.opbridge_ops, operator)(*as_tensors(inputs, dtype), **attributes)
    return [results] if isinstance(results, torch.Tensor) else list(results)


def _torch(dtype: str) -> torch.dtype:
    found: torch.dtype = getattr(torch, dtype)
    return found


def _same(value: np.ndarray | None) -> np.ndarray | None:
    return value


def _backwards(value: np.ndarray | None) -> np.ndarray | None:
    """The same tensor, in memory with its first dimension innermost."""
    return None if value is None else np.asfortranarray(value)


def assert_clean(module: str, names: Sequence[str], seeds: int) -> None:
    """The cases of a module run without a finding of the sanitizers of addresses and of undefined behaviour."""
    folder = LIBRARIES["_builtin"].folder
    # Unoptimised code is checked as thoroughly, and compiled four times as fast.
    library = build(*(folder / f"{name}.cpp" for name in names), sanitize=_SANITIZERS, flags=["-O0"])
    environment = os.environ | {
        "LD_PRELOAD": find_compiler().preload(Settings(sanitize=_SANITIZERS)) or "",
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own
        "PYTHONPATH": os.pathsep.join([str(_HERE.parent), *sys.path]),
    }
    command = [sys.executable, str(_HERE / "sanitized.py"), str(library), module, str(seeds)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.strip().endswith("clean"), done.stdout + done.stderr


def read_beyond_inputs(modules: Sequence[str], seeds: int) -> str:
    """The call of a case of these modules that has read beyond an input or before it; "nothing" where none has."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(_HERE.parent), *sys.path])}
    command = [sys.executable, str(_HERE / "between_pages.py"), str(seeds), *modules]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGSEGV), done.stdout[-1000:] + done.stderr[-2000:]
    return done.stdout.strip().splitlines()[-1]
