"""`--dynamic`: the dimensions that are to be dynamic, on the command line."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from opbridge.cli import main

FACTORY = """
import torch

class Product(torch.nn.Module):
    def forward(self, x, y):
        return x @ y.transpose(1, 2)

def build():
    return Product(), (torch.randn(2, 3, 4), torch.randn(2, 5, 4))

def named():
    return Product(), (torch.randn(2, 3, 4), torch.randn(2, 5, 4)), {"dynamic_axes": {"x": {1: "a"}}}

class Sum(torch.nn.Module):
    def forward(self, *inputs, scale):
        return sum(inputs) * scale

def gathered():
    return Sum(), (torch.randn(2, 4), torch.randn(2, 4)), {"kwargs": {"scale": torch.tensor(2.0)}}
"""


@pytest.fixture
def factory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(FACTORY)


def _exported(*options):
    assert main(["export", *options, "-o", "net.onnx"]) == 0
    shapes = (value.type.tensor_type.shape.dim for value in onnx.load("net.onnx").graph.input)
    return [[dim.dim_param or dim.dim_value for dim in shape] for shape in shapes]


@pytest.mark.parametrize(
    ("options", "shapes"),
    [
        (["batch"], [["batch", 3, 4], ["batch", 5, 4]]),
        (["0=rows"], [["rows", 3, 4], ["rows", 5, 4]]),
        (["0,1"], [["x_dim_0", "x_dim_1", 4], ["x_dim_0", "y_dim_1", 4]]),
        (["batch,x:1=left", "y:-2=right"], [["batch", "left", 4], ["batch", "right", 4]]),
        (["auto"], [["x_dim_0", "x_dim_1", "x_dim_2"], ["x_dim_0", "y_dim_1", "x_dim_2"]]),
    ],
    ids=str,
)
def test_forms(factory, options, shapes):
    assert _exported("net.py:build", *(part for each in options for part in ("--dynamic", each))) == shapes


@pytest.mark.slow
def test_it_takes_the_place_of_the_factorys(factory):
    assert _exported("net.py:named") == [[2, "a", 4], [2, 5, 4]]
    assert _exported("net.py:named", "--dynamic", "batch") == [["batch", 3, 4], ["batch", 5, 4]]


def test_inputs_that_are_gathered_and_one_without_dimensions(factory):
    assert _exported("net.py:gathered", "--dynamic", "batch") == [["batch", 4], ["batch", 4], []]


@pytest.mark.slow
def test_a_file_is_verified_at_these_sizes(factory, capsys):
    _exported("net.py:build", "--dynamic", "batch")
    assert main(["check", "net.py:build", "--dynamic", "batch"]) == 0
    capsys.readouterr()
    assert main(["verify", "net.onnx", "net.py:build", "--dynamic", "batch"]) == 0
    assert "batch=" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("rows", "Invalid value for --dynamic: 'rows'. Expected auto; batch"),
        ("x:0=1", "Invalid value for --dynamic: 'x:0=1'. Expected"),
        ("z:0", "Invalid value for --dynamic: 'z:0'. The model has no input 'z'; its inputs are x, y."),
        ("7", "Invalid value for --dynamic: '7'. No input has this dimension."),
        ("auto,batch", "Invalid value for --dynamic: 'auto'. Expected"),
    ],
)
def test_other_forms(factory, capsys, option, said):
    assert main(["export", "net.py:build", "-o", "net.onnx", "--dynamic", option]) == 2
    assert said in capsys.readouterr().err
    assert not Path("net.onnx").exists()


def test_the_built_in_kernels_are_listed(capsys):
    for pattern in ("opbridge_ops*", "opbridge_ops::*"):
        assert main(["ops", pattern]) == 0
        assert "opbridge_ops::dynamic_conv " in capsys.readouterr().out
