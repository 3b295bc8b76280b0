"""Every argument that may be a number: given as a constant, computed from data, and computed from a size."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from helpers.matching import assert_matches, eager_results
from helpers.rows import one_in, slow_but_first
from helpers.schema_calls import SchemaCall, arguments_of_type, translated_operators

import opbridge
from opbridge.base.dtypes import onnx_dtype
from opbridge.base.torch_private import capabilities
from opbridge.translations.catalogue import default_registry

_SCALAR = ("number", "Optional[number]")

FORMS: dict[str, Callable[[torch.Tensor, torch.Tensor, int], Any]] = {
    "float of data": lambda real, whole, size: real.item(),
    "int of data": lambda real, whole, size: whole.item(),
    "size": lambda real, whole, size: size,
    "float of a size": lambda real, whole, size: size / 2,
    "difference of sizes": lambda real, whole, size: 2 - size,
    "int": lambda real, whole, size: 3,
    "float": lambda real, whole, size: 2.7,
    "bool": lambda real, whole, size: True,
    "zero": lambda real, whole, size: 0,
    "negative int": lambda real, whole, size: -2,
    "negative float": lambda real, whole, size: -1.5,
}

# One number of each type that it may have, computed and not. The others differ in their values alone.
_ONE_OF_A_TYPE = ("float of data", "int of data", "size", "float of a size", "int", "float", "bool")

# For the numbers that are not the one under test.
_BESIDE = {"start": 1, "end": 6, "threshold": 1, "min": 1, "max": 3, "min_val": 1, "max_val": 3, "step": 1}

_OF_SCALARS_ALONE = {"aten::eq", "aten::ne", "aten::mul"}
_RANDOM = {"aten::rrelu", "aten::rrelu_with_noise", "aten::rrelu_with_noise_functional"}

_COMPUTED = {name for name in FORMS if "data" in name or "size" in name}
_BY_ORDER = "order that is known at export"
_BY_DEGREE = "degrees that are known at export"
_BY_SIZE = "requires"

# Why numbers that only a run tells are refused, by what the error says.
REFUSED: dict[tuple[str, str], tuple[set[str], str]] = {
    # The formula depends on the number.
    **{
        (f"aten::{name}", argument): (_COMPUTED, _BY_ORDER)
        for name, argument in [
            ("dist", "p"),
            ("linalg_matrix_norm", "ord"),
            ("linalg_norm", "ord"),
            ("linalg_vector_norm", "ord"),
            ("norm.Scalar", "p"),
            ("norm.ScalarOpt_dim", "p"),
            ("norm.ScalarOpt_dim_dtype", "p"),
            ("norm.ScalarOpt_dtype", "p"),
            ("renorm", "p"),
        ]
    },
    # The number of steps depends on the degree.
    **{
        (f"aten::special_{name}.{overload}", overload[0]): (
            _COMPUTED if overload == "n_scalar" else set(FORMS),
            _BY_DEGREE,
        )
        for name in ("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p")
        for overload in ("n_scalar", "x_scalar")
    },
    # The start is above the end for some sizes, where PyTorch raises an error.
    ("aten::arange.start", "start"): ({"size", "float of a size"}, _BY_SIZE),
    ("aten::arange.start_step", "start"): ({"size", "float of a size"}, _BY_SIZE),
    # PyTorch refuses fractions for integers, but only where it describes the result.
    ("aten::index_add", "alpha"): ({"float of data", "float of a size", "float", "negative float"}, "safely cast"),
}

_CLAMPS = {"aten::clamp", "aten::clamp_max", "aten::clamp_min", "aten::clip"}

# In place of these, the one of the first kind shows what a number is in each dtype: all are registered by one function,
# which takes the numbers, computes in double and casts the result.
_OTHER_CHEBYSHEV = "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w", "_shifted_chebyshev"

OPERATORS = [
    operator
    for operator in translated_operators()
    if arguments_of_type(operator, *_SCALAR) and operator not in _OF_SCALARS_ALONE | _RANDOM
]


def _with_a_translation_of_their_own() -> list[str]:
    """The operators less those that have the translation of one before them: `multiply` is `mul`."""
    first: dict[tuple[Any, ...], str] = {}
    for operator in OPERATORS:
        if not any(name in operator for name in _OTHER_CHEBYSHEV):
            given = tuple(arguments_of_type(operator, *_SCALAR))
            entries = default_registry().of(operator)
            first.setdefault((given, *((entry.opset, entry.function, entry.complex) for entry in entries)), operator)
    return list(first.values())


OF_THEIR_OWN = _with_a_translation_of_their_own()


def _inputs(call: SchemaCall, seed: int, size: int) -> tuple[Any, ...]:
    return call.tensors(seed), torch.tensor(1.5 + seed), torch.tensor(2 + seed), torch.zeros(size)


# torch's description of the result is not what it computes: it refuses shifts of bool, and gives int64 for bool.
_DESCRIBED_OTHERWISE = {"aten::__lshift__.Scalar", "aten::__rshift__.Scalar", "aten::pow.Tensor_Scalar"}


def _row(operator: str, dtype: torch.dtype, forms: Iterable[str], **options: Any) -> Any:
    return pytest.param(operator, dtype, forms, id=f"{operator}-{dtype}", **options)


# In float32 all operators, and in integers those with a translation of their own. A bool takes the dtype of the number
# before anything is computed: what depends on the number's value is asked of the other dtypes.
ROWS = [
    *(_row(operator, torch.float32, FORMS) for operator in OPERATORS),
    *(
        _row(operator, dtype, FORMS, marks=pytest.mark.slow)
        for operator in OF_THEIR_OWN
        for dtype in (torch.int64, torch.uint8)
    ),
    *(
        _row(operator, torch.bool, _ONE_OF_A_TYPE, marks=pytest.mark.slow)
        for operator in OPERATORS
        if operator not in _DESCRIBED_OTHERWISE and not any(name in operator for name in _OTHER_CHEBYSHEV)
    ),
]


@pytest.mark.parametrize(("operator", "dtype", "forms"), slow_but_first(ROWS))
def test_numbers_of_every_form(operator: str, dtype: torch.dtype, forms: Iterable[str]) -> None:
    if dtype == torch.uint8 and operator in _CLAMPS and not capabilities.clamps_bytes_by_any_bound.present:
        pytest.skip("this torch takes a bound of -2 for 254 where the tensor is of uint8")
    call = SchemaCall(operator, dtype)
    example, other = _inputs(call, 0, 3), _inputs(call, 1, 5)
    model = _model_of_forms(forms, call, example, other)
    if model is not None:
        assert_matches(model, *example, others=[other], dynamic_shapes=_dynamic(example))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", one_in(2, [torch.float16, torch.bfloat16]), ids=str)
@pytest.mark.parametrize("operator", OF_THEIR_OWN)
def test_the_dtypes_of_halves(operator: str, dtype: torch.dtype) -> None:
    call = SchemaCall(operator, dtype)
    example = _inputs(call, 0, 3)
    model = _model_of_forms(_ONE_OF_A_TYPE, call, example)
    if model is not None:
        program = opbridge.export(model, example, dynamic_shapes=_dynamic(example), verify=False)
        expected = [onnx_dtype(result.dtype) for result in eager_results(model, example)]
        assert [output.dtype for output in program.model.graph.outputs] == expected


def _dynamic(example: tuple[Any, ...]) -> tuple[Any, ...]:
    return dict.fromkeys(example[0]), None, None, {0: torch.export.Dim("n", max=64)}


def _model_of_forms(forms: Iterable[str], call: SchemaCall, *inputs: tuple[Any, ...]) -> Callable[..., Any] | None:
    """A model of all calls with numbers of these forms that PyTorch takes for these inputs; None: of no call."""
    scalars = arguments_of_type(call.operator, *_SCALAR)

    def called(argument: str, form: str) -> Callable[..., Any]:
        beside = {name: _BESIDE.get(name, 2) for name in scalars if name != argument}

        def model(tensors: Any, real: Any, whole: Any, sized: Any) -> Any:
            return call(tensors, {**beside, argument: FORMS[form](real, whole, sized.shape[0])})

        return model

    models = []
    for argument in scalars:
        refused, _ = REFUSED.get((call.operator, argument), ((), ""))
        for form in forms:
            if form not in refused and _is_accepted(model := called(argument, form), *inputs):
                models.append(model)

    def all_forms(tensors: Any, real: Any, whole: Any, sized: Any) -> list[Any]:
        return [model(tensors, real, whole, sized) for model in models]

    return all_forms if models else None


@pytest.mark.parametrize(("operator", "argument"), REFUSED)
def test_numbers_that_are_refused_are_named(operator: str, argument: str) -> None:
    forms, words = REFUSED[operator, argument]
    call = SchemaCall(operator, torch.float32 if words != "safely cast" else torch.int64)
    form = sorted(forms)[0]
    beside = {name: _BESIDE.get(name, 2) for name in arguments_of_type(operator, *_SCALAR) if name != argument}
    example = _inputs(call, 0, 3)

    def model(tensors: Any, real: Any, whole: Any, sized: Any) -> Any:
        return call(tensors, {**beside, argument: FORMS[form](real, whole, sized.shape[0])})

    refused: tuple[type[Exception], ...] = (opbridge.MissingOperators, opbridge.CaptureError)
    if not _is_accepted(model, example):  # as a norm of a negative order, which some seeds draw
        refused, words = (opbridge.UsageError,), "The model itself fails"
    with pytest.raises(refused, match=words):
        opbridge.export(model, example, dynamic_shapes=_dynamic(example), verify=False)


def _is_accepted(model: Callable[..., Any], *inputs: Any) -> bool:
    """Whether PyTorch itself takes these numbers."""
    try:
        for given in inputs:
            model(*given)
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return False
    return True
