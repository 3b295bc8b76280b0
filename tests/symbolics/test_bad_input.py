"""Symbolic functions and registrations that cannot be used: each is refused with the user's line, cause and remedy."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from cases.declare import define, floats
from exporting import torch_registry
from helpers.threads import at_once
from onnxscript import opset18 as op
from torch.autograd import Function
from torch.onnx import symbolic_helper
from torch.onnx._internal.torchscript_exporter._globals import GLOBALS
from torch.onnx.symbolic_helper import parse_args

import opbridge
from opbridge.errors import OpbridgeError, UsageError
from opbridge.symbolics import registered
from opbridge.translations import catalogue, registry

# Our families of translations fill the registry when they are first asked for.
catalogue.default_registry()

X = floats(2, 3)
FILE = Path(__file__).name

define("bad_one", "(Tensor x, float alpha=0.5) -> Tensor", lambda x, alpha=0.5: F.elu(x, alpha))
define("bad_two", "(Tensor x) -> (Tensor, Tensor)", lambda x: (x.abs(), x.sum()))


class _One(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.opcases.bad_one(x)


class _Two(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.ops.opcases.bad_two(x)


def _registries() -> tuple[Any, ...]:
    """All that is registered, in torch and here."""
    entries = {operator: list(known) for operator, known in registry.registered()[0].entries.items()}
    return torch_registry(), registered.functions(), entries


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """What a test registers with opbridge is taken back."""
    with opbridge.override():
        yield


@contextlib.contextmanager
def _registered(*functions: tuple[str, Callable[..., Any]], opset: int = 9) -> Iterator[None]:
    for name, function in functions:
        torch.onnx.register_custom_op_symbolic(name, function, opset)
    try:
        yield
    finally:
        for name in dict.fromkeys(name for name, _ in functions):
            torch.onnx.unregister_custom_op_symbolic(name, opset)


def _refused(model: torch.nn.Module, *functions: Callable[..., Any], **options: Any) -> str:
    """The error of an export, which names a line of one of the functions, and leaves the registries as they were."""
    before = _registries()
    with pytest.raises(OpbridgeError) as raised:
        opbridge.export(model, (X,), **options)
    text = str(raised.value)
    assert _registries() == before
    for function in functions:
        lines, first = inspect.getsourcelines(inspect.unwrap(function))
        places = [f"{FILE}:{line}" for line in range(first, first + len(lines))]
        # Not only the beginning of a longer number.
        assert any(f"{place}{end}" in text for place in places for end in ").:, \n"), (text, places)
    return text


# What symbolic functions do wrong, each in one function for opcases::bad_one, and what the error says of it.


def raises(g, x, alpha):
    raise ValueError("alpha has to be an integer")


def raises_in_a_helper(g, x, alpha):
    return g.op("Elu", x, alpha_f=symbolic_helper._get_const(x, "f", "alpha"))


@parse_args("v", "i", "i")
def other_letters_than_arguments(g, x):
    return g.op("Elu", x)


def returns_nothing(g, x, alpha):
    g.op("Elu", x)


def returns_too_many(g, x, alpha):
    return g.op("Elu", x), g.op("Abs", x)


def returns_an_empty_tuple(g, x, alpha):
    return ()


def returns_a_number(g, x, alpha):
    return 3.5


def returns_a_tensor(g, x, alpha):
    return torch.zeros(2, 3)


_other_graph = torch._C.Graph()
_other_value = _other_graph.addInput()
_other_value.inferTypeFrom(X)


def returns_a_value_of_another_graph(g, x, alpha):
    return _other_value


def uses_a_value_of_another_graph(g, x, alpha):
    return g.op("Add", x, _other_value)


def returns_another_dtype(g, x, alpha):
    return g.op("Cast", x, to_i=7)


def says_another_dtype(g, x, alpha):
    return g.op("custom_domain::Elu", x).setType(x.type().with_dtype(torch.int64))


def returns_another_rank(g, x, alpha):
    return g.op("Unsqueeze", x, g.op("Constant", value_t=torch.tensor([0])))


def says_another_rank(g, x, alpha):
    return g.op("custom_domain::Elu", x).setType(x.type().with_sizes([2, 3, 1]))


def returns_other_sizes(g, x, alpha):
    return g.op("Transpose", x, perm_i=[1, 0])


def operator_of_a_later_opset(g, x, alpha):
    return g.op("Gelu", x)


def operator_of_an_earlier_opset(g, x, alpha):
    return g.op("Upsample", x, g.op("Constant", value_t=torch.ones(2)))


def operator_that_there_is_not(g, x, alpha):
    return g.op("ELU", x)


def attribute_that_there_is_not(g, x, alpha):
    return g.op("Elu", x, slope_f=0.5)


def attribute_of_an_earlier_opset(g, x, alpha):
    return g.op("Squeeze", g.op("Unsqueeze", x, axes_i=[0]), axes_i=[0])


def attribute_of_another_type(g, x, alpha):
    return g.op("Elu", x, alpha_s="a half")


def attribute_without_a_type(g, x, alpha):
    return g.op("Elu", x, alpha=0.5)


def attribute_of_a_type_that_there_is_not(g, x, alpha):
    return g.op("Elu", x, alpha_x=0.5)


def attribute_missing(g, x, alpha):
    return g.op("Cast", x)


def inputs_too_many(g, x, alpha):
    return g.op("Elu", x, x)


def inputs_too_few(g, x, alpha):
    return g.op("Pow", x)


def number_given_to_op(g, x, alpha):
    return g.op("Mul", x, 2.0)


def one_block_of_an_if(g, x, alpha):
    condition = g.op("Constant", value_t=torch.tensor(True))
    result = g.op("If", condition)
    block = result.node().addBlock()
    block.registerOutput(block.addNode("onnx::Elu", [x]).output())
    return result.setType(x.type())


def parameters_too_few(g, x):
    return g.op("Elu", x)


def parameters_too_many(g, x, alpha, scale):
    return g.op("Elu", x)


REFUSED = [
    # function, what the error says of the cause, and of the remedy
    (raises, "alpha has to be an integer", None),
    (raises_in_a_helper, "expected a constant value of the 'alpha' argument", None),
    (other_letters_than_arguments, "parameters", "opcases::bad_one(Tensor x, float alpha=0.5) -> Tensor"),
    (returns_nothing, "returned None", "Return the value of g.op"),
    (returns_too_many, "returned 2 values", "Return a tuple with one value for each"),
    (returns_an_empty_tuple, "returned 0 values", "Return a tuple with one value for each"),
    (returns_a_number, "returned a float", "must return the values of g.op"),
    (returns_a_tensor, "returned a Tensor", "must return the values of g.op"),
    (returns_a_value_of_another_graph, "another graph", "do not keep values"),
    (uses_a_value_of_another_graph, "another graph", "Do not keep values"),
    (returns_another_dtype, "int64", "Cast"),
    (says_another_dtype, "int64", "float32"),
    (returns_another_rank, "[1, 2, 3]", "has shape [2, 3]. Correct"),
    (says_another_rank, "[2, 3, 1]", "has shape [2, 3]. Correct"),
    (returns_other_sizes, "[3, 2]", "has shape [2, 3]. Correct"),
    (operator_of_a_later_opset, "Gelu", "opset_version=20"),
    (operator_of_an_earlier_opset, "Upsample", "your own domain"),
    (operator_that_there_is_not, "ELU", "your own domain"),
    (attribute_that_there_is_not, "'slope'", "alpha"),
    (attribute_of_an_earlier_opset, "'axes'", "as an input"),
    (attribute_of_another_type, "a string as 'alpha'", "Write alpha_f="),
    (attribute_without_a_type, "alpha", "suffix"),
    (attribute_of_a_type_that_there_is_not, "alpha_x", "suffix"),
    (attribute_missing, "without the attribute 'to'", "is required at opset 18"),
    (inputs_too_many, "2 inputs", "it has 1"),
    (inputs_too_few, "1 input", "it has 2"),
    (number_given_to_op, "gave Mul 2.0 as an input", "value_t=torch.tensor(2.0)"),
    (one_block_of_an_if, "1 block", "2"),
    (parameters_too_few, "(g, x)", "opcases::bad_one(Tensor x, float alpha=0.5) -> Tensor"),
    (parameters_too_many, "(g, x, alpha, scale)", "opcases::bad_one(Tensor x, float alpha=0.5) -> Tensor"),
]

# Those that contradict an operator's schema; a Function has none.
SCHEMA = (other_letters_than_arguments, parameters_too_few, parameters_too_many)


@pytest.mark.parametrize(("function", "cause", "remedy"), [pytest.param(*row, id=row[0].__name__) for row in REFUSED])
def test_a_registered_symbolic_function_is_refused(function, cause, remedy):
    with _registered(("opcases::bad_one", function)):
        text = _refused(_One(), function, opset_version=18, custom_opsets={"custom_domain": 1})
    assert cause in text
    assert remedy is None or remedy in text


@pytest.mark.parametrize(
    ("function", "cause", "remedy"),
    [pytest.param(*row, id=row[0].__name__) for row in REFUSED if row[0] not in SCHEMA]
    + [
        pytest.param(parameters_too_few, "3 were given", "(g, x)", id="parameters_too_few"),
        pytest.param(parameters_too_many, "missing", "(g, x, alpha, scale)", id="parameters_too_many"),
    ],
)
def test_the_symbolic_of_a_function_is_refused(function, cause, remedy):
    class Elu(Function):
        @staticmethod
        def forward(ctx, x, alpha):
            return F.elu(x, alpha)

        symbolic = staticmethod(function)

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Elu.apply(x, 0.5)

    text = _refused(Net(), function, opset_version=18, custom_opsets={"custom_domain": 1})
    assert cause in text
    assert remedy is None or remedy in text


def test_one_value_for_two_outputs_is_refused():
    def only_one(g, x):
        return g.op("Abs", x)

    with _registered(("opcases::bad_two", only_one)):
        text = _refused(_Two(), only_one, opset_version=18)
    assert "returned 1 value" in text and "2 outputs" in text


def test_a_value_kept_from_an_earlier_call_is_refused():
    kept = []

    def keeps(g, x, alpha):
        kept.append(g.op("Elu", x))
        return kept[0]

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.opcases.bad_one(torch.ops.opcases.bad_one(x))

    with _registered(("opcases::bad_one", keeps)):
        text = _refused(Net(), keeps, opset_version=18)
    assert "another graph" in text


@pytest.mark.slow
def test_the_line_that_raised_is_named():
    with _registered(("opcases::bad_one", raises)):
        text = _refused(_One(), opset_version=18)
    _, first = inspect.getsourcelines(raises)
    assert f"{FILE}:{first + 1}" in text


def test_the_models_line_is_named_beside_the_functions():
    with _registered(("opcases::bad_one", raises)):
        text = _refused(_One(), raises, opset_version=18)
    _, first = inspect.getsourcelines(_One.forward)
    assert f"{FILE}:{first + 1}" in text and "opcases::bad_one" in text


def test_check_says_what_export_says():
    with _registered(("opcases::bad_one", returns_a_number)):
        before = _registries()
        plan = opbridge.check(_One(), (X,), opset_version=18)
        assert _registries() == before
    assert not plan.ok
    assert "returned a float" in plan.describe_missing()


def test_a_registration_for_no_operator_is_refused():
    def nothing(g, x):
        return x

    with _registered(("opcases::there_is_no_such_operator", nothing)):
        text = _refused(_One(), nothing)
    assert "opcases::there_is_no_such_operator" in text
    assert "the unknown operator" in text and "correct the name" in text


@pytest.mark.parametrize("name", ["foo", "", "two words::foo", "onnx::", "::"])
def test_a_name_that_is_no_operators_is_refused(name):
    before = _registries()
    with pytest.raises(UsageError, match="namespace::name"):
        opbridge.symbolic(name)(raises)
    assert _registries() == before


def _first(g, x, alpha):
    return g.op("Elu", x, alpha_f=0.5)


def _second(g, x, alpha):
    return g.op("Selu", x)


def _names_both(text: str) -> bool:
    places = [f"{FILE}:{inspect.getsourcelines(function)[1]})" for function in (_first, _second)]
    return all(place in text for place in places) and "two symbolic functions for opset 11" in text


def test_two_of_ours_for_one_operator_and_opset_are_refused():
    opbridge.symbolic("opcases::bad_one", opset=11)(_first)
    before = _registries()
    with pytest.raises(UsageError) as raised:
        opbridge.symbolic("opcases::bad_one", opset=11)(_second)
    assert _names_both(str(raised.value)) and "another opset" in str(raised.value)
    assert _registries() == before


def test_one_of_ours_and_one_of_torchs_are_refused():
    opbridge.symbolic("opcases::bad_one", opset=11)(_first)
    with _registered(("opcases::bad_one", _second), opset=11):
        text = _refused(_One(), _first, _second)
    assert _names_both(text) and "unregister_custom_op_symbolic" in text


def test_the_same_function_may_be_registered_twice():
    for _ in range(2):
        opbridge.symbolic("opcases::bad_one", opset=11)(_first)
    with _registered(("opcases::bad_one", _first), opset=11):
        program = opbridge.export(_One(), (X,))
    assert [node.op_type for node in program.model.graph] == ["Elu"]


def test_functions_for_several_opsets_stand_beside_each_other():
    opbridge.symbolic("opcases::bad_one", opset=18)(_first)
    opbridge.symbolic("opcases::bad_one", opset=20)(_second)
    made = {
        opset: opbridge.export(_One(), (X,), opset_version=opset, verify=False).model.graph[0].op_type
        for opset in (18, 19, 20, 21)
    }
    assert made == {18: "Elu", 19: "Elu", 20: "Selu", 21: "Selu"}


def test_the_decorator_is_there_before_and_after_an_export():
    opbridge.export(torch.nn.ReLU(), (X,))
    assert callable(opbridge.symbolic)
    opbridge.symbolic("opcases::bad_one", opset=11)(_first)


def test_torchs_globals_are_as_before_after_a_failure():
    before = dict(vars(GLOBALS))
    with _registered(("opcases::bad_one", raises)):
        _refused(_One(), raises, opset_version=20)
    assert vars(GLOBALS) == before


def test_the_class_is_as_before_after_a_failure():
    class Elu(Function):
        @staticmethod
        def forward(ctx, x):
            return F.elu(x)

        @staticmethod
        def symbolic(g, x):
            raise ValueError("not today")

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Elu.apply(x)

    before = dict(vars(Elu))
    assert "not today" in _refused(Net(), Elu.symbolic)
    assert dict(vars(Elu)) == before
    torch.testing.assert_close(Net()(X), F.elu(X))


@pytest.fixture
def often_switching() -> Iterator[None]:
    """Threads take turns so often that what they share by mistake shows."""
    kept = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(kept)


@pytest.mark.slow
def test_threads_that_export_at_once_leave_the_registries_as_they_were(often_switching):
    class Elu(Function):
        @staticmethod
        def forward(ctx, x):
            return F.elu(x)

        @staticmethod
        def symbolic(g, x):
            return g.op("Elu", x, alpha_f=1.0)

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Elu.apply(x) + torch.ops.opcases.bad_one(x, 1.0)

    def by_opset(g, x, alpha):
        if GLOBALS.export_onnx_opset_version != g.opset:
            raise AssertionError("the exporter's opset is not the graph's")
        return g.op("Gelu", x) if g.opset == 19 else g.op("Elu", x, alpha_f=1.0)

    said: dict[int, str] = {}
    opsets = (18, 19, 20, 20, 18, 19) * 3

    def export(thread: int) -> None:
        for index in range(thread, 18, 6):
            try:
                opbridge.export(Net(), (X,), opset_version=opsets[index])
                said[index] = "exported"
            except OpbridgeError as error:
                said[index] = str(error)

    with _registered(("opcases::bad_one", by_opset)):
        before = _registries()
        at_once(*(functools.partial(export, thread) for thread in range(6)))
        assert _registries() == before
    # Gelu came with opset 20: those that asked for 19 were refused, and no others.
    refused = {index: text for index, text in said.items() if text != "exported"}
    assert len(said) == 18
    assert sorted(refused) == [index for index in range(18) if opsets[index] == 19], refused
    assert all("opset_version=20" in said[index] for index in refused)


@pytest.mark.slow
def test_two_exports_at_once_do_not_build_into_each_others_model():
    in_first, in_second, first_done = (threading.Event() for _ in range(3))
    made: dict[str, list[str]] = {}

    def first(x):
        in_first.set()
        # Another export's translation may begin here; where it has to wait for this one, so much the better.
        in_second.wait(0.5)
        return op.Abs(x)

    def second(x):
        in_second.set()
        first_done.wait(0.5)
        return op.Neg(x)

    def export(name: str, model: Callable[..., Any], table: dict[str, Callable[..., Any]]) -> None:
        program = opbridge.export(model, (X,), custom_translation_table=table)
        made[name] = [node.op_type for node in program.model.graph]

    def export_first() -> None:
        export("first", lambda x: torch.abs(x), {"aten::abs": first})
        first_done.set()

    def export_second() -> None:
        in_first.wait(20)
        export("second", lambda x: torch.neg(x), {"aten::neg": second})

    at_once(export_first, export_second)
    assert made == {"first": ["Abs"], "second": ["Neg"]}
