"""A launch of a kernel, `kernel[grid](...)`, with its decorators taken off and its arguments bound."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from opbridge.base import triton_private
from opbridge.errors import CaptureError, UsageError

__all__ = [
    "DEFAULT_ARCHITECTURES",
    "Launch",
    "Settings",
    "bound",
    "compiling_with",
    "default_architectures",
    "launch_settings",
    "settings",
]

DEFAULT_ARCHITECTURES = ("sm_80", "sm_90")
"""What kernels are compiled for where nothing else is asked for, and no device is in use."""

_ARCHITECTURE = re.compile(r"sm_[0-9]{2,3}a?")


@dataclass(frozen=True)
class Settings:
    """How the kernels of a model are compiled.

    Attributes:
        architectures: The CUDA architectures, such as "sm_90"; in what a user asks for, none: the default ones.
        autotune: By the name of a kernel with @triton.autotune, the number of the configuration that is taken.
    """

    architectures: tuple[str, ...] = DEFAULT_ARCHITECTURES
    autotune: Mapping[str, int] = field(default_factory=dict)


_settings = Settings()


def settings() -> Settings:
    """How kernels are compiled now."""
    return _settings


def launch_settings(architectures: str | Sequence[str] = (), autotune: Mapping[str, int] | None = None) -> Settings:
    """How a user asks for kernels to be compiled; without architectures, they are those of `default_architectures`.

    Raises:
        UsageError: The name of an architecture is that of none.
    """
    given = [architectures] if isinstance(architectures, str) else architectures
    wrong = next((each for each in given if not _ARCHITECTURE.fullmatch(str(each))), None)
    if wrong is not None:
        raise UsageError(f"Unknown architecture '{wrong}'. Name CUDA architectures as in sm_80 or sm_90.")
    return Settings(tuple(dict.fromkeys(given)), dict(autotune or {}))


@contextmanager
def compiling_with(asked: Settings) -> Iterator[None]:
    """Within this context, kernels are compiled so."""
    global _settings
    kept = _settings
    _settings = asked if asked.architectures else Settings(default_architectures(), asked.autotune)
    try:
        yield
    finally:
        _settings = kept


def default_architectures() -> tuple[str, ...]:
    """What kernels are compiled for where nothing else is asked for: that of a device that is in use, too."""
    if not torch.cuda.is_initialized():  # asking would initialize CUDA
        return DEFAULT_ARCHITECTURES
    own = "sm_{}{}".format(*torch.cuda.get_device_capability())
    return tuple(dict.fromkeys((own, *DEFAULT_ARCHITECTURES)))


@dataclass(frozen=True)
class Launch:
    """A launch.

    Attributes:
        kernel: The function with @triton.jit.
        arguments: The values of its parameters, in order.
        options: `num_warps`, `num_stages` and other options of the compiler.
        grid: The numbers of blocks; they may be symbolic.
        note: Which configuration was taken, where there were several; "" where there was one.
    """

    kernel: Any
    arguments: Mapping[str, Any]
    options: Mapping[str, Any]
    grid: tuple[Any, ...]
    note: str = ""

    @property
    def name(self) -> str:
        """The kernel's name."""
        return str(self.kernel.__name__)


def bound(
    launched: Any, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any], fits: Callable[[Launch], str]
) -> Launch:
    """Takes the decorators off a launch.

    1. @triton.heuristics: what it computes becomes an argument.
    2. @triton.autotune: of the configurations, the one that was asked for; else the one that was tuned for these
       arguments in this process; else the first one that fits. Its `pre_hook` is called.
    3. The grid is called with the arguments, where it is a function.

    Args:
        launched: The kernel with its decorators.
        grid: The grid, or the function that computes it.
        args: The positional arguments.
        kwargs: The keyword arguments.
        fits: Why a launch cannot be compiled; "" where it can. Asked where there are several configurations.

    Raises:
        CaptureError: The arguments do not match the kernel, or no configuration fits.
        UsageError: A configuration was asked for that there is not.
    """
    given = dict(kwargs)
    note = ""
    while not triton_private.is_kernel(launched):
        if triton_private.is_heuristics(launched):
            given.update(triton_private.heuristics(launched, {**_named(launched, args), **given}))
        elif triton_private.is_autotuner(launched):
            return _tuned(launched, grid, args, given, fits)
        else:
            raise CaptureError(
                f"The Triton kernel is a {type(launched).__name__}, which is not supported. Use @triton.jit, "
                "@triton.autotune and @triton.heuristics."
            )
        launched = launched.fn
    return _bound(launched, grid, args, given, note)


