"""A model parsed and built by TensorRT-RTX, which takes no GPU: an engine for the architectures that it knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
        complaints: What was said where it was refused.
        shapes: The shapes that the engine is built for, at the least, the usual and the most, by the input.
        values: The values of inputs that shapes are computed from, likewise.
    """

    stage: str
    engine: bytes = b""
    complaints: tuple[Complaint, ...] = ()
    shapes: Mapping[str, InputSizes] | None = None
    values: Mapping[str, InputSizes] | None = None


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
        asked: The architectures; none: all.

    Raises:
        ModelFileError: It is refused; the message names the node and the line of the model.
        UsageError: There is no such architecture, or the profile names no dimension of the model.
    """
    found = attempt(model, profile=profile, asked=asked)
    if found.stage == "built":
        return found
    said = explained(found.complaints, model)
    raise ModelFileError(f"TensorRT-RTX {version()} cannot {found.stage} the model: {said}.")


def attempt(
    model: str | bytes,
    *,
    profile: Mapping[str, Range] | None = None,
    values: Mapping[str, Sequence[int]] | None = None,
    asked: Sequence[str] = (),
) -> Attempt:
    """Parses a model, and builds it.

    Args:
        model: The path of the file, or its content.
        profile: The ranges of dynamic dimensions.
        values: What inputs are that shapes are computed from, where they have one value only.
        asked: The architectures; none: all.
    """
    import tensorrt_rtx_bindings as trt

    log = logger(trt)
    builder = trt.Builder(log)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, log)
    if not (parser.parse(model) if isinstance(model, bytes) else parser.parse_from_file(model)):
        return Attempt("parse", complaints=tuple(map(_complaint, _errors(parser))) or _logged(log))
    configuration = builder.create_builder_config()
    wanted = chosen_architectures(asked)
    configuration.num_compute_capabilities = len(wanted)
    for number, each in enumerate(wanted):
        configuration.set_compute_capability(getattr(trt.ComputeCapability, each.upper().replace("_", "")), number)
    shapes = sizes_of(described(model).inputs, profile or {})
    found = builder.create_optimization_profile()
    numbers = {}
    for tensor in (network.get_input(at) for at in range(network.num_inputs)):
        if tensor.is_shape_tensor:
            numbers[tensor.name] = _values(tensor, profile or {}, values or {})
            found.set_shape_input(tensor.name, *numbers[tensor.name])
        elif -1 in tensor.shape:
            found.set_shape(tensor.name, *shapes[tensor.name])
    if numbers or shapes:
        configuration.add_optimization_profile(found)
    engine = builder.build_serialized_network(network, configuration)
    if engine is None:
        return Attempt("build", complaints=_logged(log))
    return Attempt("built", bytes(engine), (), shapes, numbers)


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
