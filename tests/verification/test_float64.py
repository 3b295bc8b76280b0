"""The judgement by the model in float64."""

from __future__ import annotations

import copy
import functools
import math
from typing import Any

import pytest
import torch
from onnxscript import opset18 as op

import opbridge
from opbridge.base.torch_private.torch_float64 import in_float64, rounded_otherwise
from opbridge.verification import float64
from opbridge.verification.compare import Comparison, compare
from opbridge.verification.float64 import Unavailable, judged, run_in_float64


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Amplifying(torch.nn.Module):
    """A normalisation of numbers that differ little beside what they have in common."""

    def __init__(self, share: float = 1e-3) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.norm, self.share = torch.nn.Linear(512, 512), torch.nn.LayerNorm(512), share

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(x) * self.share + 100.0)


def _slightly_wrong(a: Any, b: Any) -> Any:
    return op.Mul(a, op.CastLike(op.Mul(b, op.Constant(value_float=1.1)), a))


def test_an_ill_conditioned_model_is_right_where_it_is_as_near_to_float64() -> None:
    model, x = Amplifying().eval(), (normal(4, 512),)
    program = opbridge.export(model, x)
    assert program.verification is not None
    (output,) = program.verification.outputs
    assert output.worst.forgiven and output.worst.outside > 0 and output.worst.excess > 1
    said = "error against float64 no larger than PyTorch's: 0.00"
    assert said in program.verification.summary() and said in str(program.verification)
    assert said in program.verification.to_json()["outputs"][0]["remark"]


def test_a_wrong_file_of_an_ill_conditioned_model_is_wrong() -> None:
    model, x = Amplifying().eval(), (normal(4, 512),)
    with pytest.raises(opbridge.VerificationError, match="larger error against float64 than PyTorch") as caught:
        opbridge.export(model, x, custom_translation_table={"aten::mul.Tensor": _slightly_wrong})
    assert "aten::mul.Tensor" in str(caught.value)


def judgement(
    expected: torch.Tensor, actual: torch.Tensor, truth: torch.Tensor, *nearby: torch.Tensor, **options: Any
) -> Comparison:
    return judged(compare("y", expected, actual, **options), expected, actual, truth, nearby)


def test_where_pytorch_is_exact_the_tolerance_stands() -> None:
    truth = normal(1000).double()
    expected = truth.float()
    for size in (1e-2, 1e-3):
        assert not judgement(expected, (truth + size).float(), truth).ok
    # A file within the tolerance of float64 is right, however far PyTorch is.
    assert judgement((truth + normal(1000, seed=1) * 0.01).float(), (truth + 1e-4).float(), truth).ok


def test_the_factor_is_what_is_said() -> None:
    truth = normal(10000).double()
    noise = normal(10000, seed=1).double() * 0.01
    expected = (truth + noise).float()
    other = normal(10000, seed=2).double() * 0.01
    assert judgement(expected, (truth + other).float(), truth).ok
    assert not judgement(expected, (truth + other * float64.FACTOR).float(), truth).ok


def test_one_ill_conditioned_element_excuses_itself_alone() -> None:
    truth = normal(100).double()
    expected, actual = truth.clone(), truth.clone()
    expected[7] += 0.5
    actual[7] -= 0.4
    assert judgement(expected.float(), actual.float(), truth).ok
    actual[7], actual[9] = truth[7], truth[9] + 0.4
    assert not judgement(expected.float(), actual.float(), truth).ok


def test_an_error_that_is_small_by_chance_is_seen_on_inputs_beside() -> None:
    truth = normal(100).double()
    expected, actual, beside = truth.clone(), truth.clone(), truth.clone()
    actual[7] += 0.4
    beside[7] -= 0.3
    assert not judgement(expected.float(), actual.float(), truth).ok
    found = judgement(expected.float(), actual.float(), truth, beside.float())
    assert found.ok and "inputs perturbed by one ulp" in found.remark


def _runs_with_outliers(*errors: float) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """A result in float64, and four of PyTorch's, each with an error in an element of its own beside small ones."""
    truth = normal(100).double()
    runs = [truth + 1e-3 * normal(100, seed=seed).double().clamp(-1, 1) for seed in range(1, 5)]
    for at, (run, error) in enumerate(zip(runs, errors, strict=True)):
        run[at] = truth[at] + error
    return truth, [run.float() for run in runs]


