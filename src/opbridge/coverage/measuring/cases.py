"""ONNX's node tests, and forms of them that ask about one thing more."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from opbridge.coverage.measuring import own_models
from opbridge.runtimes import known
from opbridge.runtimes.tensors import dtype_named

__all__ = ["Case", "case", "forms", "names"]

_TYPES = ("float16", "bfloat16", "float64", "int32", "int64", "int8", "uint8", "float32")
"""The types in which a test of float32 or int64 is tried too."""

_OF_ANY_NUMBERS = (
    "Abs", "Add", "Ceil", "Clip", "Cos", "Div", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater",
    "GreaterOrEqual", "HardSigmoid", "HardSwish", "LeakyRelu", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mish",
    "Mod", "Mul", "Neg", "PRelu", "Relu", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sub",
    "Sum", "Swish", "Tanh", "ThresholdedRelu", "Where",
)  # fmt: skip
"""Operators that go element by element and are defined for all numbers."""

_DRAWN = ("float16", "float32", "float64")
_TWO_AXES = "two axes"
_OUTPUTS = "outputs"
_ONE_OUTPUT = "one output"
_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic
_LISTS = (onnx.defs.OpSchema.AttrType.INTS, onnx.defs.OpSchema.AttrType.FLOATS)
_ONNX = ("", "ai.onnx")


@dataclass(frozen=True)
class Case:
    """A model with inputs and what it should give.

    Attributes:
        model: The model.
        inputs: The inputs, in the order of the model's.
        expected: What each output should be; None: what ONNX Runtime or the reference evaluator gives.
        rtol: The relative difference that the test allows.
        atol: The absolute one.
    """

    model: onnx.ModelProto
    inputs: list[Any]
    expected: list[Any] | None
    rtol: float
    atol: float

    @property
    def is_random(self) -> bool:
        """Whether the values of its outputs are random."""
        drawn = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
        return any(
            node.op_type in drawn or (node.op_type == "Dropout" and len(node.input) > 2)
            for node in self.model.graph.node
        )

    @property
    def opset(self) -> int:
        """The model's opset of ONNX's own operators; 0: none."""
        return max((each.version for each in self.model.opset_import if each.domain in _ONNX), default=0)


@functools.cache
def _tests() -> dict[str, Case]:
    from onnx.backend.test.case.node import collect_testcases

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    tests = {}
    for each in found:
        inputs, expected = each.data_sets[0]
        tests[each.name] = Case(
            each.model, [_value(one) for one in inputs], [_value(one) for one in expected], each.rtol, each.atol
        )
    return tests


def _test(name: str) -> Case:
    """A test of ONNX, or a model of our own."""
    return _tests()[name] if name in _tests() else _own()[name]


@functools.cache
def _own() -> dict[str, Case]:
    """Models of `own_models`, on random inputs."""
    found = {}
    for name, text in own_models.texts():
        model = onnx.parser.parse_model(text)
        draw = np.random.default_rng(0)
        found[name] = Case(model, [_input(draw, each.type.tensor_type) for each in model.graph.input], None, 1e-2, 1e-3)
    return found


def _input(draw: np.random.Generator, type_: Any) -> np.ndarray:
    shape = [each.dim_value for each in type_.shape.dim]
    return np.asarray(draw.standard_normal(shape)).astype(helper.tensor_dtype_to_np_dtype(type_.elem_type))


def _value(given: Any) -> Any:
    if isinstance(given, onnx.TensorProto):
        return numpy_helper.to_array(given)
    return np.asarray(given) if isinstance(given, (np.generic, int, float, bool)) else given


def names() -> list[str]:
    """The names of all tests of ONNX."""
    return sorted(_tests())


def case(name: str, form: str) -> Case | None:
    """A test in a form; None where there is no such form of it.

    Args:
        name: The test's name.
        form: "" as it is, "constants", "weights", "float16" and other types, "without axis" and other attributes,
            "opset 13", "values": other numbers, "two axes" in the place of one, or "two axes constants", "outputs":
            with all that the operator has, or "outputs weights", "one output": without those that may be left out, or
            "one output weights", "node 3": that node alone, on what it reads in the
            test, or "node 3 values".
    """
    test = _test(name)
    if not form:
        return test
    if form in ("constants", "weights"):
        return _with_constants(test, every=form == "weights")
    if form == "values":
        return _of_values(test)
    if form.startswith(_TWO_AXES):
        two = _of_two_axes(test)
        return two if two is None or form == _TWO_AXES else _with_constants(two)
    if form.startswith(_OUTPUTS):
        full = _of_all_outputs(test)
        return full if full is None or form == _OUTPUTS else _with_constants(full, every=True)
    if form.startswith(_ONE_OUTPUT):
        first = _of_one_output(test)
        return first if first is None or form == _ONE_OUTPUT else _with_constants(first, every=True)
    if form.startswith("node "):
        at, _, other = form.removeprefix("node ").partition(" ")
        alone = _of_node(name, int(at))
        return alone if alone is None or not other else _of_values(alone)
    if form.startswith("opset "):
        return _of_opset(test, int(form.removeprefix("opset ")))
    if form.startswith("without "):
        return _without(test, form.removeprefix("without "))
    return _of_type(test, form)


def forms() -> Iterator[tuple[str, str]]:
    """Every test as it is, and the forms of them: names and forms; and models of `own_models`, as they are."""
    yield from ((name, "") for name in _own())
    first: dict[tuple[str, int, bool], str] = {}
    called: dict[tuple[str, int, int], str] = {}
    cases = _tests()
    for name, test in sorted(cases.items(), key=lambda each: (_is_empty(each[1]), len(each[0]), each[0])):
        yield name, ""
        if _with_constants(test) is not None:
            yield name, "constants"
        if len(test.model.graph.node) == 1 and _with_constants(test, every=True) is not None:
            yield name, "weights"
        if len(test.model.graph.node) == 1 and _of_values(test) is not None:
            yield name, "values"
        if len(test.model.graph.node) == 1 and _of_two_axes(test) is not None:
            yield name, _TWO_AXES
            yield name, f"{_TWO_AXES} constants"
        if len(test.model.graph.node) == 1 and (full := _of_all_outputs(test)) is not None:
            yield name, _OUTPUTS
            if _with_constants(full, every=True) is not None:
                yield name, f"{_OUTPUTS} weights"
        if len(test.model.graph.node) == 1 and (first_alone := _of_one_output(test)) is not None:
            yield name, _ONE_OUTPUT
            if _with_constants(first_alone, every=True) is not None:
                yield name, f"{_ONE_OUTPUT} weights"
        if any(each.HasField("g") for node in test.model.graph.node for each in node.attribute):
            continue  # a body has types of its own
        if len(test.model.graph.node) == 1 and test.model.graph.node[0].domain in _ONNX and test.opset:
            node = test.model.graph.node[0]
            since = onnx.defs.get_schema(node.op_type, test.opset, "").since_version
            first.setdefault((node.op_type, since, _is_empty(test)), name)
            called.setdefault((node.op_type, since, len(node.input)), name)
    for name in (each for _, each in sorted(first.items())):
        for type_ in _TYPES:
            yield name, type_
        for attribute in cases[name].model.graph.node[0].attribute:
            yield name, f"without {attribute.name}"
    for (operator, since, _), name in sorted(called.items()):
        older = {each.since_version for each in _schemas(operator) if 7 <= each.since_version < since}
        for opset in sorted(older):
            yield name, f"opset {opset}"


def _is_empty(test: Case) -> bool:
    """Whether an input has no elements: a runtime that takes none of a type may take numbers of it."""
    return any(isinstance(each, np.ndarray) and not each.size for each in test.inputs)


@functools.cache
def _schemas(operator: str) -> tuple[Any, ...]:
    return tuple(
        each for each in onnx.defs.get_all_schemas_with_history() if each.name == operator and each.domain == ""
    )


def _with_constants(test: Case, *, every: bool = False) -> Case | None:
    """The test with inputs as constants, as in models.

    Args:
        test: The test.
        every: Whether all inputs but the first are, as weights are; else what says how rather than what: axes, sizes,
            bounds. None where that is the same.
    """
    kept, left, stored = [], [], []
    is_other = not every
    for at, (value, given) in enumerate(zip(test.model.graph.input, test.inputs, strict=True)):
        array = given if isinstance(given, np.ndarray) and value.type.HasField("tensor_type") else None
        says_how = array is not None and array.ndim <= 1 and (array.dtype == np.int64 or array.ndim == 0)
        if at and array is not None and (every or says_how):
            is_other |= not says_how
            stored.append(numpy_helper.from_array(array, value.name))
        else:
            kept.append(value)
            left.append(given)
    if not stored or not is_other:
        return None
    model = _copy(test.model)
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(stored)
    return Case(model, left, test.expected, test.rtol, test.atol)


def _of_node(name: str, at: int) -> Case | None:
    """A node of a test in a model of its own, with inputs and outputs as it has them in the test, where ONNX Runtime
    runs that. Constants stay constants."""
    test = _test(name)
    values = _values(name)
    node = test.model.graph.node[at]
    if values is None or any(each.HasField("g") for each in node.attribute):
        return None
    stored = {each.name: each for each in test.model.graph.initializer}
    for each in test.model.graph.node:
        if each.op_type == "Constant" and each.output[0] in values:
            stored[each.output[0]] = numpy_helper.from_array(values[each.output[0]], each.output[0])
    read = list(dict.fromkeys(each for each in node.input if each))
    given = [each for each in node.output if each]
    fed = [each for each in read if each not in stored]
    if not fed or not all(isinstance(values.get(each), np.ndarray) for each in (*fed, *given)):
        return None
    graph = helper.make_graph(
        [node],
        name,
        [_declared(each, values[each]) for each in fed],
        [_declared(each, values[each]) for each in given],
        [stored[each] for each in read if each in stored],
    )
    model = helper.make_model(graph, opset_imports=test.model.opset_import, ir_version=test.model.ir_version)
    return Case(model, [values[each] for each in fed], [values[each] for each in given], test.rtol, test.atol)


def _of_values(test: Case) -> Case | None:
    """The test of an operator that goes element by element, and takes any numbers, on others: positive and negative
    ones, none of which is special. None for other operators.

    Where a test is right for its values, as those are all positive, the operator need not be.
    """
    if test.model.graph.node[0].op_type not in _OF_ANY_NUMBERS:
        return None
    drawn = [isinstance(each, np.ndarray) and each.dtype.name in _DRAWN for each in test.inputs]
    if not any(drawn):
        return None
    draw = np.random.default_rng(0)
    inputs = [_drawn(draw, each) if other else each for each, other in zip(test.inputs, drawn, strict=True)]
    return Case(test.model, inputs, None, test.rtol, test.atol)


def _drawn(draw: np.random.Generator, like: np.ndarray) -> np.ndarray:
    """Other numbers, the first of which is negative, so that a scalar is."""
    numbers = 2 * draw.standard_normal(like.shape).ravel()
    numbers[:1] = -np.abs(numbers[:1])
    return numbers.reshape(like.shape).astype(like.dtype)


def _declared(name: str, value: np.ndarray) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


@functools.lru_cache(maxsize=1)
def _values(name: str) -> dict[str, Any] | None:
    """What every value outside of bodies is when a test runs in ONNX Runtime; None where it does not."""
    test = _test(name)
    model = onnx.shape_inference.infer_shapes(_copy(test.model))
    given = {value.name: each for value, each in zip(model.graph.input, test.inputs, strict=True)}
    names = {each for node in model.graph.node for each in node.output if each}
    outputs = [each for each in (*model.graph.value_info, *model.graph.output) if each.name in names]
    del model.graph.output[:]
    model.graph.output.extend(outputs)
    try:
        session = known.find("onnxruntime").load(model.SerializeToString())
        found = session.run(given)
    except Exception:  # ONNX Runtime's errors and ours
        return None
    return {**given, **{each.name: value for each, value in zip(outputs, found, strict=True)}}


def _of_two_axes(test: Case) -> Case | None:
    """The test of an operator whose second input is a list of one axis, with the first other axis before it. None for
    other tests.

    A runtime that takes one axis need not take several.
    """
    node = test.model.graph.node[0]
    schema = _schema(node.op_type, test.opset) if node.domain in _ONNX and test.opset else None
    if schema is None or len(schema.inputs) != 2 or schema.inputs[1].name != "axes" or len(test.inputs) != 2:
        return None
    data, axes = test.inputs
    if not isinstance(data, np.ndarray) or not isinstance(axes, np.ndarray) or axes.shape != (1,) or data.ndim < 3:
        return None
    both = sorted({int(axes[0]) % data.ndim, *range(data.ndim)} - {int(axes[0]) % data.ndim})[:1]
    model = _copy(test.model)
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 2
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return Case(model, [data, np.array([*both, *axes], axes.dtype)], None, test.rtol, test.atol)


def _of_all_outputs(test: Case) -> Case | None:
    """The test with those outputs of its node too that it leaves out; None where it leaves out none.

    A runtime may compute an operator only as exporters write it, with all that it gives.
    """
    node = test.model.graph.node[0]
    schema = _schema(node.op_type, test.opset) if node.domain in _ONNX and test.opset else None
    if schema is None or any(
        each.option == onnx.defs.OpSchema.FormalParameterOption.Variadic for each in schema.outputs
    ):
        return None
    given = [*node.output, *[""] * (len(schema.outputs) - len(node.output))]
    if all(given):
        return None
    model = _copy(test.model)
    node = model.graph.node[0]
    del node.output[:], model.graph.output[:]
    node.output.extend(name or f"{node.op_type}_{at}" for at, name in enumerate(given))
    model.graph.output.extend(onnx.ValueInfoProto(name=each) for each in node.output)
    try:
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        onnx.checker.check_model(inferred, full_check=True)
    except Exception:  # the checker and the inference of shapes raise several
        return None
    return Case(inferred, test.inputs, None, test.rtol, test.atol)


def _of_one_output(test: Case) -> Case | None:
    """The test with the first output of its node alone, where the others may be left out; None for other tests.

    Models rarely ask for the others, and a runtime may compute the first alone.
    """
    node = test.model.graph.node[0]
    schema = _schema(node.op_type, test.opset) if node.domain in _ONNX and test.opset else None
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    if schema is None or not 2 <= len(node.output) <= len(schema.outputs):
        return None
    if any(each.option != optional for each in schema.outputs[1:]):
        return None
    if not node.output[0] or [each.name for each in test.model.graph.output][:1] != [node.output[0]]:
        return None
    model = _copy(test.model)
    del model.graph.node[0].output[1:], model.graph.output[1:]
    return Case(model, test.inputs, None if test.expected is None else test.expected[:1], test.rtol, test.atol)


def _of_opset(test: Case, opset: int) -> Case | None:
    """The test with the same node at an older opset, where what are inputs now may have been attributes; None where the
    operator's form there is another."""
    moved = _with_attributes(test, opset)
    if moved is None:
        return None
    test, model = moved, _copy(moved.model)
    for each in model.opset_import:
        if each.domain in _ONNX:
            each.version = opset
    model.ir_version = min(model.ir_version, 8)
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception:  # the checker and the inference of shapes raise several
        return None
    return Case(model, test.inputs, None, test.rtol, test.atol)


