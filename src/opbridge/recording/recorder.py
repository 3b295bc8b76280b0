"""`opbridge.record`: the hooks that note the inputs of a module's calls."""

from __future__ import annotations

import inspect
import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

import torch

from opbridge.base.torch_private import torch_tracing
from opbridge.base.wording import counted
from opbridge.errors import UsageError
from opbridge.recording.calls import RecordedCall, copied, noted, numbers
from opbridge.recording.groups import CallGroup
from opbridge.verification.given_inputs import Calls

if TYPE_CHECKING:
    from opbridge.plan.data import Plan
    from opbridge.program import Program

__all__ = ["Recording", "record"]

_MOST_DIFFERENCES = 4


def record(model: torch.nn.Module, *, keep: int = 8) -> Recording:
    """Records the inputs of a module's calls, to export the module from them.

        with opbridge.record(pipe.unet) as calls:
            pipe("a prompt")
            pipe("a longer prompt", height=768)
        calls.export("unet.onnx")

    Sizes that differ between calls become dynamic dimensions; sizes that vary in step share a name. Arguments that have
    their default's value are left out. The recording ends with the `with`, with `calls.stop()`, or with the export.
    The module is not changed, but for two hooks until then; a call of `model.forward` itself passes them by.

    Args:
        model: The module; also one inside of another, or of a pipeline.
        keep: Of how many calls the inputs are kept, as copies on their device: the first ones of distinct shapes. Of
            the others only shapes are noted.

    Returns:
        The recording, which is a context and holds what was recorded.

    Raises:
        UsageError: The model is no module.
    """
    return Recording(model, keep)