def test_a_result_with_as_large_errors_as_pytorchs_have_among_themselves_is_one_of_them() -> None:
    truth, runs = _runs_with_outliers(0.02, 0.0, 0.0, 0.015)
    actual = truth.clone()
    common = max(float((each - truth).abs().kthvalue(90).values) for each in runs)
    for factor, ok in ((1.2, True), (1.9, True), (2.5, False)):
        actual[50] = truth[50] + factor * float64.FACTOR * common
        assert judgement(runs[0], actual.float(), truth, *runs[1:]).ok is ok
    # Not where more elements have such errors, nor where PyTorch's results have none.
    actual[40:60] = truth[40:60] + 1.5 * float64.FACTOR * common
    assert not judgement(runs[0], actual.float(), truth, *runs[1:]).ok
    _, even = _runs_with_outliers(0.0, 0.0, 0.0, 0.0)
    actual = truth.clone()
    actual[50] = truth[50] + 1.5 * float64.FACTOR * common
    assert not judgement(even[0], actual.float(), truth, *even[1:]).ok


def test_what_pytorch_was_run_with_is_said() -> None:
    truth, runs = _runs_with_outliers(0.0, 0.0, 0.0, 0.0)
    actual, beside = (truth + 0.1).float(), runs[1:]
    given = compare("y", runs[0], actual)
    for nearby, rounded, said in (
        (beside, [], "PyTorch: 0.1, PyTorch 0.001, for inputs perturbed by one ulp"),
        ([], beside, "PyTorch: 0.1, PyTorch 0.001, with a different order of summation"),
        (beside, beside, "for inputs perturbed by one ulp or with a different order of summation"),
    ):
        assert judged(given, runs[0], actual, truth, nearby, rounded).remark.endswith(said)


def test_sums_are_rounded_otherwise_and_exact_ones_are_not() -> None:
    x, weight = normal(50, 300), normal(300, 4)
    truth = x.double() @ weight.double()
    with rounded_otherwise(0):
        other = x @ weight
        same = torch.ones(5, 3) @ torch.ones(3, 2)
        halved = (torch.arange(6) / 2).floor()
    assert torch.equal(same, torch.full((5, 2), 3.0)) and halved.tolist() == [0, 0, 1, 1, 2, 2]
    error, own = (other - truth).abs(), (x @ weight - truth).abs()
    assert not torch.equal(other, x @ weight)
    assert float((error - own).abs().max()) <= float(torch.finfo(torch.float32).eps * truth.abs().max())


@pytest.mark.parametrize("in_place", [False, True])
def test_sigmoids_are_off_on_the_scale_of_one(in_place: bool) -> None:
    """As ONNX Runtime's are, whose sigmoid of -30 is 0."""
    x = torch.tensor([-30.0, -18.0, -5.0, 0.0, 5.0, 30.0, math.nan, -math.inf, math.inf]).repeat(50)
    eps = torch.finfo(torch.float32).eps
    silu = functools.partial(torch.nn.functional.silu, inplace=in_place)
    with rounded_otherwise(0):
        found, times_x = x.clone(), x.clone()
        found = found.sigmoid_() if in_place else found.sigmoid()
        returned = silu(times_x)
    assert (returned is times_x) == in_place
    off = (found - x.sigmoid()).nan_to_num().abs()
    assert float(off.max()) <= 1.5 * eps and 100 < int((off > 0).sum()) < 300
    assert bool(found[~found.isnan()].ge(0).all()) and bool(found[~found.isnan()].le(1).all())
    assert torch.equal(found.isnan(), x.isnan())
    finite = x.isfinite()
    torch.testing.assert_close(returned[finite], x.sigmoid()[finite] * x[finite], rtol=0, atol=60 * eps)


