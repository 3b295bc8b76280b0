"""The outputs of a model in PyTorch, as a verification compares them with a file's."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from opbridge.base.torch_private.torch_float64 import rounded_otherwise
from opbridge.verification.eager import Eager
from opbridge.verification.float64 import run_in_float64

__all__ = ["ModelOutputs"]


class ModelOutputs:
    """Gives the outputs of one model on inputs."""

    def __init__(
        self, model: Any, eager: Eager, compared: Callable[[Sequence[Any]], list[torch.Tensor]], seed: int
    ) -> None:
        """Args:
        model: A module, a function or an ExportedProgram.
        eager: Runs it.
        compared: Gives, of the leaves of what the model returns, the tensors that are compared.
        seed: The seed for torch's generators where no other is given.
        """
        self._model, self._eager, self._compared, self._seed = model, eager, compared, seed

    @property
    def used_generator(self) -> bool:
        """Whether the last run drew numbers from torch's generator for the CPU."""
        return self._eager.used_generator

    def __call__(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        seed: int | None = None,
        in_float64: bool = False,
        rounding: int | None = None,
    ) -> list[torch.Tensor]:
        """The outputs.

        Args:
            args: The positional inputs.
            kwargs: The keyword inputs.
            seed: The seed for torch's generators.
            in_float64: Whether the model computes in float64.
            rounding: The seed for how sums and sigmoids are rounded otherwise; None: they are PyTorch's.

        Raises:
            Exception: Whatever the model raises.
        """
        seed = self._seed if seed is None else seed
        if in_float64:
            return self._compared(run_in_float64(self._model, args, kwargs, seed, self._eager.lists))
        within = contextlib.nullcontext if rounding is None else functools.partial(rounded_otherwise, rounding)
        return self._compared(self._eager.run(args, kwargs, seed, within))
