"""The operator that was found, with its inputs and a script that shows the difference without opbridge."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch.fx import Node

from opbridge.errors import SaveError
from opbridge.runtimes import known
from opbridge.runtimes.onnxruntime.loading import LEVELS
from opbridge.side_by_side import in_float32
from opbridge.verification import exchange
from opbridge.verification.bisection.cases import Case, Located
from opbridge.verification.bisection.files import FileSide, Setting
from opbridge.verification.bisection.report import Bisection

__all__ = ["write"]

_LARGEST = 2**31 - 2**21


def write(folder: Path, located: Located, found: Bisection) -> list[Path]:
    """Writes the reproducer.

    Args:
        folder: Where it goes; it is made where it is not there.
        located: The operator.
        found: What is said of it; a note is added where no script can be written.

    Returns:
        The files: the parts, their inputs, and the script.

    Raises:
        SaveError: A file cannot be written.
    """
    case = located.case
    if case is None:
        found.notes.append(
            "no reproducer was written, because the values were matched by what they hold and not by their names"
        )
        return []
    contents: dict[str, bytes | dict[str, np.ndarray]] = {}
    loaders = [_loader(side.setting) for side in case.sides]
    if any(each is None for each in loaders):
        named = next(side.setting.runtime for side, each in zip(case.sides, loaders, strict=True) if each is None)
        found.notes.append(f"no script was written, because none is known for the runtime '{named}' alone")
    names = ["part.onnx"] if len(case.parts) == 1 else ["expected.onnx", "actual.onnx"]
    arrays: dict[str, np.ndarray] = {}
    for name, part, inputs, side in zip(names, case.parts, case.inputs, case.sides, strict=True):
        contents[name] = _content(part, inputs, arrays, side)
    script = None
    if all(loaders):
        script = (
            _between_files(case, found, loaders) if case.call is None else _beside_pytorch(case, found, arrays, loaders)
        )
    contents["inputs.npz"] = arrays
    if script is not None:
        contents["reproduce.py"] = script.encode()
    elif all(loaders):
        found.notes.append("no script was written, because the PyTorch operator has arguments that cannot be written")
    return _written(folder, contents)


def _content(
    part: onnx.ModelProto, inputs: Mapping[str, torch.Tensor], arrays: dict[str, np.ndarray], side: FileSide
) -> bytes:
    """A part with its weights; its inputs are added to the arrays."""
    model = onnx.ModelProto()
    model.CopyFrom(part)
    if sum(_length(each) for each in model.graph.initializer) > _LARGEST:
        raise SaveError("The reproducer was not written: the weights of the operator are larger than 2 GB.")
    for tensor in model.graph.initializer:
        side.workspace.inline(tensor)
    if any(
        each.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16
        for each in (*model.graph.input, *model.graph.output)
    ):
        model.ParseFromString(in_float32(model))
    for each, value in zip(list(model.graph.input), _in_order(part, inputs), strict=False):
        array = _array(value)
        if each.name in arrays and not np.array_equal(arrays[each.name], array, equal_nan=array.dtype.kind == "f"):
            fresh = f"{each.name}_actual"
            node = onnx.helper.make_node("Identity", [fresh], [each.name])
            nodes = [node, *model.graph.node]
            del model.graph.node[:]
            model.graph.node.extend(nodes)
            each.name = fresh
        arrays[each.name] = array
    return model.SerializeToString()


def _length(tensor: onnx.TensorProto) -> int:
    return next((int(each.value) for each in tensor.external_data if each.key == "length"), 0)


def _in_order(part: onnx.ModelProto, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    return [inputs[each.name] for each in part.graph.input if each.name in inputs]


def _array(tensor: torch.Tensor) -> np.ndarray:
    """A tensor as an array of NumPy's own types: of bfloat16 as float32."""
    tensor = exchange.runtime_form(tensor)
    return tensor.float().numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def _loader(setting: Setting) -> str | None:
    """The lines of a function that runs a file in a runtime; None where there are none."""
    kind, device = known.split(setting.runtime)
    if kind in ("onnxruntime", "cuda"):
        provider = "CPUExecutionProvider" if kind == "onnxruntime" else "CUDAExecutionProvider"
        given = f"[{provider!r}]" if kind == "onnxruntime" else f"[({provider!r}, {{'device_id': {device}}})]"
        return (
            "    import onnxruntime\n"
            "    options, levels = onnxruntime.SessionOptions(), onnxruntime.GraphOptimizationLevel\n"
            f"    options.graph_optimization_level = levels.{LEVELS[setting.optimization].name}\n"
            f"    session = onnxruntime.InferenceSession(path, options, providers={given})\n"
            "    return session.run(None, {each.name: inputs[each.name] for each in session.get_inputs()})[0]\n"
        )
    if kind == "reference":
        return (
            "    import onnx.reference\n"
            "    session = onnx.reference.ReferenceEvaluator(path)\n"
            "    return session.run(None, {name: inputs[name] for name in session.input_names})[0]\n"
        )
    if kind == "openvino":
        return (
            "    import openvino\n"
            "    model = openvino.compile_model(path, 'CPU')\n"
            "    return model({each.any_name: inputs[each.any_name] for each in model.inputs})[0]\n"
        )
    return None