def test_a_small_sigmoid_that_is_amplified() -> None:
    """A gate is normalised whose elements are all near 0, of which ONNX Runtime has few digits."""

    class Gate(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.normalize(x.sigmoid(), dim=-1)

    x = torch.linspace(-12.0, -8.0, 16).reshape(8, 2)
    program = opbridge.export(Gate(), (x,))
    assert any("order of summation" in each.remark for run in program.verification.runs for each in run.comparisons)
    with opbridge.override():

        @opbridge.translation("aten::sigmoid")
        def twice(self: Any) -> Any:
            return op.Mul(op.Sigmoid(self), op.Sigmoid(self))

        with pytest.raises(opbridge.VerificationError, match="aten::sigmoid"):
            opbridge.export(Gate(), (x + 9,))


def test_differences_of_cumulative_sums() -> None:
    """Where two large sums differ by little, the last digit of each decides."""
    x = 100 + normal(4, 40)
    truth = x.double().cumsum(-1).diff(dim=-1)
    errors = []
    for seed in range(3):
        with rounded_otherwise(seed):
            assert torch.arange(6.0).cumsum(0).tolist() == [0, 1, 3, 6, 10, 15]
            assert torch.ones(5).mean() == 1
            assert torch.full((50,), 1e38).sum() == math.inf
            errors.append(float((x.cumsum(-1).diff(dim=-1) - truth).abs().max()))
    ulp = 2.0**-12
    assert len(set(errors)) > 1 and max(errors) <= 12 * ulp


def test_elements_that_change_places_by_the_rounding_of_sums() -> None:
    """Which of two rows comes first depends on the last digit of a sum."""
    x = torch.full((1, 1000), 0.1)
    weight = torch.stack([torch.ones(1000), torch.cat([torch.full((500,), 3.0), torch.full((500,), -1.0)])])

    def found() -> torch.Tensor:
        score = (x @ weight.T).squeeze(0)
        return torch.tensor([0.0, 50.0])[score.argsort(stable=True)]

    outcomes = set()
    for seed in range(20):
        with rounded_otherwise(seed):
            outcomes.add(tuple(found().tolist()))
    assert len(outcomes) == 2


def test_a_file_that_is_right_where_pytorch_is_not() -> None:
    truth = normal(100).double()
    found = judgement((truth + normal(100, seed=1)).float(), truth.float(), truth)
    assert found.ok and "agrees with float64 within the tolerance; PyTorch's own error is" in found.remark
    one = truth.clone()
    one[7] += 1
    assert not judgement((truth + normal(100, seed=1)).float(), one.float(), truth).ok


def test_noise_proves_nothing() -> None:
    truth = normal(100).double()
    found = judgement((truth + normal(100, seed=1)).float(), (truth + normal(100, seed=2)).float(), truth)
    assert not found.ok and "not decidable by float64" in found.remark and not found.noisy


def test_a_minority_of_runs_without_digits_excuses_nothing_and_hides_nothing() -> None:
    truth, runs = _runs_with_outliers(0.0, 0.0, 0.0, 0.0)
    without_digits = (truth + normal(100, seed=9)).float()
    actual = (truth + 3e-3 * normal(100, seed=8).double().clamp(-1, 1)).float()
    assert judgement(runs[0], actual, truth, *runs[1:]).ok
    assert judgement(runs[0], actual, truth, *runs[1:], without_digits).ok
    wrong = (truth + 0.1 * normal(100, seed=8).double()).float()
    found = judgement(runs[0], wrong, truth, *runs[1:], without_digits)
    assert not found.ok and "larger error against float64 than PyTorch" in found.remark
    # As where a rounding selects another expert for the first rows: the results are those of the one or of the other.
    other = torch.where(torch.arange(100) < 20, without_digits, actual)
    assert judgement(runs[0], other, truth, *runs[1:], without_digits).ok
    between = torch.where(torch.arange(100) < 20, (without_digits + actual) / 2, actual)
    assert not judgement(runs[0], between, truth, *runs[1:], without_digits).ok
    # With a majority of such runs, and where the run on the inputs themselves is one, nothing can be said.
    for first, *others in ((runs[0], *(3 * [without_digits])), (without_digits, *runs)):
        found = judgement(first, actual, truth, *others)
        assert not found.ok and "not decidable by float64" in found.remark


def test_noise_is_what_pytorch_gives_otherwise_for_inputs_nearby() -> None:
    truth = normal(100).double()
    expected, actual = ((truth + normal(100, seed=seed)).float() for seed in (1, 2))
    assert judgement(expected, actual, truth, (truth + normal(100, seed=3)).float()).noisy
    assert not judgement(expected, actual, truth, expected + 1e-6).noisy


def test_infinities_and_nans_are_those_of_one_of_the_two() -> None:
    truth = torch.tensor([1e5, 2.0, 3.0, float("nan")]).double()
    expected = truth.half()  # 1e5 is infinite
    assert judgement(expected, torch.tensor([torch.inf, 2.0, 3.0, torch.nan]).half(), truth).ok
    for wrong in ([7.0, 2.0, 3.0, torch.nan], [torch.inf, torch.nan, 3.0, torch.nan], [torch.inf, 2.0, 3.0, 1.0]):
        assert not judgement(expected, torch.tensor(wrong).half(), truth).ok
    # PyTorch overflows where float64 in the output's dtype does not.
    assert judgement(
        torch.tensor([torch.inf, 2.0]).half(), torch.tensor([5e4, 2.0]).half(), torch.tensor([5e4, 2.0])
    ).ok


def test_integers_are_those_of_pytorch_or_of_float64() -> None:
    expected, truth = torch.tensor([3, 5, 7]), torch.tensor([3, 6, 7])
    found = judgement(expected, torch.tensor([3, 6, 7]), truth)
    assert found.ok and found.remark == "1 of 3 elements equal those of the model in float64"
    assert not judgement(expected, torch.tensor([3, 8, 7]), truth).ok
    assert judgement(expected, torch.tensor([3, 8, 7]), truth, torch.tensor([3, 8, 7])).ok


class HardCoded(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.scale = torch.tensor(0.1)
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        made = torch.zeros(x.shape, dtype=torch.float32)
        made[:, 1:] = self.linear(x.float())[:, 1:]
        return made * self.scale + self.count + torch.ones(4, dtype=torch.float32) / 3


def test_dtypes_that_the_model_names_are_float64_too() -> None:
    model = HardCoded()
    before = copy.deepcopy(model.state_dict())
    addresses = [tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers())]
    x = normal(3, 4)
    (found,) = run_in_float64(model, (x,), {}, 0)
    wide = copy.deepcopy(model).double()
    values = torch.nn.functional.linear(x.double(), wide.linear.weight, wide.linear.bias).detach()
    values[:, 0] = 0
    torch.testing.assert_close(found, values * float(torch.tensor(0.1)) + 1 + 1 / 3, rtol=0, atol=1e-12)
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    assert addresses == [tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers())]


