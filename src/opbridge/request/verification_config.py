"""How a verification is made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opbridge.errors import UsageError
from opbridge.runtimes import known
from opbridge.runtimes.limits import Limits

__all__ = ["VerificationConfig"]


@dataclass(frozen=True)
class VerificationConfig:
    """How a verification is made: the options of `opbridge.verify`.

    Attributes:
        samples: How many runs on fresh inputs are made.
        seed: The seed for fresh inputs and for torch's generators.
        rtol: The relative difference that is allowed; None: by dtype.
        atol: The absolute difference that is allowed; None: by dtype.
        inputs: The user's own inputs, in place of fresh ones (see `opbridge.verification.given_inputs`).
        complete: Whether a size that the capture leaves out, and the model takes, is a difference where the file is
            wrong for it.
        aten: Operators that PyTorch may run for the model, in addition to the default list.
        isolated: Whether the file runs in a process of its own, or with which limits it does.
        runtime: What runs the file.
        profile: For TensorRT-RTX, the ranges of dynamic dimensions by their names.

    Raises:
        UsageError: `samples` or `seed` is no integer or is negative, a tolerance is negative or not finite, or
            `isolated` is something else.
    """

    samples: int = 2
    seed: int = 0
    rtol: float | None = None
    atol: float | None = None
    aten: tuple[str, ...] = ()
    inputs: Any = None
    complete: bool = False
    isolated: bool | Limits = False
    runtime: str = known.ONNXRUNTIME
    profile: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if type(self.samples) is not int or self.samples < 0:
            raise UsageError(f"Invalid value samples={self.samples!r}; expected an integer of 0 or more.")
        if type(self.seed) is not int:
            raise UsageError(f"Invalid value seed={self.seed!r}; expected an integer.")
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if value is not None and not (isinstance(value, (int, float)) and 0 <= value < math.inf):
                raise UsageError(f"{name}={value!r} is not a valid tolerance; expected a number of 0 or more.")
        if not isinstance(self.isolated, (bool, Limits)):
            raise UsageError(f"isolated={self.isolated!r} is invalid; expected True or opbridge.Limits(...).")
        if self.profile and self.runtime not in known.BUILDERS:
            raise UsageError(
                f"profile= (--profile) is valid only for {' and '.join(known.BUILDERS)}, not for {self.runtime}. "
                "Leave it out."
            )
        if self.runtime != known.ONNXRUNTIME:
            known.installed(self.runtime)
            if self.aten:
                raise UsageError(
                    f"aten= is valid only for ONNX Runtime; {self.runtime} does not run nodes in PyTorch. Leave it out."
                )

    @property
    def in_onnxruntime(self) -> bool:
        """Whether the file runs in ONNX Runtime, in which its nodes can be looked at one by one."""
        return self.runtime == known.ONNXRUNTIME