def _head(found: Bisection, named: Sequence[str], settings: Sequence[str]) -> str:
    assert found.culprit is not None
    sides = [f"{side} ({setting})" for side, setting in zip(named, settings, strict=True)]
    lines = [f"{found.culprit.first} differs: expected is {sides[0]}, actual is {sides[1]}. Run it in this folder."]
    return "".join(f"# {line}\n" for line in " ".join(lines).splitlines())


def _tail(found: Bisection) -> str:
    assert found.culprit is not None
    allowed = found.culprit.comparison.tolerance
    return (
        'difference = abs(actual.astype("float64") - expected.astype("float64"))\n'
        'print("largest difference:", numpy.nanmax(difference, initial=0))\n'
        f"numpy.testing.assert_allclose(actual, expected, rtol={allowed.relative!r}, atol={allowed.absolute!r})\n"
    )


def _between_files(case: Case, found: Bisection, loaders: list[str | None]) -> str:
    functions = f"def expect(path):\n{loaders[0]}\n\n"
    second = "expect"
    if loaders[1] != loaders[0]:
        functions += f"def run(path):\n{loaders[1]}\n\n"
        second = "run"
    labels = [side.label for side in case.sides]
    head = _head(found, labels if labels[0] != labels[1] else found.sides, [side.setting.label for side in case.sides])
    return (
        f"{head}import numpy\n\ninputs = numpy.load('inputs.npz')\n\n\n{functions}"
        f"expected, actual = expect('expected.onnx'), {second}('actual.onnx')\n{_tail(found)}"
    )


def _beside_pytorch(
    case: Case, found: Bisection, arrays: dict[str, np.ndarray], loaders: list[str | None]
) -> str | None:
    assert case.call is not None
    node, key, values = case.call
    if not isinstance(node.target, torch._ops.OpOverload) or values is None:
        return None
    given = dict(zip(node.all_input_nodes, values, strict=True))
    made: list[str] = []

    def written(value: Any) -> str:
        if isinstance(value, Node):
            return written(given[value])
        if isinstance(value, torch.Tensor):
            name = f"torch_{len(made)}"
            made.append(name)
            arrays[name] = _array(value)
            text = f"torch.from_numpy(inputs[{name!r}])"
            if value.dtype == torch.bfloat16:
                text += ".bfloat16()"
            return f"torch.view_as_complex({text})" if value.is_complex() else text
        if isinstance(value, (list, tuple)):
            inner = ", ".join(map(written, value))
            return f"[{inner}]"
        if isinstance(value, float):
            return f"float({str(value)!r})" if value in (float("inf"), float("-inf")) or value != value else repr(value)
        if isinstance(value, torch.device):
            return "'cpu'"
        if value is None or isinstance(value, (bool, int, str, torch.dtype, torch.memory_format, torch.layout)):
            return repr(value)
        raise TypeError(value)

    try:
        arguments = [written(each) for each in node.args]
        arguments += [f"{name}={written(each)}" for name, each in node.kwargs.items()]
    except TypeError:
        return None
    call = f"torch.ops.{node.target}({', '.join(arguments)})"
    position = key.partition(":")[2]
    if position:
        call += f"[{position}]"
    head = _head(found, found.sides, found.settings)
    return (
        f"{head}import numpy\nimport torch\n\ninputs = numpy.load('inputs.npz')\n\n\n"
        f"def run(path):\n{loaders[0]}\n\n"
        f"expected = {call}\n"
        "expected = (torch.view_as_real(expected) if expected.is_complex() else expected).detach()\n"
        "expected = (expected.float() if expected.dtype == torch.bfloat16 else expected).numpy()\n"
        f"actual = run('part.onnx')\n{_tail(found)}"
    )


def _written(folder: Path, contents: Mapping[str, bytes | dict[str, np.ndarray]]) -> list[Path]:
    """Writes files, each under a temporary name first.

    Raises:
        SaveError: One cannot be written.
    """
    files = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            path, temporary = folder / name, folder / f".{name}.{os.getpid()}.tmp"
            try:
                with open(temporary, "wb") as file:
                    if isinstance(content, bytes):
                        file.write(content)
                    else:
                        np.savez(file, **content)  # type: ignore[arg-type]  # names are those of arrays
                os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)
            files.append(path)
    except OSError as error:
        raise SaveError(f"The reproducer cannot be written to {folder}: {error}. Choose another folder.") from error
    return files