def _named(decorated: Any, args: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(decorated.arg_names, args, strict=False))


def _tuned(
    launched: Any, grid: Any, args: Sequence[Any], given: dict[str, Any], fits: Callable[[Launch], str]
) -> Launch:
    name = str(triton_private.base_kernel(launched).__name__)
    configs, tuned = triton_private.autotuned(launched, args, given)

    def with_config(config: Any, note: str = "") -> Launch:
        made = bound(launched.fn, grid, args, {**given, **config.all_kwargs()}, fits)
        return Launch(made.kernel, made.arguments, made.options, made.grid, note)

    asked = settings().autotune.get(name)
    if asked is not None:
        if not 0 <= asked < len(launched.configs):
            raise UsageError(
                f"autotune= asks for configuration {asked} of the Triton kernel {name}, which has "
                f"{len(launched.configs)}. Give a number from 0 to {len(launched.configs) - 1}."
            )
        chosen, why = launched.configs[asked], "was asked for"
    elif tuned is not None:
        chosen, why = tuned, "was tuned in this process"
    elif len(configs) == 1:
        chosen, why = configs[0], ""
    else:
        reasons = []
        chosen = None
        for config in configs:
            reason = fits(with_config(config))
            if not reason:
                chosen = config
                break
            reasons.append(f"{config}: {reason}")
        if chosen is None:
            raise CaptureError(
                f"No configuration of the Triton kernel {name} fits {', '.join(settings().architectures)}. "
                f"The first one, {reasons[0]}. Add a smaller configuration, or export for another architecture."
            )
        why = "is the first one that fits; no device was there to tune on" if len(configs) > 1 else ""
    if chosen.pre_hook is not None:
        chosen.pre_hook({**_named(launched, args), **given, **chosen.all_kwargs()})
    number = launched.configs.index(chosen) if chosen in launched.configs else 0
    given_by_it = ", ".join(f"{key}={value}" for key, value in chosen.all_kwargs().items() if value is not None)
    count = len(launched.configs)
    note = f"the Triton kernel {name} runs with configuration {number} of {count} ({given_by_it}), which {why}"
    return with_config(chosen, note if why else "")


def _bound(kernel: Any, grid: Any, args: Sequence[Any], given: Mapping[str, Any], note: str) -> Launch:
    parameters = triton_private.parameters(kernel)
    names = {each.name for each in parameters}
    options = {name: value for name, value in given.items() if name not in names}
    try:
        found = inspect.signature(kernel.fn).bind(*args, **{name: given[name] for name in given if name in names})
    except TypeError as error:
        raise CaptureError(
            f"The Triton kernel {kernel.__name__} is launched with arguments that do not match it: {error}."
        ) from None
    found.apply_defaults()
    arguments = {name: triton_private.unwrapped(value) for name, value in found.arguments.items()}
    blocks = grid(dict(arguments)) if callable(grid) else grid
    blocks = tuple(blocks) if isinstance(blocks, (tuple, list)) else (blocks,)
    blocks = tuple(triton_private.unwrapped(each) for each in blocks)
    if not 0 < len(blocks) < 4:
        raise CaptureError(f"The grid of the Triton kernel {kernel.__name__} has {len(blocks)} dimensions, not 1 to 3.")
    return Launch(kernel, arguments, options, blocks, note)