class Asking(torch.nn.Module):
    """Compares dtypes, so its weights have to be converted."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 4)
        self.tied = self.lstm.weight_hh_l0

    def forward(self, x: torch.Tensor, fail: bool = False) -> torch.Tensor:
        if fail:
            raise ValueError("not in float64")
        return self.lstm(x)[0]


def test_weights_are_put_back_where_they_had_to_be_converted() -> None:
    model, x = Asking(), normal(5, 2, 4)
    held = dict(model.named_parameters(remove_duplicate=False))
    addresses = {name: tensor.data_ptr() for name, tensor in held.items()}
    (found,) = run_in_float64(model, (x,), {}, 0)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found.float(), model(x).detach())
    with pytest.raises(Unavailable, match="not in float64"):
        run_in_float64(model, (x, True), {}, 0)
    now = dict(model.named_parameters(remove_duplicate=False))
    assert all(now[name] is tensor and tensor.data_ptr() == addresses[name] for name, tensor in held.items())
    assert all(tensor.dtype == torch.float32 for tensor in now.values()) and model(x).dtype == torch.float32


def test_a_model_too_large_for_float64_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float64, "_free_bytes", lambda: 100)
    with pytest.raises(MemoryError, match="in float64"), float64._wide_weights(Asking()):
        pass


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float64(dtype: torch.dtype) -> None:
    model = torch.nn.Linear(8, 8).to(dtype)
    x = normal(2, 8).to(dtype)
    (found,) = run_in_float64(model, (x,), {}, 0)
    expected = torch.nn.functional.linear(x.double(), model.weight.double(), model.bias.double())
    assert found.dtype == torch.float64 and torch.equal(found, expected)


def test_bits_are_not_read_as_another_dtype() -> None:
    with pytest.raises(NotImplementedError, match="bits"), in_float64():
        normal(3).view(torch.int32)


def test_a_model_that_float64_does_not_take_is_said() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        if x.dtype != torch.float32:
            raise TypeError("float32 only")
        return x * 2

    with pytest.raises(opbridge.VerificationError, match=r"could not be computed in float64.*float32 only"):
        opbridge.export(model, (normal(3, 4),), custom_translation_table={"aten::mul.Tensor": _slightly_wrong})
