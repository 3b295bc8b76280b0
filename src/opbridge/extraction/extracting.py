"""A part of a model, with the types of what is given to it, as a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from opbridge.base.wording import counted, listed
from opbridge.conversion.types import checked, inferred, lean
from opbridge.errors import ModelFileError, OpbridgeError, UsageError
from opbridge.extraction.places import Places
from opbridge.onnx import damage, reading, subgraphs
from opbridge.onnx.serialize import to_bytes
from opbridge.onnx.subgraphs import GraphIndex
from opbridge.rules.looking import type_name
from opbridge.runtimes.onnxruntime import Limits, open_session
from opbridge.runtimes.onnxruntime.model_file import checked_model
from opbridge.save import writer

__all__ = ["Extracted", "extract"]


@dataclass
class Extracted:
    """A part of a model.

    Attributes:
        model: The part.
        nodes: The number of its nodes.
        of: The number of nodes of the model.
        inputs: Its inputs with their types, "x: float32 [batch, 8]".
        outputs: Its outputs with their types.
        files: The files that were written.
    """

    model: ir.Model
    nodes: int
    of: int
    inputs: list[str]
    outputs: list[str]
    files: list[Path] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """The part as plain data."""
        return {
            "ok": True,
            "nodes": self.nodes,
            "of": self.of,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "files": [str(each) for each in self.files],
        }

    def summary(self) -> str:
        """The part in some lines."""
        lines = [f"{counted(self.nodes, 'node')} of {self.of}."]
        lines += [f"  input   {each}" for each in self.inputs] + [f"  output  {each}" for each in self.outputs]
        return "\n".join(lines)


def extract(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    output: str | os.PathLike[str] | None = None,
    *,
    node: str | Sequence[str] = (),
    from_: str | Sequence[str] = (),
    to: str | Sequence[str] = (),
    external_data: bool | None = None,
    isolated: bool | Limits = True,
) -> Extracted:
    """Makes a model of a part of a model: of some nodes, or of all nodes between values.

    1. The part of `node` is these nodes. Its inputs are the values that they read and that none of them gives, its
       outputs those that they give and that are read elsewhere, or are outputs of the model.
    2. The part of `from_` and `to` is the nodes on which the values `to` depend, back to the values `from_`. The name
       of a node in `from_` stands for the values that it reads, in `to` for those that it gives. Without `from_`, the
       part begins at the inputs of the model, without `to` it ends at the outputs that depend on `from_`.
    3. Inputs of the model that the part depends on besides are inputs of the part.
    4. Initializers, functions, opsets and metadata that the nodes need come with them. An input has the type that the
       file says, else that of ONNX's shape inference, else ONNX Runtime's.

    Args:
        model: The path of an ONNX file, or its content. Whoever made it.
        output: The path of the file to write; None: nothing is written.
        node: The name of a node or of one of its outputs, or several.
        from_: The names of the values or nodes that the part begins with.
        to: The names of the values or nodes that it ends with.
        external_data: Whether weights go to a file beside the part; None: only where one file cannot hold them.
        isolated: Whether a session that is asked for types is in a process of its own, or with which limits it is.

    Returns:
        The part.

    Raises:
        ModelFileError: The file cannot be read as an ONNX model, or the type of an input of the part is not known.
        SaveError: The file cannot be written.
        UsageError: Neither a node nor values are named, or both; a name is unknown or within a body or a function; or
            no value of `to` depends on a value of `from_`.
    """
    if isinstance(model, onnx.ModelProto):
        model = model.SerializeToString()
    content, label = checked_model(model)
    nodes, beginnings, ends = _names(node), _names(from_), _names(to)
    if bool(nodes) == bool(beginnings or ends):
        raise UsageError(
            "Give either node= (--node), or from_= and to= (--from and --to), to say which part is wanted."
        )
    index = GraphIndex(reading.load_proto(content), label)
    places = Places(index)
    if nodes:
        chosen = {places.node(each) for each in nodes}
        inputs, outputs = _boundary(index, chosen)
    else:
        inputs, outputs, chosen = _between(index, places, beginnings, ends)
    made = subgraphs.part(index, outputs, inputs, nodes=chosen)
    _give_types(made, index, content, isolated)
    if said := checked(lean(made), isolated=isolated is not False):
        if not checked(lean(index.model), isolated=isolated is not False):
            raise ModelFileError(f"The part is not a valid model: {said}")
    result = reading.from_part(made, content)
    damage.refuse(result, label)
    found = Extracted(
        result, len(chosen), len(index.nodes), list(map(_typed, made.graph.input)), list(map(_typed, made.graph.output))
    )
    if output is not None:
        found.files = writer.save(result, output, external_data=external_data)
    return found


def _names(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else [str(each) for each in given]


def _boundary(index: GraphIndex, chosen: set[int]) -> tuple[list[str], list[str]]:
    """The values that some nodes read from elsewhere, and those that they give to elsewhere."""
    made = dict.fromkeys(name for at in sorted(chosen) for name in index.nodes[at].output if name)
    read = dict.fromkeys(name for at in sorted(chosen) for name in index.reads[at])
    elsewhere = {name for at, names in enumerate(index.reads) if at not in chosen for name in names}
    elsewhere.update(index.outputs)
    inputs = [name for name in read if name not in made and name not in index.constants]
    return inputs, [name for name in made if name in elsewhere] or list(made)


def _between(
    index: GraphIndex, places: Places, beginnings: Sequence[str], ends: Sequence[str]
) -> tuple[list[str], list[str], set[int]]:
    """The values that a part begins and ends with, and its nodes.

    Raises:
        UsageError: An end does not depend on a beginning.
    """
    values, first = places.beginnings(beginnings)
    if ends:
        outputs = places.ends(ends)
    else:
        reached = set(values) | {name for at in first for name in index.nodes[at].output}
        for at, names in enumerate(index.reads):
            if not reached.isdisjoint(names):
                reached.update(index.nodes[at].output)
        outputs = [name for name in index.outputs if name in reached and name not in values]
    starts = [name for at in first for name in index.reads[at] if name not in index.constants]
    inner = {name for at in first for name in index.nodes[at].output}
    inputs = list(dict.fromkeys([*values, *(name for name in starts if name not in inner)]))
    chosen = set(index.ancestors([name for name in outputs if name not in values], inputs))
    used = {name for at in chosen for name in index.reads[at]}
    for given in [*([name] for name in values), *(_outputs_of(index, at) for at in sorted(first))]:
        if used.isdisjoint(given) and set(outputs).isdisjoint(given):
            raise UsageError(
                f"In {index.label}, {listed(outputs, 3) or 'no output'} does not depend on "
                f"'{given[0] if given else ''}', or does so only through other values that the part begins with. "
                "Leave it out, or swap the two ends."
            )
    return inputs, outputs, chosen


def _outputs_of(index: GraphIndex, at: int) -> list[str]:
    return list(filter(None, index.nodes[at].output))


def _give_types(made: onnx.ModelProto, index: GraphIndex, content: str | bytes, isolated: bool | Limits) -> None:
    """Gives the inputs and outputs of a part the types that are known.

    Raises:
        ModelFileError: The type of an input is not known.
    """
    untyped = [each for each in (*made.graph.input, *made.graph.output) if not _has_type(each)]
    if not untyped:
        return
    with_types = inferred(index.model, isolated=isolated is not False)
    known: Mapping[str, onnx.ValueInfoProto] = (
        {} if with_types is None else {each.name: each for each in with_types.graph.value_info if _has_type(each)}
    )
    for name, tensor in index.constants.items():
        if any(each.name == name for each in untyped):
            found = onnx.helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims))
            known = {**known, name: found}
    for each in untyped:
        if each.name in known:
            each.CopyFrom(known[each.name])
    left = [each for each in made.graph.input if not _has_type(each)]
    if not left:
        return
    said = _asked(index, [each.name for each in left], content, isolated)
    for each in left:
        if each.name not in said:
            raise ModelFileError(
                f"The type of '{each.name}', which would be an input of the part, is neither in {index.label} nor "
                "inferred by ONNX or ONNX Runtime. Begin the part at another value."
            )
        each.CopyFrom(said[each.name])


def _has_type(value: onnx.ValueInfoProto) -> bool:
    kind = value.type.WhichOneof("value")
    return kind is not None and (kind != "tensor_type" or value.type.tensor_type.elem_type != 0)


def _asked(
    index: GraphIndex, names: Sequence[str], content: str | bytes, isolated: bool | Limits
) -> dict[str, onnx.ValueInfoProto]:
    """The types of values as ONNX Runtime infers them, which knows operators of its own; none where it refuses."""
    try:
        asked = reading.from_part(subgraphs.part(index, names), content)
        with_session = open_session(to_bytes(asked), isolated, optimised=False, loaded=True)
    except OpbridgeError:
        return {}
    try:
        found = {}
        for each in with_session.get_outputs():
            if each.type.startswith("tensor("):
                name = each.type.removeprefix("tensor(").removesuffix(")")
                element = onnx.TensorProto.DataType.Value(name.upper())
                found[each.name] = onnx.helper.make_tensor_value_info(each.name, element, each.shape)
        return found
    finally:
        if hasattr(with_session, "close"):
            with_session.close()


def _typed(value: onnx.ValueInfoProto) -> str:
    tensor = value.type.tensor_type
    if value.type.WhichOneof("value") != "tensor_type":
        return f"{value.name}: {value.type.WhichOneof('value') or 'type not known'}"
    shape = ""
    if tensor.HasField("shape"):
        sizes = (each.dim_value if each.HasField("dim_value") else each.dim_param or "?" for each in tensor.shape.dim)
        shape = f" [{', '.join(map(str, sizes))}]"
    return f"{value.name}: {type_name(ir.DataType(tensor.elem_type))}{shape}"
