"""The format of an `aten` node: one ONNX node that calls one PyTorch operator.

The node is `ATen` in the domain `org.pytorch.aten`, version 1. It holds everything that a kernel needs to call the
operator through libtorch's dispatcher, without the operator's schema and without Python.

Attributes that every node has
    operator        STRING  "aten::add", with its namespace and without its overload
    overload_name   STRING  "Tensor"; "" for the default overload
    schema          STRING  the operator's schema, as torch prints it
    torch_version   STRING  the version of torch that wrote the node. Where `schema` differs from the schema of the
                            installed torch, the node cannot be run, and the message names this version.
    arguments       STRING  every argument of the schema, in order, defaults filled in, separated by single spaces:
                                name:type=kind
                            as in "self:Tensor=tensor other:Tensor=tensor alpha:Scalar=int"
    results         STRING  every result of the schema, in order: type=kind
                            as in "Tensor=tensor Tensor[]=[tensor,tensor]"
    output_types    INTS    the ONNX element type of each output of the node

`type` is the type in the schema, without alias annotations and list lengths: Tensor, Tensor?, Tensor?[], SymInt[],
int[]?, Scalar, ScalarType? and so on. `kind` says what the value is and where it is stored. An attribute that stores an
argument has the argument's name, with a trailing "_" where that is one of the names above.

    kind            stored in                           value
    tensor          the node's next input               a tensor
    complex_tensor  the node's next input               a complex tensor, as real numbers with a trailing dimension of 2
    input_int       the node's next input, INT64 []     a number that is known only at run time
    input_float     the node's next input, floating []  the same
    input_bool      the node's next input, BOOL []      the same
    none            not stored                          None
    int             attribute INT                       an integer
    bool            attribute INT, 0 or 1               a bool
    float           attribute TENSOR, DOUBLE []         a float in full precision (an attribute FLOAT is float32)
    complex         attribute TENSOR, DOUBLE [2]        real and imaginary part
    str             attribute STRING                    a string
    dtype           attribute STRING                    "float32": the name of the torch dtype
    layout          attribute STRING                    "strided"
    device          attribute STRING                    "cpu", "cuda:0"
    memory_format   attribute STRING                    "channels_last"
    ints, bools     attribute INTS                      a list that is not empty
    floats          attribute TENSOR, DOUBLE [n]        a list that is not empty
    [kind,...]      item by item; the attribute of      any other list, such as tensors of which some are None:
                    item i is called "name.i"           "indices:Tensor?[]=[none,tensor]"

A number in an input may have another type than the schema's (INT64 for `float`); it is converted to the schema's type.

In `results` the kinds are tensor, complex_tensor, int, float, bool (outputs of rank 0), none (a result that the
operator leaves undefined, or that no node of the model reads; the node has no output for it) and lists of these. The
outputs of the node are in this order.

Operators that write to their arguments are called on copies of them; only their results are outputs of the node.

TorchScript-based exporters wrote a simpler form: `operator` without a namespace, often an empty `overload_name`, and
all arguments as inputs, constants included. `older_form` decodes it, if the installed torch has the operator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = [
    "DOMAIN",
    "INPUT_KINDS",
    "OP_TYPE",
    "RESERVED",
    "VERSION",
    "Input",
    "Kind",
    "attribute_name",
    "kind_text",
    "leaves",
    "parse_kind",
]

DOMAIN = "org.pytorch.aten"
OP_TYPE = "ATen"
VERSION = 1

RESERVED = frozenset({"operator", "overload_name", "schema", "torch_version", "arguments", "results", "output_types"})
"""The attributes that every node has."""

INPUT_KINDS = ("tensor", "complex_tensor", "input_int", "input_float", "input_bool")
"""The kinds whose value is an input of the node."""

Kind = str | tuple["Kind", ...]
"""A kind of the table above; a tuple for a list."""


@dataclass(frozen=True)
class Input:
    """An argument that is an input of the node.

    Attributes:
        kind: One of `INPUT_KINDS`.
        value: For `encode`, any object that represents the value; from `decode`, the index of the node's input.
    """

    kind: str
    value: Any


def attribute_name(argument: str) -> str:
    """The name of the attribute that holds an argument."""
    return f"{argument}_" if argument in RESERVED else argument


def kind_text(kind: Kind) -> str:
    """A kind as it is written in `arguments` and `results`."""
    return kind if isinstance(kind, str) else f"[{','.join(map(kind_text, kind))}]"


def parse_kind(text: str) -> Kind:
    """A kind from its text. Lists of lists do not occur.

    Raises:
        ValueError: a list without its closing bracket.
    """
    if not text.startswith("["):
        return text
    if not text.endswith("]"):
        raise ValueError(f"the list {text} does not end")
    return tuple(text[1:-1].split(",")) if text != "[]" else ()


def leaves(result: Any) -> list[Any]:
    """The results that are outputs of the node, in order: a result in torch's structure, flattened, without None."""
    if isinstance(result, (list, tuple)):
        return [leaf for item in result for leaf in leaves(item)]
    return [] if result is None else [result]
