"""Nodes of every standard operator of ONNX with sizes of 0 and 1, and with integers that are out of bounds.

What a node needs to be one, its attributes and the types of its inputs, is that of ONNX's node tests; of operators
without a test, of the nodes below. The inputs of a file have no shapes, so that ONNX Runtime loads it for any.
"""

from __future__ import annotations

import functools
import random
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from opbridge.coverage.measuring import cases
from opbridge.rules.looking import Looked, name_of
from opbridge.rules.of_empty import sizes_at
from opbridge.targets.ending import ENDING, ENDING_NUMBERS

__all__ = ["Drawn", "drawn", "is_known_to_end", "operators"]

_FORMS = ("", "", "", "float64", "float16", "int64", "outputs", "weights")
_SIZES = (0, 0, 0, 1, 1, 2, 5)
_INTEGERS = (0, -1, 1, 3, 30, -100, 2**31 - 1, -(2**31), 2**40, 2**62, -(2**63))
"""Out of bounds of most tests, but for 30 as the padding or the factor of four dimensions no output takes gigabytes."""
_FLOATS = (0.0, -1.0, 1e30, float("inf"), float("-inf"), float("nan"))
_MOST_ELEMENTS = 1 << 16
_COUNTING = frozenset({"Loop", "Range"})
"""Operators that take as long as a number says."""

_X = np.linspace(-2, 2, 24, dtype=np.float32)
_IMAGE, _ROWS = _X.reshape(1, 2, 3, 4), _X.reshape(6, 4)
_ML = "ai.onnx.ml"
_FURTHER: tuple[tuple[str, str, tuple[np.ndarray, ...], dict[str, Any]], ...] = (
    ("GlobalLpPool", "", (_IMAGE,), {}),
    ("MaxRoiPool", "", (_IMAGE, np.array([[0, 0, 0, 2, 2]], np.float32)), {"pooled_shape": [2, 2]}),
    ("Multinomial", "", (_ROWS,), {"sample_size": 3}),
    ("RandomNormalLike", "", (_ROWS,), {}),
    ("RandomUniformLike", "", (_ROWS,), {}),
    ("Imputer", _ML, (_ROWS,), {"imputed_value_floats": [1.0], "replaced_value_float": 0.0}),
    ("LinearRegressor", _ML, (_ROWS,), {"coefficients": [1.0] * 4, "intercepts": [0.5], "targets": 1}),
    ("Normalizer", _ML, (_ROWS,), {"norm": "L2"}),
    ("OneHotEncoder", _ML, (np.arange(6),), {"cats_int64s": [0, 1, 2]}),
    ("Scaler", _ML, (_ROWS,), {"offset": [0.0] * 4, "scale": [1.0] * 4}),
    ("FeatureVectorizer", _ML, (_ROWS,), {"inputdimensions": [4]}),
)  # fmt: skip
"""Nodes of operators that no node test has: operator, domain, inputs, attributes."""


@dataclass(frozen=True)
class Drawn:
    """A file of one node, and what it is run on.

    Attributes:
        operator: "LSTM", or "ai.onnx.ml::Scaler".
        changes: What was made of the inputs, in words.
        model: The file.
        feeds: The inputs.
    """

    operator: str
    changes: str
    model: onnx.ModelProto
    feeds: dict[str, Any]


def drawn(random_: random.Random) -> Drawn | None:
    """A node of an operator that is drawn; None where the test that was drawn has no such form."""
    operator = random_.choice(operators())
    name = random_.choice(_by_operator()[operator])
    form = "" if "::" in operator else random_.choice(_FORMS)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        test = _further()[name] if name in _further() else cases.case(name, form)
    if test is None or len(test.model.graph.node) != 1:
        return None
    made = onnx.ModelProto()
    made.CopyFrom(test.model)
    inputs, said = list(test.inputs), []
    for _ in range(random_.choice((1, 1, 1, 2))):
        resized = operator in _COUNTING or random_.random() < 0.8
        said.append(_resize(random_, inputs) if resized else _put(random_, inputs))
    if any(isinstance(each, np.ndarray) and each.size > _MOST_ELEMENTS for each in inputs):
        return None
    for value in (*made.graph.input, *made.graph.output):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    del made.graph.value_info[:]
    feeds = {value.name: each for value, each in zip(made.graph.input, inputs, strict=True)}
    return Drawn(operator, f"{name}: {', '.join(each for each in said if each) or 'as it is'}", made, feeds)


