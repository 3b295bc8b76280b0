"""Inputs that the user gives for a verification."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import opbridge
from opbridge.cli.running import main
from opbridge.errors import UsageError
from opbridge.program import Program


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def model(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return x.log() * k


X, K = normal(4, 3).abs(), torch.tensor([1, 2, 3])


@pytest.fixture(scope="module")
def program() -> Program:
    return opbridge.export(model, (X, K), dynamic_shapes={"x": {0: "n"}, "k": None}, verify=False)


def labels(found: opbridge.Verification) -> list[str]:
    return [run.label for run in found.runs]


def test_lists_and_functions_take_the_place_of_fresh_values_and_sizes(program: Program) -> None:
    given = [(X + 1, K), {"k": K, "x": X[:2]}, (X.numpy(), K.numpy())]
    found = opbridge.verify(program, inputs=given)
    assert found.ok and labels(found) == ["example", "inputs 1", "inputs 2", "inputs 3"]
    assert [run.comparisons[0].shape for run in found.runs] == [(4, 3), (4, 3), (2, 3), (4, 3)]
    assert found.runs[1].kind == "given" and not found.notes
    asked: list[int] = []

    def draw(number: int) -> Any:
        asked.append(number)
        return X * number, K

    found = opbridge.verify(program, inputs=draw, samples=3)
    assert found.ok and asked == [1, 2, 3] and "no other sizes" in found.notes[0]


@pytest.mark.slow
def test_positional_and_keyword_inputs_together() -> None:
    program = opbridge.export(model, (X,), kwargs={"k": K}, dynamic_shapes={"x": {0: "n"}, "k": None}, verify=False)
    found = opbridge.verify(program, inputs=[((X[:2],), {"k": K + 1}), (X + 1, K)])
    assert found.ok and [run.comparisons[0].shape for run in found.runs] == [(4, 3), (2, 3), (4, 3)]
    with pytest.raises(UsageError, match="inputs 1: input 'x' is a str"):
        opbridge.verify(program, inputs=[(("text",), {"k": K})])


def test_files(program: Program, tmp_path: Path) -> None:
    np.savez(tmp_path / "named.npz", x=X.numpy() + 1, k=K.numpy())
    np.savez(tmp_path / "in_order.npz", X.numpy()[:1], K.numpy())
    found = opbridge.verify(program, inputs=[tmp_path / "named.npz", str(tmp_path / "in_order.npz")])
    assert found.ok and labels(found) == ["example", "named.npz", "in_order.npz"]
    single = opbridge.export(torch.abs, (X,), verify=False)
    np.save(tmp_path / "one.npy", X.numpy())
    assert labels(opbridge.verify(single, inputs=tmp_path / "one.npy")) == ["example", "one.npy"]


def test_a_mismatch_names_the_inputs(program: Program) -> None:
    with pytest.raises(UsageError, match="The model itself fails on inputs 1: "):
        opbridge.verify(program, lambda x, k: model(x, k) if x.min() > 0 else 1 / 0, (X, K), inputs=[(-X, K)])
    found = opbridge.verify(program, lambda x, k: model(x, k) + (x > 9), (X, K), inputs=[(X + 9, K)])
    assert not found.ok and "on the inputs given (inputs 1)" in found.describe_mismatch()


FILE_HAS = "The file has 2 inputs: x (float32 [n, 3]), k (int64 [3])."


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ([(X,)], ["inputs 1 has 1 input.", FILE_HAS]),
        ([{"x": X}], ["inputs 1 lacks k.", FILE_HAS]),
        ([{"x": X, "k": K, "y": K}], ["inputs 1 has the unknown inputs 'y'.", FILE_HAS]),
        ([(X.double(), K)], ["inputs 1 does not match", "'x' is float32 [n, 3]", "float64 [4, 3]"]),
        ([(X[:, :2], K)], ["inputs 1 does not match", "float32 [4, 2]"]),
        ([("text", K)], [FILE_HAS]),
        ([], ["inputs= is empty"]),
        (X, ["inputs= is a Tensor", "Expected a list"]),
        (42, ["inputs= is a int", "Expected a list"]),
        (lambda number: 1 / 0, ["failed for run 1", "ZeroDivisionError"]),
        ("nothing.npz", ["nothing.npz cannot be read: it does not exist"]),
        ("inputs.txt", ["inputs.txt is not a file of inputs", ".npz"]),
    ],
)
def test_inputs_that_do_not_fit_are_usage_errors(program: Program, inputs: Any, words: list[str]) -> None:
    with pytest.raises(UsageError) as error:
        opbridge.verify(program, inputs=inputs)
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_a_pickle_is_not_loaded(program: Program, tmp_path: Path) -> None:
    np.save(tmp_path / "pickled.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(UsageError, match="cannot be read"):
        opbridge.verify(program, inputs=tmp_path / "pickled.npy")


def test_keyword_and_nested_inputs() -> None:
    def nested(pair: tuple[torch.Tensor, torch.Tensor], *, scale: torch.Tensor) -> torch.Tensor:
        return pair[0] * scale + pair[1]

    args, kwargs = ((X, X + 1),), {"scale": X[:1]}
    program = opbridge.export(nested, args, kwargs=kwargs, verify=False)
    names = [value.name for value in program.model.graph.inputs]
    by_name = dict(zip(names, (X + 2, X, X[1:2]), strict=True))
    found = opbridge.verify(program, inputs=[(X, X, X[1:2]), ((X, X), X[1:2]), by_name])
    assert found.ok and len(found.runs) == 4

    def only_named(*, x: torch.Tensor, flag: bool) -> torch.Tensor:
        return x * 2 if flag else x

    program = opbridge.export(only_named, kwargs={"x": X, "flag": True}, verify=False)
    assert opbridge.verify(program, inputs=[{"x": X + 1, "flag": True}, {"x": X + 1}, X]).ok


@pytest.mark.slow
def test_bfloat16_comes_as_float32() -> None:
    program = opbridge.export(lambda x: x + 1, (X.bfloat16(),), verify=False)
    assert opbridge.verify(program, inputs=[X.numpy()]).ok


@pytest.mark.slow
def test_the_command_line_takes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "given_net.py"
    spec.write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n    def forward(self, x): return x.log()\n"
        "def build(): return Net(), (torch.rand(2, 3) + 1,)\n"
        "def without_example(): return Net(), ()\n"
    )
    np.savez(tmp_path / "a.npz", x=X.numpy())
    np.savez(tmp_path / "b.npz", x=X.numpy()[:, :2])
    file = tmp_path / "net.onnx"
    assert main(["export", f"{spec}:without_example", "-o", str(file), "--inputs", str(tmp_path / "a.npz")]) == 0
    assert "(example, fresh 1, fresh 2)" in capsys.readouterr().out
    common = ["verify", str(file), f"{spec}:without_example", "--rtol", "1e-3"]
    files = ["--inputs", str(tmp_path / "a.npz"), "--inputs", str(tmp_path / "a.npz")]
    assert main([*common, *files]) == 0
    assert "(example, a.npz)" in capsys.readouterr().out
    assert main([*common, *files, "--inputs", str(tmp_path / "b.npz")]) == 2
    assert "b.npz does not match" in capsys.readouterr().err
    assert main(["export", f"{spec}:build", "-o", str(file), "--inputs", str(tmp_path / "a.npz")]) == 2
    assert "its input 'x' is float32 [2, 3]" in capsys.readouterr().err
