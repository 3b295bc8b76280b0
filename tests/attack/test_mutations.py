"""The damage that the campaign does to files."""

from __future__ import annotations

import random

import onnx
import pytest

from attack.mutations import mutated

MODEL = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["" : 20]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
).SerializeToString()


@pytest.mark.parametrize("is_model", [True, False])
def test_the_same_seed_gives_the_same_damage_and_another_one_another(is_model):
    made = [mutated(MODEL, random.Random(seed), is_model=is_model) for seed in range(200)]
    assert made == [mutated(MODEL, random.Random(seed), is_model=is_model) for seed in range(200)]
    assert len(set(made)) > 150


def test_some_models_are_still_messages_and_some_are_not():
    readable = 0
    for seed in range(200):
        try:
            onnx.ModelProto.FromString(mutated(MODEL, random.Random(seed), is_model=True))
            readable += 1
        except Exception:  # protobuf's own error
            continue
    assert 100 < readable < 200


@pytest.mark.parametrize("content", [b"", b"x"])
def test_files_with_nothing_in_them(content):
    for seed in range(100):
        mutated(content, random.Random(seed), is_model=True)