def is_known_to_end(node: Drawn) -> bool:
    """Whether a fact says that a node ends the process on what it is run on."""
    model = ir.from_proto(node.model)
    for value in model.graph.inputs:
        array = node.feeds[value.name]
        value.shape = ir.Shape(array.shape) if isinstance(array, np.ndarray) else None
    looked = Looked(model)
    return 0 in sizes_at(looked, ENDING) or any(
        np.isin(node.feeds[value.name], fact.excluded).any()
        for each in looked.nodes
        for fact in ENDING_NUMBERS
        for name in fact.inputs
        if name_of(each) in fact.operators and (value := looked.input(each, name)) is not None
    )


@functools.cache
def operators() -> list[str]:
    """The operators that there is a node of."""
    return sorted(_by_operator())


@functools.cache
def _by_operator() -> dict[str, list[str]]:
    """The tests of one node, by the operators."""
    found: dict[str, list[str]] = {}
    for name in (*cases.names(), *_further()):
        test = _further().get(name) or cases.case(name, "")
        if test is not None and len(test.model.graph.node) == 1:
            node = test.model.graph.node[0]
            operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
            found.setdefault(operator, []).append(name)
    return found


@functools.cache
def _further() -> dict[str, cases.Case]:
    """The nodes of operators without a test, by the operators."""
    found = {}
    for operator, domain, arrays, attributes in _FURTHER:
        names = [f"x{at}" for at in range(len(arrays))]
        types = [helper.np_dtype_to_tensor_dtype(each.dtype) for each in arrays]
        node = helper.make_node(operator, names, ["y"], domain=domain, **attributes)
        inputs = [helper.make_tensor_value_info(name, type_, None) for name, type_ in zip(names, types, strict=True)]
        graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")])
        imports = [helper.make_opsetid("", 21), helper.make_opsetid(_ML, 3)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=10)
        found[operator] = cases.Case(model, list(arrays), None, 0.0, 0.0)
    return found


def _resize(random_: random.Random, inputs: list[Any]) -> str:
    """Gives one dimension another size, in one input or in all that have a dimension of that size."""
    places = [(at, axis) for at, each in enumerate(inputs) if isinstance(each, np.ndarray) for axis in range(each.ndim)]
    if not places:
        return ""
    at, axis = random_.choice(places)
    size, old = random_.choice(_SIZES), inputs[at].shape[axis]
    together = [(at, axis)] if random_.random() < 0.4 else [each for each in places if _size(inputs, each) == old]
    for place, along in together:
        inputs[place] = _of_size(inputs[place], along, size)
    return ", ".join(f"dimension {along} of input {place} is {size}" for place, along in together)


def _size(inputs: list[Any], place: tuple[int, int]) -> int:
    return int(inputs[place[0]].shape[place[1]])


def _of_size(array: np.ndarray, axis: int, size: int) -> np.ndarray:
    """An array with another size of an axis, along which its values repeat; zeros where it had none."""
    if array.shape[axis]:
        return np.take(array, np.arange(size) % array.shape[axis], axis)
    shape = list(array.shape)
    shape[axis] = size
    return np.zeros(shape, array.dtype)


def _put(random_: random.Random, inputs: list[Any]) -> str:
    """Puts numbers that may be out of bounds into an input."""
    arrays = [
        at for at, each in enumerate(inputs) if isinstance(each, np.ndarray) and each.dtype.kind in "iuf" and each.size
    ]
    if not arrays:
        return ""
    at = random_.choice(arrays)
    array = inputs[at].copy()
    with np.errstate(all="ignore"):
        value = np.array(random_.choice(_FLOATS if array.dtype.kind == "f" else _INTEGERS)).astype(array.dtype)
    where = random_.choice((slice(None), slice(0, 1)))
    array.reshape(-1)[where] = value
    inputs[at] = array
    return f"{'the first element' if where.stop else 'all'} of input {at} is {value}"
