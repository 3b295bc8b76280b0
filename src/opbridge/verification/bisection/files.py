"""One side of a comparison: a file in a runtime, whose values are fetched by running parts of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx
import torch

from opbridge.errors import ModelFileError, OpbridgeError, UsageError
from opbridge.onnx import reading, subgraphs
from opbridge.onnx.subgraphs import GraphIndex, bodies
from opbridge.runtimes import known
from opbridge.runtimes.limits import Limits
from opbridge.runtimes.onnxruntime import open_session
from opbridge.runtimes.onnxruntime.loading import LEVELS
from opbridge.runtimes.onnxruntime.model_file import checked_model
from opbridge.runtimes.sessions import open_runtime
from opbridge.verification import exchange
from opbridge.verification.bisection.unending import may_never_end
from opbridge.verification.bisection.workspace import Workspace

__all__ = ["FileSide", "Setting", "opened"]

DISABLED = "disabled"


@dataclass(frozen=True)
class Setting:
    """Where and how files run.

    Attributes:
        runtime: The runtime.
        optimization: ONNX Runtime's level of graph optimisations.
        isolated: Whether a file runs in a process of its own, or with which limits. A file that may never end does in
            any case: a run in this process cannot be ended.

    Raises:
        UsageError: There is no such runtime or level.
    """

    runtime: str = known.ONNXRUNTIME
    optimization: str = DISABLED
    isolated: bool | Limits = True

    def __post_init__(self) -> None:
        known.installed(self.runtime)
        if self.optimization not in LEVELS:
            raise UsageError(f"optimization='{self.optimization}' is invalid; expected one of {', '.join(LEVELS)}.")
        if self.optimization != DISABLED and self.runtime != known.ONNXRUNTIME:
            raise UsageError(
                f"optimization= (--optimization) is valid only for onnxruntime, not for runtime='{self.runtime}'. "
                "Leave it out."
            )

    @property
    def label(self) -> str:
        """The runtime with its version and level: "onnxruntime 1.32.0, optimization all"."""
        level = f", optimization {self.optimization}" if self.runtime == known.ONNXRUNTIME else ""
        return f"{known.label(self.runtime)}{level}"

    @property
    def is_plain(self) -> bool:
        """Whether a value is the same, whichever others are fetched with it: nothing is optimised across them."""
        return self.runtime == "reference" or (self.runtime == known.ONNXRUNTIME and self.optimization == DISABLED)

    def of_model(self, model: onnx.ModelProto) -> Setting:
        """Where and how a model runs: with the limits by default where it may never end."""
        if self.isolated is not False or not may_never_end(model):
            return self
        return replace(self, isolated=Limits())


@contextlib.contextmanager
def opened(path: Path | str | bytes, setting: Setting) -> Iterator[Any]:
    """A session of a file.

    Raises:
        ModelFileError: The runtime refuses it.
    """
    given = str(path) if isinstance(path, Path) else path
    if setting.runtime == known.ONNXRUNTIME:
        session = open_session(given, setting.isolated, optimised=setting.optimization, loaded=True)
    else:
        session = open_runtime(setting.runtime, given, setting.isolated)
    try:
        yield session
    finally:
        if hasattr(session, "close"):
            session.close()


class FileSide:
    """A file in a runtime.

    Attributes:
        index: Its graph.
        label: Its name.
        setting: Where it runs.
        feeds: Its inputs.
        runs: How many times it or a part of it has run.

    Args:
        model: The model, whose weights are places in the workspace.
        workspace: Where parts of it are written.
        label: Its name.
        setting: Where it runs.
    """

    def __init__(self, model: onnx.ModelProto, workspace: Workspace, label: str, setting: Setting) -> None:
        self.index = GraphIndex(model, label)
        self.workspace, self.label, self.setting = workspace, label, setting
        self.feeds: dict[str, torch.Tensor] = {}
        self.runs = 0

    @classmethod
    @contextlib.contextmanager
    def of_file(cls, model: Any, setting: Setting) -> Iterator[FileSide]:
        """The side of a file, whose workspace is removed when the context ends.

        Args:
            model: The path of the file, or its content.
            setting: Where it runs.

        Raises:
            ModelFileError: It cannot be read, or has no valid graph.
        """
        content, label = checked_model(model)
        proto = reading.load_proto(content)
        _check_functions(proto, label)
        with Workspace(proto, content) as workspace:
            yield cls(proto, workspace, label, setting)

    def part(self, model: onnx.ModelProto) -> FileSide:
        """The side of another model with weights of the same workspace."""
        return FileSide(model, self.workspace, self.label, self.setting)

    def given(self, part: onnx.ModelProto, inputs: Mapping[str, torch.Tensor], name: str) -> torch.Tensor | None:
        """What a part of the file is given as an input, or has as a constant; None where it has neither."""
        if name in inputs:
            return inputs[name]
        stored = next((each for each in part.graph.initializer if each.name == name), None)
        if stored is None:
            return None
        tensor = onnx.TensorProto()
        tensor.CopyFrom(stored)
        self.workspace.inline(tensor)
        return torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy())

    @contextlib.contextmanager
    def session(self) -> Iterator[Any]:
        """A session of the whole file."""
        path = self.workspace.write(self.index.model)
        try:
            with opened(path, self.setting.of_model(self.index.model)) as session:
                yield session
        finally:
            path.unlink()

    def fetch(self, names: Sequence[str]) -> dict[str, torch.Tensor]:
        """Values by their names, in one run.

        Where nothing is optimised, only the nodes run that they depend on. Else the whole file runs, with these values
        as outputs in addition to its own.

        Raises:
            OpbridgeError: The runtime refuses the part, or the run fails.
        """
        index = self.index
        made = list(dict.fromkeys(name for name in names if name in index.makers))
        found = {name: self.feeds[name] for name in names if name in self.feeds}
        if made:
            if self.setting.is_plain:
                model = subgraphs.part(index, made, types=_untyped(made))
            else:
                added = [name for name in made if name not in index.outputs]
                outputs = [*index.outputs, *added]
                every = range(len(index.nodes))
                model = subgraphs.part(index, outputs, types=_untyped(added), nodes=every)
            found.update(zip(made, self._run(model, made), strict=True))
        return found

    def compute(self, model: onnx.ModelProto, feeds: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The outputs of a part of the file on inputs that are given.

        Raises:
            OpbridgeError: As `fetch`.
        """
        names = [each.name for each in model.graph.output]
        inputs = {name: feeds[name] for name in subgraphs.inputs_of(model)}
        return dict(zip(names, self._run(model, names, inputs), strict=True))

    def _run(
        self, model: onnx.ModelProto, names: Sequence[str], feeds: Mapping[str, torch.Tensor] | None = None
    ) -> list[torch.Tensor]:
        feeds = self.feeds if feeds is None else feeds
        used = {each.name: feeds[each.name] for each in model.graph.input if each.name in feeds}
        path = self.workspace.write(model)
        self.runs += 1
        try:
            with opened(path, self.setting.of_model(model)) as session:
                return exchange.run(session, used, names)
        except OpbridgeError:
            raise
        except Exception as error:  # the runtimes' errors have no other common base class
            said = " ".join(str(error).split())
            raise ModelFileError(f"{self.setting.label} cannot run {self.label}: {said}") from error
        finally:
            path.unlink()


def _untyped(names: Sequence[str]) -> dict[str, onnx.ValueInfoProto]:
    """Outputs whose types the runtime finds out."""
    return {name: onnx.ValueInfoProto(name=name) for name in names}


def _check_functions(model: onnx.ModelProto, label: str) -> None:
    """Refuses functions that call themselves, which never end.

    Raises:
        ModelFileError: There is one.
    """
    functions = {(each.domain, each.name): each for each in model.functions}
    done: set[tuple[str, str]] = set()
    path: list[tuple[str, str]] = []

    def follow(key: tuple[str, str]) -> None:
        if key in path or len(path) > 200:
            raise ModelFileError(f"{label} is not a valid model: its function {key[0]}::{key[1]} calls itself.")
        if key in done or key not in functions:
            return
        path.append(key)
        pending = list(functions[key].node)
        while pending:
            node = pending.pop()
            for body in bodies(node):
                pending.extend(body.node)
            follow((node.domain, node.op_type))
        path.pop()
        done.add(key)

    for key in functions:
        follow(key)
