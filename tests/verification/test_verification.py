from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
import torch
from helpers.handmade import onnx_model

import opbridge
from opbridge.capture import capture
from opbridge.errors import ModelFileError, UsageError, VerificationError
from opbridge.plan.data import Plan
from opbridge.program import Program
from opbridge.verification import Verification


def rows(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def saved(folder: Path, graph: str, *given: Any, **options: Any) -> Path:
    path = folder / "model.onnx"
    ir.save(onnx_model(graph, *given, **options), path)
    return path


def labels(verification: Verification) -> list[str]:
    return [run.label for run in verification.runs]


class Scaled(torch.nn.Module):
    """x * weight, and its sum."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x * self.weight
        return {"y": y, "total": y.sum()}


SCALED = """(float[{0}, 3] x) => (float[{0}, 3] y, float total) <float[3] w = {{1, 2, {1}}}> {{
    y = Mul(x, w) total = ReduceSum<keepdims = 0>(y) }}"""
SCALED_NODES = {"y": "mul", "total": "sum_1"}


def test_a_right_file_agrees_on_the_example_and_on_fresh_inputs(tmp_path: Path) -> None:
    path = saved(tmp_path, SCALED.format(2, 3))
    found = opbridge.verify(path, Scaled(), (rows(2, 3),))
    assert found.ok and labels(found) == ["example", "fresh 1", "fresh 2"]
    y, total = found.outputs
    assert (y.name, y.worst.dtype, y.worst.shape) == ("y", "float32", (2, 3)) and y.ok
    assert (total.name, total.worst.shape) == ("total", ())
    assert found.difference is None and found.subject == str(path) and found.runtime.startswith("onnxruntime ")
    assert "sqrt(eps)" in total.worst.tolerance.origin or total.worst.tolerance.absolute > 0


def test_fresh_inputs_find_what_the_example_hides(tmp_path: Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x.abs()

    # A file that froze the example's answer into itself.
    frozen = ", ".join(str(float(value)) for value in rows(3, 4).abs().reshape(-1))
    path = saved(
        tmp_path,
        f"(float[3, 4] x) => (float[3, 4] y) <float[3, 4] c = {{{frozen}}}, float zero = {{0}}> "
        "{ z = Mul(x, zero) y = Add(z, c) }",
    )
    found = opbridge.verify(path, model, (rows(3, 4),))
    assert found.runs[0].ok and not found.runs[1].ok and not found.ok
    assert found.outputs[0].wrong == ("fresh 1", "fresh 2")
    assert "fresh inputs (fresh 1)" in found.describe_mismatch()
    assert opbridge.verify(path, model, (rows(3, 4),), samples=0).ok


def test_a_wrong_file_is_a_mismatch_with_the_operator_and_raises_nothing(tmp_path: Path) -> None:
    model, example = Scaled(), (rows(2, 3),)
    path = saved(tmp_path, SCALED.format(2, 4), capture(model, example), SCALED_NODES)
    found = opbridge.verify(path, model, example)
    assert not found.ok and [report.ok for report in found.outputs] == [False, False]
    assert found.difference is not None and found.difference.operator == "aten::mul.Tensor"
    text = found.describe_mismatch()
    for part in (
        str(path),
        "'y'",
        "example inputs",
        "aten::mul.Tensor",
        "test_verification.py:",
        "opbridge.translation",
    ):
        assert part in text
    assert "\n" not in text and "'total'" in text
    assert str(VerificationError(found)) == text
    assert "differ" in found.summary() and "MISMATCH" in str(found)


def test_a_difference_further_down_is_found_from_the_file_alone(tmp_path: Path) -> None:
    model, example = Scaled(), (rows(2, 3),)
    graph = SCALED.format(2, 3).replace("ReduceSum", "ReduceMax")
    found = opbridge.verify(saved(tmp_path, graph, capture(model, example), SCALED_NODES), model, example)
    assert [report.ok for report in found.outputs] == [True, False]
    assert found.difference is not None and found.difference.operator == "aten::sum"


def test_a_file_without_metadata_is_compared_and_says_what_it_cannot(tmp_path: Path) -> None:
    found = opbridge.verify(saved(tmp_path, SCALED.format(2, 4)), Scaled(), (rows(2, 3),))
    assert not found.ok and found.difference is None
    assert "which of its values" in " ".join(found.notes) and "which of its values" in found.describe_mismatch()


def test_weights_that_are_not_the_model_s_are_told_and_no_operator_is_blamed(tmp_path: Path) -> None:
    model, example = Scaled(), (rows(2, 3),)
    graph = SCALED.format(2, 3).replace("[3] w =", "[3] weight =").replace("Mul(x, w)", "Mul(x, weight)")
    path = saved(tmp_path, graph, capture(model, example), SCALED_NODES)
    assert opbridge.verify(path, model, example).ok
    model.weight.data[1] = 2.5
    found = opbridge.verify(path, model, example)
    assert not found.ok and found.difference is None
    assert "weights of the file differ from those of the model: 'weight'" in found.describe_mismatch()


def test_given_tolerances_replace_the_usual_ones(tmp_path: Path) -> None:
    path = saved(tmp_path, SCALED.format(2, 3.01))
    assert not opbridge.verify(path, Scaled(), (rows(2, 3),)).ok
    found = opbridge.verify(path, Scaled(), (rows(2, 3),), rtol=0.01, atol=0.2)
    assert found.ok and "given" in found.outputs[0].worst.tolerance.origin


def test_dimensions_of_the_file_are_tried_at_other_sizes(tmp_path: Path) -> None:
    found = opbridge.verify(saved(tmp_path, SCALED.format("batch", 3)), Scaled(), (rows(4, 3),))
    assert found.ok and labels(found) == ["example", "fresh 1", "fresh 2", "batch=1", "batch=5"]
    assert [run.comparisons[0].shape for run in found.runs] == [(4, 3), (4, 3), (4, 3), (1, 3), (5, 3)]
    graph = """(float[batch, 3] x) => (float[batch, 3] y) <int64[2] s = {-1, 12}, int64[2] t = {-1, 3}>
        { f = Reshape(x, s) y = Reshape(f, t) }"""
    found = opbridge.verify(saved(tmp_path, graph), lambda x: x.clone(), (rows(4, 3),))
    assert [run.ok for run in found.runs] == [True, True, True, False, False]
    failure = found.runs[3].failure
    assert failure is not None and failure.onnx_node == "ONNX Reshape 'node_f'"


def test_tied_and_derived_dimensions_change_together(tmp_path: Path) -> None:
    seen: list[tuple[int, ...]] = []

    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        seen.append((*x.shape, *y.shape))
        return torch.cat([x, x]) * y

    graph = "(float[n, m] x, float[2*n, m] y) => (float[k, m] z) { c = Concat<axis = 0>(x, x) z = Mul(c, y) }"
    model_ = onnx_model(graph.replace("2*n", "two_n"))
    model_.graph.inputs[1].shape = ir.Shape(["2*n", "m"])
    ir.save(model_, tmp_path / "model.onnx")
    found = opbridge.verify(tmp_path / "model.onnx", model, (rows(3, 4), rows(6, 4)))
    assert found.ok and labels(found)[3:] == ["n=1, m=1", "n=4, m=6"]
    assert seen[3:] == [(1, 1, 2, 1), (4, 6, 8, 6)]


def test_ranges_of_a_capture_bound_the_sizes(tmp_path: Path) -> None:
    path = saved(tmp_path, SCALED.format("batch", 3))
    dim = torch.export.Dim("batch", min=3, max=4)
    found = opbridge.verify(path, Scaled(), (rows(4, 3),), dynamic_shapes={"x": {0: dim}})
    assert found.ok and labels(found)[3:] == ["batch=3"]


def test_sizes_that_the_model_refuses_are_left_out_and_others_tried(tmp_path: Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 2, 3).reshape(-1, 3)

    found = opbridge.verify(
        saved(tmp_path, "(float[n, 3] x) => (float[n, 3] y) { y = Identity(x) }"), model, (rows(4, 3),)
    )
    assert found.ok and labels(found)[3:] == ["n=1", "n=2", "n=5", "n=8"]
    assert [run.label for run in found.left_out] == ["n=1", "n=5"]
    assert "test_verification.py" in str(found.left_out[0].left_out) and "left out: n=1" in str(found)


NOISY = """(float[n] x) => (float[n] y)
    <int64 zero = {0}, int64 two = {2}, float noisy = {1.0001e9}, float plain = {{FACTOR}}> {
    shape = Shape(x) n = Gather(shape, zero) small = Less(n, two) factor = Where(small, noisy, plain)
    scaled = Mul(x, factor) y = Sin(scaled) }"""


@pytest.mark.slow
def test_sizes_for_which_pytorch_has_no_digits_are_left_out_and_others_tried(tmp_path: Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x * (1e9 if x.shape[0] < 2 else 3.0))

    right = saved(tmp_path, NOISY.replace("{FACTOR}", "3.0"))
    found = opbridge.verify(right, model, (rows(4),))
    assert found.ok and labels(found)[3:] == ["n=1", "n=2", "n=5"]
    assert [run.label for run in found.left_out] == ["n=1"] and "not accurate here" in str(found.left_out[0].left_out)
    assert not opbridge.verify(saved(tmp_path, NOISY.replace("{FACTOR}", "3.1")), model, (rows(4),)).ok
    assert not opbridge.verify(right, model, (rows(1),)).ok  # the example is asked for


@pytest.mark.slow
@pytest.mark.usefixtures("one_branch")
def test_conditions_of_the_capture_choose_the_sizes(tmp_path: Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] % 2 == 0 else x

    path = saved(tmp_path, "(float[n, 3] x) => (float[n, 3] y) <float one = {1}> { y = Add(x, one) }")
    found = opbridge.verify(path, model, (rows(4, 3),), dynamic_shapes={"x": {0: "n"}})
    assert found.ok and labels(found)[3:] == ["n=2", "n=6"] and not found.left_out


@pytest.mark.slow
def test_a_file_that_is_valid_for_sizes_of_one_branch_alone_is_wrong(tmp_path: Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] % 2 == 0 else x

    path = saved(tmp_path, "(float[n, 3] x) => (float[n, 3] y) <float one = {1}> { y = Add(x, one) }")
    found = opbridge.verify(path, model, (rows(4, 3),), dynamic_shapes={"x": {0: "n"}})
    wrong = [run.label for run in found.runs if not run.ok]
    assert not found.ok and {"n=1", "n=5"} <= {*wrong} and not {"example", "fresh 1", "fresh 2"} & {*wrong}


@pytest.mark.slow
@pytest.mark.usefixtures("one_branch")
def test_sizes_that_the_capture_excludes_are_left_out_unless_they_agree(tmp_path: Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] * x.shape[1] == 12 else x * one

    path = saved(tmp_path, "(float[n, m] x) => (float[n, m] y) <float one = {1}> { y = Add(x, one) }")
    shapes = {"x": {0: "n", 1: "m"}}
    one = 2
    found = opbridge.verify(path, model, (rows(4, 3),), dynamic_shapes=shapes)
    assert found.ok and found.difference is None
    assert labels(found)[3:] == ["n=1, m=1", "n=2, m=2", "n=1, m=3", "n=4, m=1", "n=8, m=6"]
    assert len(found.left_out) == 5
    assert all("the file is valid only for" in str(run.left_out) for run in found.left_out)
    assert ["here the two differ" in str(run.left_out) for run in found.left_out] == [True, False, True, True, False]

    def agreeing(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] * x.shape[1] == 12 else x + x.shape[0]

    found = opbridge.verify(path, agreeing, (rows(4, 3),), dynamic_shapes=shapes)
    assert found.ok and labels(found)[3:] == ["n=1, m=1", "n=8, m=6"]
    assert [run.label for run in found.left_out] == ["n=8, m=6"]


@pytest.mark.slow
def test_both_sides_of_a_question_about_sizes_are_covered_where_they_give_the_same(tmp_path: Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] * x.shape[1] == 12 else x.add(1)

    path = saved(tmp_path, "(float[n, m] x) => (float[n, m] y) <float one = {1}> { y = Add(x, one) }")
    found = opbridge.verify(path, model, (rows(4, 3),), dynamic_shapes={"x": {0: "n", 1: "m"}})
    assert found.ok and labels(found)[3:] == ["n=1, m=1", "n=5, m=5"] and not found.left_out


@pytest.mark.slow
@pytest.mark.usefixtures("one_branch")
def test_a_size_that_the_capture_excludes_does_not_hide_a_mismatch_at_another(tmp_path: Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x + x.shape[0] / 4 if x.shape[0] * x.shape[1] % 12 == 0 else x * 2

    shapes = {"x": {0: "n", 1: "m"}}
    taken = capture(model, (rows(4, 3),), dynamic_shapes=shapes)
    graph = "(float[n, m] x) => (float[n, m] y) <float one = {1}> { y = Add(x, one) }"
    path = saved(tmp_path, graph, taken, {"y": "add"})
    found = opbridge.verify(path, model, (rows(4, 3),), dynamic_shapes=shapes)
    assert labels(found)[-1] == "n=8, m=6" and [run.label for run in found.runs if not run.ok] == ["n=8, m=6"]
    assert "n=1, m=1" in [run.label for run in found.left_out]
    assert found.difference is not None and found.difference.operator == "aten::add.Tensor"


def test_fresh_inputs_that_the_model_refuses_are_left_out_but_the_example_is_not(tmp_path: Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        if x[0, 0] != 7.25:
            raise ValueError("not this one")
        return x

    path = saved(tmp_path, "(float[2, 2] x) => (float[2, 2] y) { y = Identity(x) }")
    example = torch.tensor([[7.25, 1.5], [2.5, 3.5]])
    found = opbridge.verify(path, model, (example,))
    assert found.ok and [run.label for run in found.left_out] == ["fresh 1", "fresh 2"]
    assert "ValueError" in str(found) and "not this one" in str(found)
    with pytest.raises(UsageError, match="itself fails on the example.*not this one"):
        opbridge.verify(path, model, (example + 1,))


@pytest.mark.slow
def test_random_outputs_are_compared_in_shape_and_dtype(tmp_path: Path) -> None:
    class Noisy(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.nn.functional.dropout(x, 0.5, self.training), x * 2

    graph = """(float[8, 8] x) => (float[8, 8] d, {1} y) <float half = {{0.5}}, bool on = {{1}}, float two = {{2}}>
        {{ d = Dropout(x, half, on) y = {0}(x, two) }}"""
    example = (rows(8, 8),)
    found = opbridge.verify(saved(tmp_path, graph.format("Mul", "float[8, 8]")), Noisy().train(), example)
    assert found.ok and found.random == ("d",) and "1 random in shape and dtype only" in found.summary()
    found = opbridge.verify(saved(tmp_path, graph.format("Add", "float[8, 8]")), Noisy().train(), example)
    assert [report.ok for report in found.outputs] == [True, False]
    # The same file for a model that draws nothing.
    found = opbridge.verify(saved(tmp_path, graph.format("Mul", "float[8, 8]")), Noisy().eval(), example)
    assert [report.ok for report in found.outputs] == [False, True] and found.random == ()
    wrong = graph.format("Mul", "float[8, 8]").replace(
        "d = Dropout(x, half, on)", "d0 = Dropout(x, half, on) d = Concat<axis=0>(d0, d0)"
    )
    wrong = wrong.replace("(float[8, 8] d,", "(float[16, 8] d,")
    assert not opbridge.verify(saved(tmp_path, wrong), Noisy().train(), example).ok


def test_a_random_output_that_two_seeds_may_give_alike(tmp_path: Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return (torch.rand_like(x) < 0.15).float()

    torch.manual_seed(0)
    first = model(torch.ones(2))
    torch.manual_seed(1)
    assert torch.equal(first, model(torch.ones(2)))
    path = saved(tmp_path, "(float[2] x) => (float[2] y) { y = Neg(x) }")
    found = opbridge.verify(path, model, (torch.ones(2),))
    assert found.ok and found.random == ("y",)


def test_what_is_drawn_may_be_certain_on_the_example_alone() -> None:
    weights = torch.tensor([[0.0, 10.0, 0.0, 0.0], [0.0, 0.0, 100.0, 0.0]])
    # So many that the file and PyTorch cannot draw the same by chance.
    found = opbridge.export(lambda w: torch.multinomial(w, 64, replacement=True), (weights,), verify=False)
    verification = opbridge.verification.verify_program(found)
    assert verification.ok
    assert [run.comparisons[0].random for run in verification.runs] == [False, True, True]


@pytest.mark.slow
def test_another_number_of_outputs_at_another_size() -> None:
    example = torch.randn(3, 6)
    program = opbridge.export(lambda x: x.chunk(3, 1), (example,), dynamic_shapes=({1: "width"},), verify=False)
    verification = opbridge.verification.verify_program(program)
    assert verification.ok  # the capture leaves out a width of 1, which gives one chunk
    (run,) = verification.left_out
    assert "width=1" in run.label and run.left_out is not None and "the two differ" in run.left_out
    traced = opbridge.export(
        lambda x: x.chunk(x.shape[0], 1), (example,), dynamic_shapes=({0: "rows"},), capture="trace", verify=False
    )
    verification = opbridge.verification.verify_program(traced)
    assert not verification.ok
    assert "PyTorch returns 1 output here, but the file has 3" in str(verification)


def test_the_second_eager_run_is_made_only_where_something_differs(tmp_path: Path) -> None:
    calls: list[int] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + 1

    path = saved(tmp_path, "(float[2] x) => (float[2] y) <float one = {1}> { y = Add(x, one) }")
    assert opbridge.verify(path, model, (rows(2),)).ok
    assert len(calls) == 3


def test_the_model_its_state_and_the_generator_are_as_before(tmp_path: Path) -> None:
    class Stateful(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(3)
            self.register_buffer("count", torch.zeros(1))
            self.last = torch.zeros(3)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            self.count += 1
            self.last = x[0]
            x.mul_(2)
            return self.norm(x), self.count

    model = Stateful().train()
    count, last = model.count, model.last
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x = rows(5, 3)
    given, state = x.clone(), torch.get_rng_state()
    graph = """(float[5, 3] x) => (float[5, 3] y, float[1] n)
        <float two = {2}, float[1] count = {1}, int64[1] rows = {0}> {
        d = Mul(x, two) m = ReduceMean(d, rows) c = Sub(d, m) s = Mul(c, c) v = ReduceMean(s, rows)
        e = Constant<value_float = 0.00001>() w = Add(v, e) q = Sqrt(w) y = Div(c, q) n = Identity(count) }"""
    found = opbridge.verify(saved(tmp_path, graph), model, (x,))
    assert found.ok, str(found)  # every run starts from the same count
    assert model.training and model.count is count and model.last is last
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(x, given) and torch.equal(torch.get_rng_state(), state)


def test_inputs_are_the_tensors_and_outputs_the_tensors_in_order(tmp_path: Path) -> None:
    @dataclasses.dataclass
    class Result:
        total: torch.Tensor
        parts: list[Any]
        nothing: None = None

    def model(batch: dict[str, Any], scale: float, *, mask: torch.Tensor) -> Result:
        x, y = batch["pair"]
        return Result((x + y) * scale, [x * mask, "text", 3], None)

    graph = """(float[3] x, float[3] y, float[3] mask) => (float[3] total, float[3] part) <float scale = {2.5}>
        { s = Add(x, y) total = Mul(s, scale) part = Mul(x, mask) }"""
    path = saved(tmp_path, graph)
    batch = {"pair": (rows(3), rows(3, seed=1)), "name": "text"}
    found = opbridge.verify(path, model, (batch, 2.5), {"mask": torch.ones(3)})
    assert found.ok, str(found)
    assert found.kept == ("mask",) and "same as in the example in all runs: mask" in str(found)


def test_numbers_are_inputs_and_outputs_where_the_capture_says_so(tmp_path: Path) -> None:
    def model(x: torch.Tensor, k: int) -> tuple[torch.Tensor, int, int]:
        return x * k, x.shape[0], x.shape[1]

    graph = """(float[n, 3] x, int64 k) => (float[n, 3] y, int64 size) <int64 zero = {0}>
        { f = Cast<to = 1>(k) y = Mul(x, f) s = Shape(x) size = Gather(s, zero) }"""
    shapes = {"x": {0: "n"}, "k": torch.export.Dim.DYNAMIC}
    found = opbridge.verify(saved(tmp_path, graph), model, (rows(4, 3), 5), dynamic_shapes=shapes)
    assert found.ok, str(found)
    assert [report.worst.dtype for report in found.outputs] == ["float32", "int64"]
    assert len([run for run in found.runs if run.kind == "sizes" and run.left_out is None]) == 2


def test_complex_inputs_and_outputs_are_pairs(tmp_path: Path) -> None:
    path = saved(tmp_path, "(float[n, 2] x) => (float[n, 2] y) <float two = {2}> { y = Mul(x, two) }")
    example = torch.complex(rows(4), rows(4, seed=1))
    found = opbridge.verify(path, lambda x: x * 2, (example,))
    assert found.ok and found.outputs[0].worst.dtype == "complex64"
    assert labels(found)[3:] == ["n=1", "n=5"]
    assert not opbridge.verify(path, lambda x: x.conj() * 2, (example,)).ok


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.uint8, torch.bool, torch.int32])
def test_every_dtype_goes_in_and_out(tmp_path: Path, dtype: torch.dtype) -> None:
    names = {torch.float64: "double", torch.int32: "int32", torch.uint8: "uint8", torch.bool: "bool"}
    name = names.get(dtype, str(dtype).removeprefix("torch."))
    path = saved(tmp_path, f"({name}[3, 5] x) => ({name}[3, 5] y) {{ y = Identity(x) }}")
    example = ((rows(3, 5) > 0).to(dtype),) if dtype == torch.bool else ((rows(3, 5) * 50 + 100).to(dtype),)
    found = opbridge.verify(path, lambda x: x.clone(), example)
    assert found.ok and found.outputs[0].worst.dtype == str(dtype).removeprefix("torch.")
    assert not opbridge.verify(path, lambda x: ~x if dtype == torch.bool else x + 10, example).ok


def test_what_passes_through_float16_is_judged_as_float16(tmp_path: Path) -> None:
    class Half(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float16))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x.half() * self.weight).float()

    # The file computes in float32: right, and further from float16 than float32's tolerance allows.
    path = saved(tmp_path, "(float[2, 3] x) => (float[2, 3] y) <float[3] w = {1, 2.0, 3.01}> { y = Mul(x, w) }")
    for shapes in (None, {}):
        found = opbridge.verify(path, Half(), (rows(2, 3),), dynamic_shapes=shapes)
        assert found.ok and "float16" in found.outputs[0].worst.tolerance.origin
    # float16 digits are not enough for a model that has float32 ones.
    single = saved(tmp_path, SCALED.format(2, 3.01))
    assert not opbridge.verify(single, Scaled(), (rows(2, 3),)).ok


def test_inputs_that_do_not_vary_are_said(tmp_path: Path) -> None:
    path = saved(tmp_path, "(float[2] x) => (float[2] y) { y = Identity(x) }")
    found = opbridge.verify(path, lambda x: x, (torch.ones(2),))
    assert labels(found) == ["example"] and found.kept == ("x",)
    assert "no random inputs" in str(found)


def test_an_output_that_never_varies_is_said(tmp_path: Path) -> None:
    graph = (
        "(float[2, 3] x) => (float[2, 3] y, float s) <float o = {0}> { y = Mul(x, o) s = ReduceSum<keepdims = 0>(x) }"
    )
    path = saved(tmp_path, graph)
    found = opbridge.verify(path, lambda x: (x * 0, x.sum()), (rows(2, 3).abs(),))
    assert found.ok and len(found.notes) == 1 and "output 'y' is 0 everywhere" in found.notes[0]
    assert opbridge.verify(path, lambda x: (x * 0, x.sum()), (rows(2, 3).abs(),), samples=0).notes == ()


def test_a_runtime_that_raises_is_a_mismatch_with_the_operator(tmp_path: Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x[torch.tensor([0, 2])]

    taken = capture(model, (rows(3, 2),))
    names = {node.name for node in taken.graph.graph.nodes if "index" in node.name}
    graph = "(float[3, 2] x) => (float[2, 2] y) <int64[2] i = {0, 5}> { n = Shape(x) y = Gather(x, i) }"
    path = saved(tmp_path, graph, taken, {"y": min(names)})
    found = opbridge.verify(path, model, taken.args)
    failure = found.runs[0].failure
    assert not found.ok and failure is not None
    assert failure.onnx_node == "ONNX Gather 'node_y'" and failure.source == "net.py:7"
    text = found.describe_mismatch()
    assert "fails in" in text and "net.py:7" in text and "out of" in text and "\n" not in text
    assert "fails to run it" in found.summary()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), ["1 input (x)", "0 tensors"]),
        ((torch.ones(2, 3), torch.ones(1)), ["1 input (x)", "2 tensors"]),
        ((torch.ones(2, 3, dtype=torch.float64),), ["'x' is float32 [n, 3]", "float64 [2, 3]"]),
        ((torch.ones(3),), ["'x' is float32 [n, 3]", "float32 [3]"]),
        ((torch.ones(2, 4),), ["'x' is float32 [n, 3]", "float32 [2, 4]"]),
        ((torch.ones(2, 3, dtype=torch.complex64),), ["complex64 [2, 3]", "float32 [2, 3, 2]"]),
    ],
)
def test_inputs_that_do_not_fit_the_file_are_a_usage_error(tmp_path: Path, args: Any, words: list[str]) -> None:
    path = saved(tmp_path, "(float[n, 3] x) => (float[n, 3] y) { y = Identity(x) }")
    with pytest.raises(UsageError) as error:
        opbridge.verify(path, lambda *given: given, args)
    assert str(path) in str(error.value) and "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_a_model_with_other_outputs_than_the_file_is_a_usage_error(tmp_path: Path) -> None:
    path = saved(tmp_path, "(float[2] x) => (float[2] y) { y = Identity(x) }")
    with pytest.raises(UsageError, match="1 output .y., but the model returns 2"):
        opbridge.verify(path, lambda x: (x, x + 1), (rows(2),))


def test_arguments_of_a_wrong_kind_are_usage_errors(tmp_path: Path) -> None:
    path = saved(tmp_path, "(float[2] x) => (float[2] y) { y = Identity(x) }")
    x = rows(2)
    for call in (
        lambda: opbridge.verify(42, torch.abs, (x,)),  # type: ignore[arg-type]
        lambda: opbridge.verify(path, None, (x,)),
        lambda: opbridge.verify(path, torch.abs, {"x": x}),
        lambda: opbridge.verify(path, torch.abs, (x,), [1]),  # type: ignore[arg-type]
        lambda: opbridge.verify(path, torch.abs, (x,), samples=-1),
        lambda: opbridge.verify(path, torch.abs, (x,), rtol=-1.0),
        lambda: opbridge.verify(path, torch.abs, (x,), atol=float("nan")),
    ):
        with pytest.raises(UsageError) as error:
            call()
        assert "\n" not in str(error.value)
    assert opbridge.verify(path, lambda x: x, x).ok  # one tensor


def test_a_missing_or_damaged_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError):
        opbridge.verify(tmp_path / "nothing.onnx", torch.abs, (rows(2),))
    (tmp_path / "bad.onnx").write_bytes(b"no protobuf at all")
    with pytest.raises(ModelFileError):
        opbridge.verify(tmp_path / "bad.onnx", torch.abs, (rows(2),))


def program_of(graph: str, model: Any, example: tuple[Any, ...], nodes: dict[str, str], **options: Any) -> Program:
    taken = capture(model, example, **options)
    return Program(onnx_model(graph, taken, nodes), Plan([], 20), taken)


@pytest.mark.slow
def test_a_program_knows_its_model_and_its_inputs(tmp_path: Path) -> None:
    graph = SCALED.format("batch", 3)
    program = program_of(graph, Scaled(), (rows(4, 3),), SCALED_NODES, dynamic_shapes={"x": {0: "batch"}})
    found = opbridge.verify(program)
    assert found.ok and labels(found) == ["example", "fresh 1", "fresh 2", "batch=1", "batch=5"]
    assert found.subject == "the exported model"
    program.save(tmp_path / "saved.onnx")
    assert opbridge.verify(program).subject.endswith("saved.onnx")
    # Another model's weights, and other inputs than the example.
    other = Scaled()
    other.weight.data += 1
    assert not opbridge.verify(program, other).ok
    assert opbridge.verify(program, args=(rows(7, 3),)).runs[0].comparisons[0].shape == (7, 3)
    with pytest.raises(UsageError):
        opbridge.verify(program, args=(rows(7, 3), rows(1)))


def test_keyword_inputs_go_by_the_order_of_the_capture() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x - y

    kwargs = {"x": rows(2), "y": rows(2, seed=1)}
    taken = capture(model, (), kwargs)
    program = Program(onnx_model("(float[2] x, float[2] y) => (float[2] z) { z = Sub(x, y) }"), Plan([], 20), taken)
    assert opbridge.verify(program, kwargs=dict(reversed(kwargs.items()))).ok


def test_a_program_that_differs_only_at_another_size_names_the_operator() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return (x + 1).sum(0) / x.shape[0]

    graph = """(float[n, 3] x) => (float[3] y) <float one = {1}, float four = {4}, int64[1] zero = {0}>
        { a = Add(x, one) s = ReduceSum<keepdims = 0>(a, zero) y = Div(s, four) }"""
    example = (rows(4, 3),)
    shapes = {"x": {0: "n"}}
    taken = capture(model, example, dynamic_shapes=shapes)
    divided = [node.name for node in taken.graph.graph.nodes if node.name.startswith(("div", "truediv"))]
    found = opbridge.verify(
        program_of(graph, model, example, {"a": "add", "s": "sum_1", "y": divided[0]}, dynamic_shapes=shapes)
    )
    assert [run.ok for run in found.runs] == [True, True, True, False, False]
    assert found.difference is not None and found.difference.operator == "aten::div.Tensor"
    assert "n=1" in found.describe_mismatch()


def test_a_program_that_does_not_load_is_a_mismatch() -> None:
    program = program_of(SCALED.format(2, 3), Scaled(), (rows(2, 3),), SCALED_NODES)
    program.model.graph[0].domain = "nobody"
    program.model.opset_imports["nobody"] = 1
    found = opbridge.verify(program)
    assert not found.ok and "nobody" in found.describe_mismatch() and found.runs[0].failure is not None


def test_an_exported_program_is_a_model_too(tmp_path: Path) -> None:
    exported = torch.export.export(Scaled(), (rows(2, 3),))
    path = saved(tmp_path, SCALED.format(2, 3))
    assert opbridge.verify(path, exported, (rows(2, 3),)).ok
    taken = capture(exported)
    assert taken.model is exported
    assert opbridge.verify(Program(onnx_model(SCALED.format(2, 3)), Plan([], 20), taken)).ok


def test_the_report_fits_a_screen(tmp_path: Path) -> None:
    names = [f"y{number}" for number in range(40)]
    outputs = ", ".join(f"float[2] {name}" for name in names)
    nodes = " ".join(f"{name} = {'Abs' if name == 'y37' else 'Identity'}(x)" for name in names)
    path = saved(tmp_path, f"(float[2] x) => ({outputs}) {{ {nodes} }}")
    found = opbridge.verify(path, lambda x: tuple(x * 1 for _ in names), (torch.tensor([-1.0, -2.0]),))
    lines = str(found).splitlines()
    assert len(lines) < 24 and lines[2].startswith("y37") and "and 28 outputs more" in lines
    assert len(found.summary()) < 400


def test_the_json_is_plain_and_complete(tmp_path: Path) -> None:
    model, example = Scaled(), (rows(2, 3),)
    path = saved(tmp_path, SCALED.format(2, "inf"), capture(model, example), SCALED_NODES)
    found = opbridge.verify(path, model, example)
    data = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert data["ok"] is False and data["first_difference"]["operator"] == "aten::mul.Tensor"
    assert data["outputs"][0]["absolute"] == "inf" and data["outputs"][0]["tolerance"]["origin"]
    assert [run["label"] for run in data["runs"]] == labels(found)
    assert data["first_difference"]["comparison"]["shape"] == [2, 3]
    right = opbridge.verify(saved(tmp_path, SCALED.format(2, 3)), model, example).to_json()
    assert right["ok"] is True and right["first_difference"] is None


def test_nothing_is_warned_about(tmp_path: Path) -> None:
    path = saved(tmp_path, SCALED.format(2, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert opbridge.verify(path, Scaled(), (rows(2, 3),)).ok


def test_the_report_can_be_read_without_torch() -> None:
    code = "import sys, opbridge.verification; sys.exit('torch' in sys.modules)"
    path = os.pathsep.join(sys.path)
    assert (
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, check=False).returncode
        == 0
    )
