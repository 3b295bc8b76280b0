from __future__ import annotations

import math

import pytest
import torch

from opbridge.verification.compare import Tolerance, compare, tolerance


def test_equal_tensors_agree_without_a_worst_place() -> None:
    values = torch.randn(3, 4)
    result = compare("y", values, values.clone())
    assert result.ok
    assert (result.absolute, result.relative, result.outside, result.index) == (0.0, 0.0, 0, None)
    assert (result.dtype, result.shape, result.elements) == ("float32", (3, 4), 12)


def test_the_worst_element_is_found_with_its_values() -> None:
    expected = torch.ones(2, 3)
    actual = expected.clone()
    actual[0, 1] = 1.5
    actual[1, 2] = 3.0
    result = compare("y", expected, actual)
    assert not result.ok
    assert (result.outside, result.index, result.expected, result.actual) == (2, (1, 2), 1.0, 3.0)
    assert result.absolute == pytest.approx(2.0)
    assert result.excess == pytest.approx(2.0 / (2 * tolerance(expected).relative))
    assert "2 of 6 elements" in str(result) and "[1, 2]" in str(result)


def test_the_worst_element_is_found_in_a_later_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opbridge.verification.compare._CHUNK", 7)
    expected = torch.ones(5, 5)
    actual = expected.clone()
    actual[0, 2] = 1.1
    actual[4, 3] = 1.2
    result = compare("y", expected, actual)
    assert (result.outside, result.index) == (2, (4, 3))
    assert tolerance(expected).absolute == pytest.approx(tolerance(torch.ones(1)).absolute)


def test_a_worst_place_within_the_tolerance_is_no_mismatch() -> None:
    expected = torch.tensor([1.0, 2.0])
    result = compare("y", expected, torch.tensor([1.0, 2.0001]))
    assert result.ok and result.index == (1,) and 0 < result.absolute < 2e-4


@pytest.mark.parametrize(
    ("dtype", "relative"),
    [(torch.float64, 1.5e-8), (torch.float32, 3.5e-4), (torch.float16, 3.1e-2), (torch.bfloat16, 8.8e-2)],
)
def test_the_tolerance_is_half_of_the_digits(dtype: torch.dtype, relative: float) -> None:
    allowed = tolerance(torch.ones(4, dtype=dtype) * 3)
    assert allowed.relative == pytest.approx(relative, rel=0.05)
    assert allowed.absolute == pytest.approx(3 * relative, rel=0.05)
    assert str(dtype).removeprefix("torch.") in allowed.origin and "sqrt(eps)" in allowed.origin


def test_float64_is_not_judged_like_float32() -> None:
    expected = torch.ones(3, dtype=torch.float64)
    assert not compare("y", expected, expected + 1e-6).ok
    assert compare("y", expected.float(), expected.float() + 1e-6).ok


def test_a_coarser_precision_on_the_way_widens_and_a_finer_one_does_not() -> None:
    expected = torch.ones(3)
    assert compare("y", expected, expected * 1.01, precision=torch.float16).ok
    assert not compare("y", expected, expected * 1.01, precision=torch.float64).ok
    assert tolerance(expected, precision=torch.float64) == tolerance(expected)
    assert "float16" in tolerance(expected, precision=torch.float16).origin


def test_small_elements_are_judged_on_the_scale_of_the_output() -> None:
    expected = torch.tensor([1000.0, 1e-6])
    actual = torch.tensor([1000.0, 5e-6])
    assert compare("y", expected, actual).ok
    assert not compare("y", expected[1:], actual[1:]).ok


def test_an_output_that_is_rounding_only_is_judged_as_rounding() -> None:
    expected = torch.tensor([3e-8, -2e-8])
    assert compare("y", expected, -expected).ok
    assert "rounding" in tolerance(expected).origin
    assert compare("y", torch.zeros(2), torch.full((2,), 1e-7)).ok
    assert not compare("y", torch.zeros(2), torch.full((2,), 1e-6)).ok


def test_rounding_grows_with_the_values_that_the_output_comes_from() -> None:
    expected = torch.tensor([3e-6, -2e-6])
    assert not compare("y", expected, -expected).ok
    assert compare("y", expected, -expected, scale=100.0).ok


def test_small_float16_outputs_are_no_rounding() -> None:
    expected = torch.full((1000,), 1e-3, dtype=torch.float16)
    assert not compare("y", expected, expected * 2).ok


def test_given_tolerances_are_taken_as_they_are() -> None:
    expected = torch.tensor([2.0])
    assert not compare("y", expected, torch.tensor([2.0001]), rtol=1e-6).ok
    assert compare("y", expected, torch.tensor([2.5]), atol=0.6).ok
    assert compare("y", torch.tensor([5]), torch.tensor([6]), atol=1).ok
    assert tolerance(expected, rtol=0.25, atol=0.5) == Tolerance(0.25, 0.5, "given: relative 2.5e-01, absolute 5.0e-01")


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64, torch.uint16, torch.uint32])
def test_integers_are_equal_or_wrong(dtype: torch.dtype) -> None:
    expected = torch.tensor([1, 2, 100], dtype=torch.int64).to(dtype)
    wrong = torch.tensor([1, 3, 100], dtype=torch.int64).to(dtype)
    assert compare("y", expected, expected.clone()).ok
    result = compare("y", expected, wrong)
    assert (result.outside, result.index, result.expected, result.actual) == (1, (1,), 2, 3)
    assert result.tolerance.is_exact


def test_int64_beyond_float64_and_uint64_are_told_apart() -> None:
    expected = torch.tensor([2**62])
    result = compare("y", expected, expected + 1)
    assert (result.outside, result.absolute) == (1, 1.0)
    unsigned = torch.tensor([2**62, 5], dtype=torch.int64).view(torch.uint64)
    changed = torch.tensor([2**62, 6], dtype=torch.int64).view(torch.uint64)
    assert compare("y", unsigned, unsigned.clone()).ok and not compare("y", unsigned, changed).ok


def test_truth_values_are_equal_or_wrong() -> None:
    expected = torch.tensor([True, False])
    assert compare("y", expected, expected.clone()).ok
    assert compare("y", expected, torch.tensor([True, True])).outside == 1


def test_nan_and_infinity_have_to_stand_where_pytorch_has_them() -> None:
    nan, inf = math.nan, math.inf
    expected = torch.tensor([nan, inf, -inf, 1.0])
    assert compare("y", expected, expected.clone()).ok
    for position, value in [(0, 1.0), (1, -inf), (1, nan), (1, 3e38), (2, 0.0), (3, nan), (3, inf)]:
        actual = expected.clone()
        actual[position] = value
        result = compare("y", expected, actual)
        assert (result.outside, result.index, result.absolute) == (1, (position,), inf), (position, value)


def test_infinities_do_not_widen_the_tolerance_of_the_others() -> None:
    expected = torch.tensor([math.inf, 1.0])
    assert not compare("y", expected, torch.tensor([math.inf, 1.1])).ok


def test_shape_and_dtype_have_to_be_equal() -> None:
    shape = compare("y", torch.ones(2, 1), torch.ones(2))
    assert not shape.ok and "[2]" in str(shape) and "[2, 1]" in str(shape)
    dtype = compare("y", torch.ones(2, dtype=torch.int64), torch.ones(2, dtype=torch.int32))
    assert not dtype.ok and "int32" in str(dtype) and "int64" in str(dtype)


def test_complex_tensors_are_compared_as_pairs() -> None:
    expected = torch.tensor([1 + 2j, 3 - 1j])
    pairs = torch.view_as_real(expected).clone()
    result = compare("y", expected, pairs)
    assert result.ok and result.dtype == "complex64" and result.shape == (2, 2)
    assert compare("y", expected.conj(), torch.view_as_real(expected.conj().resolve_conj())).ok
    assert not compare("y", expected.conj(), pairs).ok
    pairs[1, 1] = 1
    assert compare("y", expected, pairs).index == (1, 1)


def test_random_values_are_not_compared_but_shape_and_dtype_are() -> None:
    assert compare("y", torch.zeros(3), torch.ones(3), random=True).ok
    assert compare("y", torch.zeros(3), torch.ones(3), random=True).random
    assert not compare("y", torch.zeros(3), torch.ones(4), random=True).ok


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16])
def test_narrow_floats_are_compared(dtype: torch.dtype) -> None:
    expected = torch.tensor([0.5, 1.0, 2.0]).to(dtype)
    assert compare("y", expected, expected.clone()).ok
    assert compare("y", expected, torch.tensor([0.5, 1.0, 8.0]).to(dtype)).outside == 1


def test_empty_and_scalar_tensors() -> None:
    assert compare("y", torch.empty(0, 3), torch.empty(0, 3)).ok
    scalar = compare("y", torch.tensor(1.0), torch.tensor(2.0))
    assert scalar.index == () and scalar.outside == 1
