"""The user's model, run in PyTorch without lasting effects on the model and on torch's generators."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from opbridge.base.dropped_prints import dropping_prints
from opbridge.base.sources import innermost
from opbridge.base.torch_private import torch_tracing
from opbridge.capture.containers import register_containers
from opbridge.capture.model_state import ModelState
from opbridge.errors import OpbridgeError
from opbridge.graph.open_lists import Form, with_open_lists
from opbridge.kernels.triton.eager import running_on_cpu

__all__ = ["Eager", "explain", "failure"]

_LONGEST_MESSAGE = 200


class Eager:
    """A model whose result depends on its inputs and the seed only, and not on earlier calls.

    1. It runs in its current mode (training or evaluation), and without gradients unless it fails without them. Its
       inputs require a gradient where it fails even so.
    2. It is called with copies of its inputs, as it may write to them.
    3. Buffers, attributes, the tensors and containers among them, and gradients are restored after each run: an
       exported model has no state either.
    4. torch's generators are seeded, and restored.
    5. What the model prints is printed in the first run only.

    Attributes:
        used_generator: Whether the last run drew numbers from torch's generator for the CPU.
        structure: The pytree structure of what the last run returned; None before it.
        lists: The lists in what it returns of which a file has the joined form; see `opbridge.graph.open_lists`.
    """

    def __init__(self, model: Any, lists: Mapping[str, Form] | None = None, *, prints: bool = True) -> None:
        """Args:
        model: A module, a function or an ExportedProgram.
        lists: The lists in what it returns of which a file has the joined form.
        prints: Whether what it prints in its first run is printed.
        """
        self.lists = lists or {}
        self._call = model.module() if isinstance(model, ExportedProgram) else torch_tracing.original_module(model)
        self._state = ModelState(self._call) if isinstance(self._call, torch.nn.Module) else None
        self._grad = self._grad_of_inputs = False
        self._has_printed = not prints
        self.used_generator = False
        self.structure: pytree.TreeSpec | None = None

    def run(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        seed: int,
        within: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> list[Any]:
        """Runs the model.

        Args:
            args: The positional inputs.
            kwargs: The keyword inputs.
            seed: The seed for torch's generators.
            within: Makes the context in which the model is called.

        Returns:
            The leaves of the model's output, tensors and others, in order.

        Raises:
            Exception: Whatever the model raises.
        """
        try:
            return self._run(args, kwargs, seed, within)
        except RuntimeError as error:
            if self._grad_of_inputs or not torch_tracing.asks_for_gradient(error):
                raise
            self._grad, self._grad_of_inputs = True, self._grad
            return self.run(args, kwargs, seed, within)

    def _run(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        seed: int,
        within: Callable[[], AbstractContextManager[None]],
    ) -> list[Any]:
        register_containers((args, kwargs))  # or the model writes to the tensors of one that torch does not know
        args, kwargs = pytree.tree_map_only(torch.Tensor, self._copied, (args, dict(kwargs)))
        with torch.set_grad_enabled(self._grad), _seeded(seed):
            before = torch.get_rng_state()
            try:
                with within(), dropping_prints(self._has_printed), running_on_cpu():
                    self._has_printed = True
                    output = self._call(*args, **kwargs)
                register_containers(output)
                leaves, self.structure = pytree.tree_flatten(with_open_lists(output, self.lists))
                held = self._state.storages() if self._state else set()
                return [_independent(leaf, held) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            finally:
                self.used_generator = not torch.equal(torch.get_rng_state(), before)
                if self._state:
                    self._state.restore()

    def _copied(self, tensor: torch.Tensor) -> torch.Tensor:
        copied = tensor.detach().clone()
        is_differentiable = copied.is_floating_point() or copied.is_complex()
        return copied.requires_grad_() if self._grad_of_inputs and is_differentiable else copied


def failure(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Exception | None:
    """What a model raises on its example inputs, without an export; None where it runs, or an operator has no kernel.

    Args:
        model: A module, a function or an ExportedProgram.
        args: The positional inputs.
        kwargs: The keyword inputs.
    """
    try:
        Eager(model).run(args, kwargs, seed=0)
    except (NotImplementedError, OpbridgeError):  # which an export does without, or which is said of a Triton kernel
        return None
    except Exception as error:  # the model is the user's
        # LAPACK's operators say so too of what only another device has.
        return None if "not implemented on the CPU" in str(error) else error
    return None


def explain(error: BaseException) -> str:
    """The error of a model in one line: its type, the line of the model's source, and the message."""
    message = " ".join(str(error).split())
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[:_LONGEST_MESSAGE].rstrip()} ..."
    trace = traceback.extract_tb(error.__traceback__)
    called = max((number for number, frame in enumerate(trace, 1) if frame.filename == __file__), default=0)
    frames = innermost("".join(traceback.format_list(trace[called:])))
    where = f" at {frames[0]}" if frames else ""
    return f"{type(error).__name__}{where}" + (f": {message}" if message else "")


def _independent(tensor: torch.Tensor, held: set[int]) -> torch.Tensor:
    """A detached tensor that does not share memory with the model's buffers, which are restored."""
    tensor = tensor.detach()
    shares = tensor.layout == torch.strided and tensor.untyped_storage().data_ptr() in held
    return tensor.clone() if shares else tensor


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Within this context, torch's generators are seeded; those of a CUDA device, where one is in use."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(list(devices)):
        if devices:
            torch.manual_seed(seed)
        else:
            torch.default_generator.manual_seed(seed)  # without the stack trace that torch keeps for CUDA's sake
        yield
