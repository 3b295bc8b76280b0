"""The request of a verification: what is wrong with the arguments is said there, before the file is read."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch

import opbridge
from opbridge.errors import UsageError
from opbridge.request import VerificationConfig
from opbridge.request.verification_request import verification_request


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"samples": -1}, "samples=-1"),
        ({"seed": 0.5}, "seed=0.5"),
        ({"rtol": float("nan")}, "rtol=nan"),
        ({"isolated": "yes"}, "isolated='yes'"),
        ({"runtime": []}, "contains no runtime"),
        ({"runtime": [3]}, "contains no runtime"),
        ({"profile": {"batch": 3}}, "profile= .* is valid only for"),
        ({"runtime": "reference", "aten": "aten::topk"}, "aten= is valid only for ONNX Runtime"),
        ({"task": "translation"}, "Unknown task 'translation'"),
    ],
)
def test_a_wrong_argument_is_refused_before_the_file_is_read(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        verification_request("missing.onnx", torch.nn.ReLU(), torch.ones(2), **wrong)


def test_a_task_is_not_for_a_program():
    with pytest.raises(UsageError, match="task= is not supported for a Program"):
        verification_request(object(), task="text-generation")


def test_one_runtime_and_several():
    alone = verification_request("model.onnx", torch.nn.ReLU(), torch.ones(2), aten="aten::topk")
    assert alone.configs == (VerificationConfig(aten=("aten::topk",)),) and not alone.is_in_several
    several = verification_request(
        "model.onnx", torch.nn.ReLU(), runtime=["onnxruntime", "reference", "onnxruntime"], aten=["aten::topk"]
    )
    assert [(each.runtime, each.aten) for each in several.configs] == [
        ("onnxruntime", ("aten::topk",)),
        ("reference", ()),
    ]
    assert several.is_in_several and several.is_file and several.label == "model.onnx"


def test_the_arguments_of_verify_are_those_of_the_request():
    known = inspect.signature(verification_request).parameters
    asked = inspect.signature(opbridge.verify).parameters
    assert {name: each.default for name, each in asked.items()} == {name: each.default for name, each in known.items()}