def _with_attributes(test: Case, opset: int) -> Case | None:
    """The test with those inputs as attributes that are such at an older opset; None where the others are not the same
    there."""
    node = test.model.graph.node[0]
    now, before = (_schema(node.op_type, each) for each in (test.opset, opset))
    if now is None or before is None:
        return None
    older = [each.name for each in before.inputs]
    formal = [each.name for each in now.inputs][: len(node.input)]
    taken = [each for each in formal if each not in older and each in before.attributes]
    if not taken:
        return test
    left = [each for each in formal if each not in taken]
    if left != older[: len(left)]:
        return None
    model, given = (
        _copy(test.model),
        dict(zip((each.name for each in test.model.graph.input), test.inputs, strict=True)),
    )
    node = model.graph.node[0]
    for name, value in zip(formal, list(node.input), strict=True):
        if name in taken and value:
            array = given.pop(value, None)
            is_list = before.attributes[name].type in _LISTS
            if not isinstance(array, np.ndarray) or not array.size or (array.size > 1 and not is_list):
                return None
            node.attribute.append(helper.make_attribute(name, array.ravel().tolist() if is_list else array.item()))
    kept = [value for name, value in zip(formal, node.input, strict=True) if name in left]
    inputs = [each for each in model.graph.input if each.name in given]
    del node.input[:], model.graph.input[:]
    node.input.extend(kept)
    model.graph.input.extend(inputs)
    return Case(model, list(given.values()), None, test.rtol, test.atol)


