"""A model parsed and built by TensorRT-RTX, which takes no GPU: an engine for the architectures that it knows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opbridge.errors import ModelFileError, UsageError
from opbridge.runtimes.described import described
from opbridge.runtimes.tensorrt_rtx.profile import DEFAULT, InputSizes, Range, sizes_of
from opbridge.runtimes.tensorrt_rtx.refusals import Complaint, explained
from opbridge.runtimes.tensorrt_rtx.wheel import version

__all__ = ["Attempt", "architectures", "attempt", "build", "chosen_architectures", "logger"]


@dataclass(frozen=True)
class Attempt:
    """What came of a model.

    Attributes:
        stage: "parse" or "build", where it was refused there; "built".
        engine: The engine's content; empty where there is none.
        architectures: Those that the engine is for.
        complaints: What was said where it was refused.
        refusing: By the architectures that it cannot be built for, where it can for others, what was said.
        shapes: The shapes that the engine is built for, at the least, the usual and the most, by the input.
        values: The values of inputs that shapes are computed from, likewise.
    """

    stage: str
    engine: bytes = b""
    architectures: tuple[str, ...] = ()
    complaints: tuple[Complaint, ...] = ()
    refusing: Mapping[str, tuple[Complaint, ...]] = field(default_factory=dict)
    shapes: Mapping[str, InputSizes] = field(default_factory=dict)
    values: Mapping[str, InputSizes] = field(default_factory=dict)


def architectures() -> list[str]:
    """The architectures of GPUs that an engine can be built for: "sm_75"."""
    import tensorrt_rtx_bindings as trt

    return [f"sm_{name[2:]}" for name in trt.ComputeCapability.__members__ if name.startswith("SM")]


def chosen_architectures(asked: Sequence[str]) -> list[str]:
    """Architectures by their names; all of them where none is asked for.

    Raises:
        UsageError: There is none of a name.
    """
    known = architectures()
    wanted = list(dict.fromkeys(each.lower().replace("sm", "sm_").replace("__", "_") for each in asked))
    if unknown := [each for each in wanted if each not in known]:
        raise UsageError(
            f"TensorRT-RTX {version()} does not build for the architecture '{unknown[0]}'. It builds for "
            f"{', '.join(known)}."
        )
    return wanted or known


def build(
    model: str | bytes,
    *,
    profile: Mapping[str, Range] | None = None,
    asked: Sequence[str] = (),
) -> Attempt:
    """An engine of a model.

    Args:
        model: The path of the file, or its content.
        profile: The ranges of dynamic dimensions, by their names; others have `profile.DEFAULT`.
        asked: The architectures, all of which it has to be built for; none: all that it can be built for.

    Raises:
        ModelFileError: It is refused; the message names the node and the line of the model.
        UsageError: There is no such architecture, or the profile names no dimension of the model.
    """
    found = attempt(model, profile=profile, asked=asked)
    if found.stage != "built":
        said = explained(found.complaints, model)
        raise ModelFileError(f"TensorRT-RTX {version()} cannot {found.stage} the model: {said}.")
    if asked and found.refusing:
        refusing, complaints = next(iter(found.refusing.items()))
        raise ModelFileError(
            f"TensorRT-RTX {version()} cannot build the model for {refusing}: {explained(complaints, model)}. It "
            f"builds for {', '.join(found.architectures)}."
        )
    return found


def attempt(
    model: str | bytes,
    *,
    profile: Mapping[str, Range] | None = None,
    values: Mapping[str, Sequence[int]] | None = None,
    asked: Sequence[str] = (),
) -> Attempt:
    """Parses a model, and builds it: for all architectures together, or else for as many as it can be built for.

    Args:
        model: The path of the file, or its content.
        profile: The ranges of dynamic dimensions.
        values: What inputs are that shapes are computed from, where they have one value only.
        asked: The architectures; none: all.
    """
    shapes = sizes_of(described(model).inputs, profile or {})

    def tried(chosen: Sequence[str]) -> Attempt:
        return _tried(model, chosen, shapes, profile or {}, values or {})

    wanted = chosen_architectures(asked)
    found = tried(wanted)
    if found.stage != "build" or len(wanted) == 1:
        return found
    # Mostly it is the oldest that lacks a kernel, and what is said is then said of it.
    newer = tried(wanted[1:])
    if newer.stage == "built":
        return dataclasses.replace(newer, refusing={wanted[0]: found.complaints})
    alone = {each: tried([each]) for each in wanted}
    taking = [each for each, one in alone.items() if one.stage == "built"]
    if not taking:
        return alone[wanted[-1]]
    together = alone[taking[0]] if len(taking) == 1 else tried(taking)
    refusing = {each: one.complaints for each, one in alone.items() if one.stage != "built"}
    return dataclasses.replace(together, refusing=refusing)


def _tried(
    model: str | bytes,
    wanted: Sequence[str],
    shapes: Mapping[str, InputSizes],
    profile: Mapping[str, Range],
    values: Mapping[str, Sequence[int]],
) -> Attempt:
    import tensorrt_rtx_bindings as trt

    log = logger(trt)
    builder = trt.Builder(log)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, log)
    if not (parser.parse(model) if isinstance(model, bytes) else parser.parse_from_file(model)):
        return Attempt("parse", complaints=tuple(map(_complaint, _errors(parser))) or _logged(log))
    configuration = builder.create_builder_config()
    configuration.num_compute_capabilities = len(wanted)
    for number, each in enumerate(wanted):
        configuration.set_compute_capability(getattr(trt.ComputeCapability, each.upper().replace("_", "")), number)
    found = builder.create_optimization_profile()
    numbers = {}
    for tensor in (network.get_input(at) for at in range(network.num_inputs)):
        if tensor.is_shape_tensor:
            numbers[tensor.name] = _values(tensor, profile, values)
            found.set_shape_input(tensor.name, *numbers[tensor.name])
        elif -1 in tensor.shape:
            found.set_shape(tensor.name, *shapes[tensor.name])
    if numbers or shapes:
        configuration.add_optimization_profile(found)
    engine = builder.build_serialized_network(network, configuration)
    if engine is None:
        return Attempt("build", complaints=_logged(log))
    return Attempt("built", bytes(engine), tuple(wanted), shapes=shapes, values=numbers)


def _values(tensor: Any, profile: Mapping[str, Range], values: Mapping[str, Sequence[int]]) -> InputSizes:
    """The values of an input that shapes are computed from, at the least, the usual and the most."""
    if tensor.name in values:
        one = [int(each) for each in values[tensor.name]]
        return one, one, one
    count = 1
    for size in tensor.shape:
        count *= max(int(size), 0)
    least, usual, most = profile.get(tensor.name, DEFAULT)
    return [least] * count, [usual] * count, [most] * count


def _errors(parser: Any) -> list[Any]:
    return [parser.get_error(at) for at in range(parser.num_errors)]


def _complaint(error: Any) -> Complaint:
    return Complaint(error.desc(), error.node(), error.node_name(), error.node_operator())


def _logged(log: Any) -> tuple[Complaint, ...]:
    return tuple(Complaint(each) for each in log.errors)


def logger(trt: Any) -> Any:
    """A logger that keeps errors, and drops the rest."""

    class Log(trt.ILogger):
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.errors: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            if severity <= trt.ILogger.ERROR:
                self.errors.append(message)

    return Log()