class Recording:
    """The calls of a module that were recorded: what `opbridge.record` returns."""

    def __init__(self, model: torch.nn.Module, keep: int) -> None:
        """Args:
        model: The module.
        keep: Of how many calls the inputs are kept.
        """
        if not isinstance(model, torch.nn.Module):
            raise UsageError(
                f"record expects a torch.nn.Module, got {type(model).__name__}. Pass the module whose calls are to "
                "be recorded."
            )
        if type(keep) is not int or keep < 1:
            raise UsageError(f"keep={keep!r} is invalid; expected a number of calls of 1 or more.")
        self._model, self._keep = model, keep
        self._signature = inspect.signature(torch_tracing.original_module(model).forward)
        self._groups: list[CallGroup] = []
        self._count = self._kept = 0
        self._lock = threading.Lock()
        self._running = threading.local()
        self._hooks = [
            model.register_forward_pre_hook(self._begin, prepend=True, with_kwargs=True),
            model.register_forward_hook(self._end, with_kwargs=True, always_call=True),
        ]

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the recording: the hooks are removed."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def __len__(self) -> int:
        """How many calls were recorded."""
        return self._count

    @property
    def groups(self) -> list[CallGroup]:
        """The calls by their signatures; each group can be exported by itself."""
        return list(self._groups)

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional example inputs: those of one of the calls."""
        return self._only().args

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword example inputs, of the same call."""
        return self._only().kwargs

    @property
    def dynamic_shapes(self) -> dict[str, Any] | None:
        """The dimensions that vary over the calls, in the form of `opbridge.export`; None where none does."""
        return self._only().dynamic_shapes

    @property
    def inputs(self) -> Calls:
        """The other calls whose inputs were kept, for `inputs=` of `opbridge.export`."""
        return self._only().inputs

    def subject(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """The model, its example inputs, and the keywords of `opbridge.export`.

        Raises:
            UsageError: Nothing was recorded, or calls of several signatures.
        """
        self.stop()
        return self._only().subject()

    def check(self, **keywords: Any) -> Plan:
        """`opbridge.check` of the model as it was called; keywords take the place of what was recorded.

        Raises:
            CaptureError: The model cannot be captured.
            UsageError: Nothing was recorded, or calls of several signatures: `groups` has each.
        """
        self.stop()
        return self._only().check(**keywords)

    def export(self, f: str | os.PathLike[str] | BinaryIO | None = None, **keywords: Any) -> Program:
        """`opbridge.export` of the model as it was called; keywords take the place of what was recorded.

        Verification runs the calls that were kept, and fresh inputs of their sizes and others.

        Args:
            f: The file to write; None keeps the model in memory.
            **keywords: Keywords of `opbridge.export`, such as `dynamic_shapes` for other dimensions.

        Raises:
            UsageError: Nothing was recorded, or calls of several signatures: `groups` has each.
            OpbridgeError: What `opbridge.export` raises.
        """
        self.stop()
        return self._only().export(f, **keywords)

    def __str__(self) -> str:
        lines = [f"{counted(self._count, 'call')} of {type(self._model).__name__}"]
        if len(self._groups) == 1:
            return "\n".join([*lines, *self._groups[0].describe()])
        for number, group in enumerate(self._groups):
            first, *rest = group.describe()
            lines += [f"groups[{number}]: {first}", *rest]
        return "\n".join(lines)

    def _begin(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Before a call: its inputs, which it may write to, are copied if they will be kept."""
        if torch.compiler.is_compiling():  # an export or a compilation, and no call
            return
        call = noted(self._signature, args, kwargs)
        if call is None:
            self._stack().append((None, False))
            return
        with self._lock:
            may_be_kept = self._kept < self._keep and not any(
                group.takes(call) and group.has_shapes(call) for group in self._groups
            )
        self._stack().append((copied(call) if may_be_kept else call, may_be_kept))

    def _end(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """After a call; the output is None where it raised."""
        stack = self._stack()
        if torch.compiler.is_compiling() or not stack:
            return
        call, is_copy = stack.pop()
        if call is None or output is None:
            return
        with self._lock:
            self._count += 1
            call.number = self._count
            group = next((each for each in self._groups if each.takes(call)), None)
            if group is None:
                group = CallGroup(self._model, self._signature, call)
                self._groups.append(group)
            self._kept += group.add(call, is_kept=is_copy and self._kept < self._keep)

    def _stack(self) -> list[tuple[RecordedCall | None, bool]]:
        """The calls that this thread is in, the innermost last, each with whether its tensors are copies."""
        stack: list[tuple[RecordedCall | None, bool]] = self._running.__dict__.setdefault("calls", [])
        return stack

    def _only(self) -> CallGroup:
        """The one group.

        Raises:
            UsageError: There is none, or there are several.
        """
        name = type(self._model).__name__
        if not self._groups:
            raise UsageError(
                f"No call of {name} was recorded. Call it, or a module that contains it, inside the recording; "
                "direct calls of its forward method are not recorded."
            )
        if len(self._groups) == 1:
            return self._groups[0]
        raise UsageError(
            f"The {self._count} calls of {name} have {len(self._groups)} signatures, but a file can have only one: "
            f"{'; '.join(self._differences())}. Export one of them with calls.groups[0].export(...), or record "
            "calls with a single signature. To make a varying number an input of the file, pass it as a tensor."
        )

    def _differences(self) -> list[str]:
        """What differs between the groups: "'mask' is left out in call 2, a bool tensor of 2 dimensions in call 1"."""
        found = [group.described_leaves() for group in self._groups]
        places = dict.fromkeys(name for each in found for name in each)
        said = []
        for name in places:
            kinds: dict[str, list[int]] = {}
            for group, each in zip(self._groups, found, strict=True):
                kinds.setdefault(each.get(name, "left out"), []).extend(group.numbers)
            if len(kinds) > 1:
                shown = [
                    f"{kind} in {numbers(sorted(calls))}" for kind, calls in list(kinds.items())[:_MOST_DIFFERENCES]
                ]
                more = f" and {len(kinds) - len(shown)} more" if len(kinds) > len(shown) else ""
                said.append(f"'{name}' is {', '.join(shown)}{more}")
        shown = said[:_MOST_DIFFERENCES] or ["the inputs have a different structure or order"]
        return [*shown, *([f"{len(said) - len(shown)} more inputs differ"] if len(said) > len(shown) else [])]
