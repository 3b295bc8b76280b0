"""Attention of decoders, whose files are run fused and as they were."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir
import pytest
import torch
import transformers

import opbridge
from opbridge.errors import UsageError
from opbridge.fit.fused.cached_attention import Contiguous, fuse_attention
from opbridge.fit.fused.fusing import Fusing, find_fusing, fuse, is_contiguous
from opbridge.onnx import serialize
from opbridge.runtimes.onnxruntime import open_session

_TYPES = (ir.DataType.FLOAT,)
_CONTIGUOUS = Contiguous(64)
_SIZES = ((1, 1, 0), (2, 5, 0), (1, 1, 7), (1, 3, 9), (2, 1, 9), (1, 12, 20))


def _program(kind="Llama", **settings):
    torch.manual_seed(0)
    given = {
        "vocab_size": 99,
        "hidden_size": 64,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "initializer_range": 0.3,
        "head_dim": 16,
        **settings,
    }
    config = getattr(transformers, f"{kind}Config")(**given)
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    return opbridge.export(model, task="text-generation", verify=False)


def _check(program, counts, **options):
    """Fuses the attention, and compares the results at several sizes."""
    plain = open_session(program.to_bytes(), False)
    made = fuse_attention(program.model, 21, options.get("contiguous", _CONTIGUOUS), _TYPES)
    assert made == Counter(counts)
    fuse(program.model, Fusing(), 21)
    packed = [node.inputs[1] is None for node in program.model.graph if node.op_type == "GroupQueryAttention"]
    assert all(packed) == options.get("packed", True)
    fused = open_session(serialize.to_bytes(program.model), False)
    draw = np.random.default_rng(0)
    for batch, new, past in _SIZES:
        given = {}
        for each in plain.get_inputs():
            if each.name == "input_ids":
                given[each.name] = draw.integers(0, 99, (batch, new))
            elif each.name == "attention_mask":
                given[each.name] = np.ones((batch, past + new), np.int64)
            elif each.name == "position_ids":
                given[each.name] = np.tile(np.arange(past, past + new), (batch, 1))
            else:
                given[each.name] = draw.standard_normal((batch, each.shape[1], past, each.shape[3]), np.float32)
        for one, other in zip(plain.run(None, given), fused.run(None, given), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-4 * max(1, float(np.abs(one).max())))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "settings", "counts"),
    [
        ("Llama", {}, {"GroupQueryAttention with rotation": 2}),
        ("Llama", {"attn_implementation": "eager"}, {"GroupQueryAttention with rotation": 2}),
        ("Llama", {"head_dim": 8}, {"GroupQueryAttention": 2}),
        ("Llama", {"num_key_value_heads": 4}, {"GroupQueryAttention with rotation": 2}),
        ("Mistral", {"sliding_window": 5}, {"GroupQueryAttention with rotation": 2}),
        ("Gemma2", {"sliding_window": 5, "attn_logit_softcapping": 2.0}, {"GroupQueryAttention with rotation": 2}),
        ("Phi3", {}, {"GroupQueryAttention with rotation": 2}),
        (
            "Phi3",
            {"head_dim": 32, "partial_rotary_factor": 0.5},
            {"GroupQueryAttention with rotation": 2},
        ),
        ("Qwen2", {}, {"GroupQueryAttention with rotation": 2}),
        ("Qwen3", {}, {"GroupQueryAttention with rotation": 2}),
    ],
)
def test_decoders(kind, settings, counts):
    packed = kind != "Qwen3" and settings.get("head_dim") != 8  # whose queries are computed between the two
    _check(_program(kind, **settings), counts, packed=packed)


@pytest.mark.slow
def test_a_mask_of_padding_asks_for_contiguous_texts():
    program = _program(num_hidden_layers=1)
    before = [node.op_type for node in program.model.graph]
    assert not fuse_attention(program.model, 21, None, _TYPES)
    assert not fuse_attention(program.model, 21, _CONTIGUOUS, (ir.DataType.FLOAT16,))
    assert [node.op_type for node in program.model.graph] == before


class _Decoder(torch.nn.Module):
    """One attention, whose mask depends on sizes alone."""

    def __init__(self, window=None, by_length=False):
        super().__init__()
        torch.manual_seed(0)
        self.query, self.key, self.value = (torch.nn.Linear(64, size) for size in (64, 32, 32))
        self.window, self.by_length = window, by_length

    def forward(self, x, past_key, past_value):
        batch, new, past = *x.shape[:2], past_key.shape[2]
        query, key, value = (
            layer(x).view(batch, new, -1, 16).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        key, value = torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)
        if self.by_length:
            query = query / key.shape[2]
        keys, queries = torch.arange(past + new)[None], torch.arange(past, past + new)[:, None]
        mask = keys <= queries
        if self.window is not None:
            mask = mask & (keys > queries - self.window)
        sizes = (batch, 2, 2, past + new, 16)
        repeated = [each[:, :, None].expand(sizes).reshape(batch, 4, past + new, 16) for each in (key, value)]
        found = torch.nn.functional.scaled_dot_product_attention(query, *repeated, attn_mask=mask)
        return found.transpose(1, 2).reshape(batch, new, 64), key, value


@pytest.mark.slow
@pytest.mark.parametrize("window", [None, 3])
def test_a_mask_of_sizes_alone(window):
    args = torch.randn(1, 3, 64), torch.randn(1, 2, 5, 16), torch.randn(1, 2, 5, 16)
    shapes = ({1: "new"}, {2: "past"}, {2: "past"})
    program = opbridge.export(_Decoder(window), args, dynamic_shapes=shapes, target="onnxruntime")
    assert program.verification.ok and any("1 GroupQueryAttention;" in note for note in program.plan.notes)
    shapes = tuple({0: "batch", **each} for each in shapes)
    several = opbridge.export(_Decoder(window), args, dynamic_shapes=shapes, target="onnxruntime", verify=False)
    assert "GroupQueryAttention" not in {node.op_type for node in several.model.graph}


@pytest.mark.slow
def test_queries_that_depend_on_the_number_of_all_keys_stay():
    args = torch.randn(1, 3, 64), torch.randn(1, 2, 5, 16), torch.randn(1, 2, 5, 16)
    shapes = ({1: "new"}, {2: "past"}, {2: "past"})
    program = opbridge.export(_Decoder(by_length=True), args, dynamic_shapes=shapes, target="onnxruntime")
    assert program.verification.ok
    assert "GroupQueryAttention" not in {node.op_type for node in program.model.graph}


@pytest.mark.slow
def test_a_mask_that_hides_other_keys_stays():
    program = _program(num_hidden_layers=1)
    compared = next(node for node in program.model.graph if node.op_type == "LessOrEqual")
    compared.op_type = "Less"  # a query does not see itself
    assert not fuse_attention(program.model, 21, _CONTIGUOUS, _TYPES)


@pytest.mark.slow
def test_keys_that_others_read_stay():
    program = _program(num_hidden_layers=1)
    graph = program.model.graph
    keys = next(each for each in graph.outputs if each.name == "present.0.key")
    again = ir.node("Neg", [keys])
    again.outputs[0].name, again.outputs[0].type, again.outputs[0].shape = "again", keys.type, keys.shape
    graph.append(again)
    graph.outputs.append(again.outputs[0])
    assert not fuse_attention(program.model, 21, _CONTIGUOUS, _TYPES)


@pytest.mark.slow
def test_angles_that_depend_on_more_than_a_position_stay_outside():
    program = _program(
        rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}, max_position_embeddings=16
    )
    made = fuse_attention(program.model, 21, _CONTIGUOUS, _TYPES)
    assert made == Counter({"GroupQueryAttention": 2})


@pytest.mark.slow
def test_a_file_says_that_it_takes_contiguous_texts(tmp_path):
    program = _program(num_hidden_layers=1)
    program.save(tmp_path / "plain.onnx")
    assert not is_contiguous(tmp_path / "plain.onnx") and not is_contiguous(tmp_path / "none.onnx")
    assert "1 GroupQueryAttention with rotation" in fuse(program.model, Fusing(_CONTIGUOUS), 21)
    program.save(tmp_path / "fused.onnx")
    assert is_contiguous(tmp_path / "fused.onnx")


def test_where_forms_are_asked_for():
    assert find_fusing(None, None, None, None) is None
    assert find_fusing(False, "onnxruntime", None, 64) is None
    assert find_fusing(None, None, None, 64) == Fusing(Contiguous(64))
    assert find_fusing(None, "onnxruntime:1.31", None, None) == find_fusing(True, None, None, None) == Fusing()
    assert find_fusing(None, "tensorrt", None, None) is None
    on_cuda = find_fusing(None, "cuda", None, None)
    assert on_cuda is not None and ir.DataType.FLOAT not in on_cuda.attention
    assert find_fusing(None, "cuda", "float16", None) == Fusing(whole=False)
    assert find_fusing(None, "onnxruntime", "float16", None) == Fusing(whole=False)
    with pytest.raises(UsageError, match="supports the targets onnxruntime and cuda"):
        find_fusing(True, "tensorrt:10.15", None, None)