def _schema(operator: str, opset: int) -> Any | None:
    """An operator of ONNX's own in the form of an opset; None: there is none."""
    try:
        return onnx.defs.get_schema(operator, opset, "")
    except onnx.defs.SchemaError:
        return None


def _without(test: Case, attribute: str) -> Case | None:
    """The test without an attribute of its node, which has a default then; None where it cannot be left out."""
    model = _copy(test.model)
    node = model.graph.node[0]
    kept = [each for each in node.attribute if each.name != attribute]
    del node.attribute[:]
    node.attribute.extend(kept)
    for value in model.graph.output:
        value.ClearField("type")
    try:
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        onnx.checker.check_model(inferred, full_check=True)
    except Exception:  # the checker and the inference of shapes raise several
        return None
    if not all(each.HasField("type") for each in inferred.graph.output):
        return None
    return Case(inferred, test.inputs, None, test.rtol, test.atol)


def _of_type(test: Case, type_: str) -> Case | None:
    """The test with inputs of another type where its operator has one; None where it does not, or they have it."""
    node = test.model.graph.node[0]
    schema = onnx.defs.get_schema(node.op_type, test.opset, "")
    by_variable = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    wanted = helper.np_dtype_to_tensor_dtype(dtype_named(type_))
    spelled = f"tensor({onnx.TensorProto.DataType.Name(wanted).lower()})"
    source = next((each for each in test.inputs if isinstance(each, np.ndarray)), None)
    if source is None or source.dtype.name not in ("float32", "int64", "int32") or source.dtype.name == type_:
        return None
    variable = _variable(schema.inputs, 0)
    if spelled not in by_variable.get(variable, ()):
        return None
    model, inputs = _copy(test.model), list(test.inputs)
    # Of floating numbers all change, as they do in a model of that type; integers are also indices and sizes.
    variables = {
        each
        for each, allowed in by_variable.items()
        if spelled in allowed and (source.dtype.kind == "f" or each == variable)
    }
    changed = {
        name
        for names, formal in ((node.input, schema.inputs), (node.output, schema.outputs))
        for at, name in enumerate(names)
        if name and _variable(formal, at) in variables
    }
    convert = _converter(source.dtype, type_)
    for at, value in enumerate(model.graph.input):
        given = inputs[at]
        if value.name in changed and isinstance(given, np.ndarray) and given.dtype == source.dtype:
            value.type.tensor_type.elem_type = wanted
            inputs[at] = convert(given)
    for value in model.graph.output:
        tensor = value.type.tensor_type
        own = helper.np_dtype_to_tensor_dtype(source.dtype)
        if value.name in changed and value.type.HasField("tensor_type") and tensor.elem_type == own:
            tensor.elem_type = wanted
    return Case(model, inputs, None, 1e-2 if type_ in ("float16", "bfloat16") else test.rtol, test.atol)


def _converter(source: np.dtype, type_: str) -> Callable[[np.ndarray], np.ndarray]:
    wanted = dtype_named(type_)
    if source.kind == "f" and wanted.kind in "iu":
        low = 0 if wanted.kind == "u" else -60
        return lambda array: np.clip(np.rint(np.nan_to_num(array) * 4), low, 60).astype(wanted)
    return lambda array: array.astype(wanted)


def _variable(formal: Any, at: int) -> str:
    if not formal:
        return ""
    found = formal[min(at, len(formal) - 1)]
    return str(found.type_str)


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy
