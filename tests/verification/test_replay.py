"""Rounding and ties, at which the runtime decides otherwise than PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from onnxscript import opset18 as op

import opbridge
from opbridge.verification.compare import compare
from opbridge.verification.judge import judged_by_steps
from opbridge.verification.replay import Replay
from opbridge.verification.report import OutputReport


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _half_up(self: Any, **_: Any) -> Any:
    return op.Floor(op.Add(self, op.CastLike(op.Constant(value_float=0.5), self)))


def _down(self: Any, **_: Any) -> Any:
    return op.Floor(self)


class Rounding(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(torch.round(x * 4) / 4)


TIES = (torch.arange(64).reshape(8, 8) * 37 % 64 - 32) / 8  # every second one times 4 is a half


def test_a_step_of_rounding_at_a_tie_is_forgiven() -> None:
    program = opbridge.export(Rounding(), (TIES,), custom_translation_table={"aten::round": _half_up})
    (output,) = program.verification.outputs  # type: ignore[union-attr]
    assert output.worst.forgiven and "one rounding step apart, next to a rounding tie" in program.verification.summary()  # type: ignore[union-attr]
    assert "elements of aten::round at " in output.worst.remark


def test_a_step_of_rounding_that_is_no_tie_is_wrong() -> None:
    with pytest.raises(opbridge.VerificationError, match="The first operator that differs is aten::round"):
        opbridge.export(Rounding(), (TIES,), custom_translation_table={"aten::round": _down})


def test_what_follows_a_tie_is_still_compared() -> None:
    def wrong(self: Any, other: Any) -> Any:
        return op.Div(self, op.CastLike(op.Constant(value_float=4.5), self))

    table = {"aten::round": _half_up, "aten::div.Tensor": wrong}
    with pytest.raises(opbridge.VerificationError, match=r"aten::div\.Tensor"):
        opbridge.export(Rounding(), (TIES,), custom_translation_table=table)


class FakeQuantized(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fake_quantize_per_tensor_affine(x, 0.25, 3, -128, 127) * 2


def _fake_quantized(
    self: Any, scale: float, zero_point: int, quant_min: int, quant_max: int, shift: float = 0.0
) -> Any:
    def number(value: float) -> Any:
        return op.CastLike(op.Constant(value_float=value), self)

    steps = _half_up(op.Add(op.Div(self, number(scale)), number(shift)))
    return op.Mul(op.Clip(steps, number(quant_min - zero_point), number(quant_max - zero_point)), number(scale))


def test_a_quantisation_step_at_a_tie_is_forgiven() -> None:
    table = {"aten::fake_quantize_per_tensor_affine": _fake_quantized}
    program = opbridge.export(FakeQuantized(), (TIES,), custom_translation_table=table)
    assert "one quantization step apart, next to a rounding tie" in program.verification.summary()  # type: ignore[union-attr]


def test_quantisation_that_is_wrong_by_a_step_is_wrong() -> None:
    def shifted(self: Any, *rest: Any) -> Any:
        return _fake_quantized(self, *rest, shift=0.3)

    with pytest.raises(opbridge.VerificationError):
        opbridge.export(
            FakeQuantized(), (TIES,), custom_translation_table={"aten::fake_quantize_per_tensor_affine": shifted}
        )


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_integers_of_a_quantisation_written_by_hand(shift: float) -> None:
    pytest.importorskip("torch.ao.quantization.fx._decomposed")

    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        steps = torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.25, 3, -128, 127, torch.int8)
        return steps, steps.float() * 0.25

    def quantized(input: Any, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: int) -> Any:
        def number(value: float) -> Any:
            return op.CastLike(op.Constant(value_float=value), input)

        steps = op.Add(_half_up(op.Add(op.Div(input, number(0.25)), number(shift))), number(3.0))
        return op.Cast(op.Clip(steps, number(-128.0), number(127.0)), to=3)

    table = {"quantized_decomposed::quantize_per_tensor": quantized}
    if shift:
        with pytest.raises(opbridge.VerificationError):
            opbridge.export(model, (TIES,), custom_translation_table=table)
        return
    found = opbridge.export(model, (TIES,), custom_translation_table=table).verification
    assert found is not None and all(output.worst.forgiven for output in found.outputs)
    assert "of 64 elements of quantized_decomposed::quantize_per_tensor" in str(found)


def _only_output(program: opbridge.Program) -> OutputReport:
    assert program.verification is not None
    (output,) = program.verification.outputs
    return output


def above(x: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.sin(x) > 0.5, 10 * x, -10 * x)


NEXT_TO_HALF = torch.cat([torch.asin(torch.full((4,), 0.5)) * (1 - 4e-7), normal(6)])


def _sine(self: Any, factor: float = 1 + 2e-6) -> Any:
    return op.Mul(op.Sin(self), op.Constant(value_float=factor))


def test_a_comparison_next_to_its_threshold_is_forgiven() -> None:
    program = opbridge.export(above, (NEXT_TO_HALF,), custom_translation_table={"aten::sin": _sine})
    output = _only_output(program)
    assert output.worst.forgiven
    assert "decides otherwise on inputs that agree within the tolerance" in output.worst.remark


def test_a_cast_next_to_an_integer_is_forgiven() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return (torch.sin(x) * 4).to(torch.int64) * 100 + x

    program = opbridge.export(model, (NEXT_TO_HALF,), custom_translation_table={"aten::sin": _sine})
    output = _only_output(program)
    assert output.worst.forgiven and "aten::to.dtype at " in output.worst.remark


def test_a_comparison_that_is_wrong_for_its_inputs_is_wrong() -> None:
    def greater(self: Any, other: Any) -> Any:
        return op.Greater(self, op.Constant(value_float=0.499))

    table = {"aten::sin": _sine, "aten::gt.Scalar": greater}
    x = torch.cat([NEXT_TO_HALF, torch.asin(torch.full((1,), 0.4995))])
    with pytest.raises(opbridge.VerificationError):
        opbridge.export(above, (x,), custom_translation_table=table)


def test_a_comparison_of_inputs_that_differ_is_wrong() -> None:
    def sine(self: Any) -> Any:
        return _sine(self, 1.01)

    with pytest.raises(opbridge.VerificationError):
        opbridge.export(above, (NEXT_TO_HALF,), custom_translation_table={"aten::sin": sine})


@pytest.mark.torchvision
def test_an_overlap_next_to_the_threshold_is_forgiven() -> None:
    """The second box overlaps half of the first one, and a little more in the file."""
    from torchvision.ops import nms

    def model(boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        boxes = torch.cat([boxes[:, :3], torch.sin(boxes[:, 3:])], 1)
        return boxes[nms(boxes, scores, 0.5)]

    boxes = torch.tensor([[0.0, 0, 1, torch.pi / 2], [0, 0, 1, torch.pi / 6 * (1 - 4e-7)], [4, 0, 5, 1]])
    table = {"aten::sin": lambda self: op.Min(_sine(self), op.Constant(value_float=1.0))}
    program = opbridge.export(model, (boxes, torch.tensor([0.9, 0.8, 0.7])), custom_translation_table=table)
    output = _only_output(program)
    assert output.worst.forgiven and "torchvision::nms at " in output.worst.remark


class Picking(torch.nn.Module):
    def __init__(self, stable: bool = False) -> None:
        super().__init__()
        self.stable = stable

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        places = torch.sort(x, dim=-1, stable=self.stable).indices
        return places, y.gather(-1, places).cumsum(-1)


def _ints(value: int) -> Any:
    return op.Constant(value_ints=[value])


def _last_first(self: Any, stable: Any = None, dim: int = -1, descending: bool = False) -> Any:
    """Sorts a row of 6, equal elements in the reverse of their order."""
    backwards = op.Slice(self, _ints(5), _ints(-7), _ints(-1), _ints(-1))
    values, places = op.TopK(backwards, _ints(6), axis=-1, largest=0, sorted=1)
    return values, op.Sub(_ints(5), places)


def _picking_args() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.tensor([[3, 1, 2, 1, 3, 2], [1, 1, 1, 2, 2, 2], [6, 5, 4, 3, 2, 1]]).float()
    return x, normal(3, 6)


def test_equal_elements_may_stand_in_another_order_with_all_that_follows() -> None:
    table = {"aten::sort.stable": _last_first}
    found = opbridge.export(Picking(), _picking_args(), custom_translation_table=table).verification
    assert found is not None and all(output.worst.forgiven for output in found.outputs)
    assert "equal elements of aten::sort.stable" in found.summary() and "are in a different order" in found.summary()


def test_a_stable_sort_keeps_the_order_of_equal_elements() -> None:
    table = {"aten::sort.stable": _last_first}
    with pytest.raises(opbridge.VerificationError):
        opbridge.export(Picking(stable=True), _picking_args(), custom_translation_table=table)


class Largest(torch.nn.Module):
    """A mask of the three largest elements of each row, as a mixture of experts chooses."""

    def __init__(self, order: bool) -> None:
        super().__init__()
        self.order = order

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, places = x.topk(3, dim=-1, sorted=self.order)
        return values, torch.zeros_like(x).scatter(-1, places, 1.0)


def _in_rising_order(self: Any, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    values, places = op.TopK(self, _ints(3), axis=-1, largest=1, sorted=1)
    return tuple(op.Slice(each, _ints(-1), _ints(-4), _ints(-1), _ints(-1)) for each in (values, places))


def _smallest(self: Any, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    return op.TopK(self, _ints(3), axis=-1, largest=0, sorted=1)


def test_elements_of_a_topk_that_is_not_sorted_may_stand_in_any_order() -> None:
    table = {"aten::topk": _in_rising_order}
    found = opbridge.export(Largest(False), _picking_args()[1:], custom_translation_table=table).verification
    assert found is not None and found.outputs[0].worst.forgiven
    assert "elements of aten::topk" in found.summary() and "are in a different order" in found.summary()


@pytest.mark.parametrize(("order", "wrong"), [(True, _in_rising_order), (False, _smallest)])
def test_elements_of_a_topk_in_a_wrong_order_or_others_are_wrong(order: bool, wrong: Any) -> None:
    with pytest.raises(opbridge.VerificationError, match="first operator that differs"):
        opbridge.export(Largest(order), _picking_args()[1:], custom_translation_table={"aten::topk": wrong})


def test_a_wrong_order_is_wrong() -> None:
    def backwards(self: Any, stable: Any = None, dim: int = -1, descending: bool = False) -> Any:
        return op.TopK(self, op.Constant(value_ints=[6]), axis=-1, largest=1, sorted=1)

    with pytest.raises(opbridge.VerificationError, match="first operator that differs"):
        opbridge.export(Picking(), _picking_args(), custom_translation_table={"aten::sort.stable": backwards})


def _judged_by_steps(actual: torch.Tensor, plain: torch.Tensor, step: float | None) -> Any:
    expected = torch.tensor([0.5, 1.0, -0.25])
    comparison = compare("output", expected, actual)
    return judged_by_steps(comparison, Replay([plain], steps=[step]), 0, expected, actual)


EXACT = torch.tensor([0.5, 1.0, -0.25])


def test_a_step_that_fused_operators_round_otherwise_is_forgiven() -> None:
    found = _judged_by_steps(EXACT + torch.tensor([0.0, 0.25, -0.25]), EXACT, 0.25)
    assert found.forgiven and found.remark.startswith(
        "2 of 3 elements differ by one quantization step because of ONNX Runtime's"
    )


def test_steps_that_other_roundings_beside_ties_explain_are_forgiven() -> None:
    actual = EXACT + torch.tensor([0.25, 0.0, 0.0])
    for beside_ties, is_right in (
        ([EXACT + 0.25, EXACT], True),
        ([EXACT - 0.25, EXACT + torch.tensor([0.5, 0.0, 0.0])], True),
        ([actual], False),  # no computation has the first element that PyTorch has
        ([], False),
        ([actual, actual + torch.tensor([0.0, 0.25, 0.0])], False),
    ):
        plain = Replay([actual], steps=[0.25], beside_ties=[[each] for each in beside_ties])
        found = judged_by_steps(compare("output", EXACT, actual), plain, 0, EXACT, actual)
        assert found.forgiven == is_right
        assert not is_right or found.remark.startswith("1 of 3 elements differ by one quantization step, because")


def test_two_steps_are_not_explained_by_roundings_beside_ties() -> None:
    actual = EXACT + torch.tensor([0.5, 0.0, 0.0])
    plain = Replay([actual], steps=[0.25], beside_ties=[[EXACT], [actual]])
    assert not judged_by_steps(compare("output", EXACT, actual), plain, 0, EXACT, actual).ok


@pytest.mark.parametrize(
    "actual, plain, step",
    [
        (EXACT + 0.5, EXACT, 0.25),  # two steps
        (EXACT + 0.25, EXACT + 0.25, 0.25),  # the file itself differs
        (EXACT + 0.25, EXACT, None),  # no quantised output
    ],
)
def test_other_differences_of_fused_operators_are_not(actual: torch.Tensor, plain: torch.Tensor, step: Any) -> None:
    assert not _judged_by_steps(actual, plain, step).ok
