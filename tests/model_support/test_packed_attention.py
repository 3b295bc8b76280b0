"""The attention of the parts of a sequence in one product, beside a loop over the parts."""

from __future__ import annotations

import types

import numpy as np
import pytest
import torch

import opbridge
from opbridge.model_support import applying
from opbridge.model_support.entries import CodeReplacement, ModelSupport
from opbridge.model_support.fingerprints import fingerprint
from opbridge.model_support.transformers import packed_attention
from opbridge.model_support.transformers.packed_attention import attention, attentions, in_one_product


def attending(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **settings):
    """As transformers has it: of [batch, heads, tokens, size] to [batch, tokens, heads, size], and no weights."""
    found = torch.nn.functional.scaled_dot_product_attention(query, key, value, attention_mask, dropout, scale=scaling)
    return found.transpose(1, 2), None


class Packed(torch.nn.Module):
    """Attends within each part, as encoders of transformers do."""

    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(8, 24)
        self.scaling, self.attention_dropout = 0.5, 0.0

    def forward(self, hidden_states, cu_seqlens, attention_interface=attending, **kwargs):
        states = self.qkv(hidden_states).reshape(hidden_states.shape[0], 3, 2, -1).permute(1, 2, 0, 3)
        query_states, key_states, value_states = (each.unsqueeze(0) for each in states.unbind(0))
        if attention_interface is None:
            attn_output = value_states
        else:
            lengths = cu_seqlens[1:] - cu_seqlens[:-1]
            splits = [
                torch.split(tensor, lengths.tolist(), dim=2) for tensor in (query_states, key_states, value_states)
            ]
            attn_outputs = [
                attention_interface(
                    self,
                    q,
                    k,
                    v,
                    attention_mask=None,
                    scaling=self.scaling,
                    dropout=0.0 if not self.training else self.attention_dropout,
                    is_causal=False,
                    **kwargs,
                )[0]
                for q, k, v in zip(*splits)  # noqa: B905 - as transformers has it
            ]
            attn_output = torch.cat(attn_outputs, dim=1)
        return attn_output.reshape(hidden_states.shape[0], -1)


def other(query_states, lengths, attn_outputs):
    if lengths is None:
        return None
    else:
        splits = [torch.split(tensor, lengths.tolist(), dim=2) for tensor in (query_states,)]
        return splits, torch.cat(attn_outputs, dim=1)


def part_by_part(bounds, *states):
    splits = [torch.split(each, (bounds[1:] - bounds[:-1]).tolist(), dim=2) for each in states]
    return torch.cat([attending(None, *each, attention_mask=None)[0] for each in zip(*splits, strict=True)], dim=1)


@pytest.fixture
def knowing_the_loop(monkeypatch):
    entry = CodeReplacement(
        targets=(f"{__name__}:Packed.forward",),
        sources=(fingerprint(Packed.forward),),
        replacement=in_one_product,
        variable="cu_seqlens",
    )
    monkeypatch.setattr(applying, "supports", lambda: (ModelSupport(package=__name__, entries=(entry,)),))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(
    "bounds",
    [
        [0, 5],
        [0, 1],
        [0, 1, 2],
        [0, 64, 128, 192],
        [0, 3, 3, 10],
        [0, 0],
        [0, 300, 310, 1000],
        [0, 600, *range(601, 640)],
        [0, 129, 130, 388],
    ],
    ids=["one", "one token", "tokens", "windows", "empty part", "nothing", "unlike", "one long", "beside chunks"],
)
def test_all_parts_at_once_are_the_parts_one_by_one(bounds, batch):
    torch.manual_seed(0)
    query, key, value = torch.randn(3, batch, 4, bounds[-1], 8, dtype=torch.float64).unbind(0)
    bounds = torch.tensor(bounds, dtype=torch.int32)
    found = attention(attending, bounds, None, query, key, value)
    torch.testing.assert_close(found, part_by_part(bounds, query, key, value))


def test_what_is_not_finite_stays_in_its_part():
    torch.manual_seed(0)
    states = torch.randn(3, 1, 2, 9, 4).unbind(0)
    states[1][0, 0, 4] = torch.nan
    states[2][0, 1, 3] = torch.inf
    bounds = torch.tensor([0, 3, 6, 7, 9])
    found = attention(attending, bounds, None, *states)
    torch.testing.assert_close(found, part_by_part(bounds, *states), equal_nan=True)
    assert found[:, :3].isfinite().all() and found[:, 6:].isfinite().all()


def test_another_form_of_the_attention_stays():
    assert in_one_product(other) is None


def test_the_lines_of_the_method_stay():
    code = in_one_product(Packed.forward)
    assert packed_attention.__name__ in code.co_consts
    assert code.co_firstlineno == Packed.forward.__code__.co_firstlineno
    lines = [line for _, _, line in Packed.forward.__code__.co_lines() if line]
    assert all(min(lines) <= line <= max(lines) for _, _, line in code.co_lines() if line)
    changed = types.FunctionType(code, Packed.forward.__globals__, "forward", Packed.forward.__defaults__)
    model, x, bounds = Packed(), torch.randn(7, 8), torch.tensor([0, 2, 7])
    torch.testing.assert_close(changed(model, x, bounds), model(x, bounds))


def test_the_file_has_no_loop(knowing_the_loop):
    """The code that is in the place of the method's is what the capture follows, with symbolic sizes too."""
    model = Packed().eval()
    inputs = (torch.randn(12, 8), torch.tensor([0, 5, 12]))
    program = opbridge.export(model, inputs, dynamic_shapes=({0: "tokens"}, {0: "bounds"}), verify=True)
    assert not {"Loop", "If"} & {each.op_type for each in program.model.graph.all_nodes()}
    session = program.session()
    for bounds in ([0, 300], [0, 1, 4], [0, 2, 2, 150, 151, 152, 400]):
        x, bounds = torch.randn(bounds[-1], 8), torch.tensor(bounds)
        (found,) = session.run(None, {"hidden_states": x.numpy(), "cu_seqlens": bounds.numpy()})
        np.testing.assert_allclose(found, model(x, bounds).detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bounds", [[0, 4], [0, 8], [0, 5, 3, 6]], ids=["too few", "too many", "back"])
def test_bounds_that_do_not_fit_are_an_error_as_they_are_in_a_loop(bounds):
    states = torch.randn(3, 1, 2, 6, 4).unbind(0)
    with pytest.raises(RuntimeError):
        part_by_part(torch.tensor(bounds), *states)
    with pytest.raises((IndexError, RuntimeError), match="out of range"):
        attention(attending, torch.tensor(bounds), None, *states)


def test_only_the_lengths_of_parts_matter():
    states, bounds = torch.randn(3, 1, 2, 6, 4).unbind(0), torch.tensor([3, 7, 9])
    found = attention(attending, bounds, None, *states)
    torch.testing.assert_close(found, part_by_part(bounds, *states))


def test_a_file_refuses_bounds_that_do_not_fit(knowing_the_loop):
    inputs = (torch.randn(12, 8), torch.tensor([0, 5, 12]))
    session = opbridge.export(Packed().eval(), inputs, dynamic_shapes=({0: "tokens"}, {0: "bounds"})).session()
    for bounds in ([0, 5, 11], [0, 13], [0, 9, 5, 12]):
        with pytest.raises(Exception, match="out of"):
            session.run(None, {"hidden_states": inputs[0].numpy(), "cu_seqlens": np.array(bounds)})


@pytest.mark.parametrize("settings", [{"is_causal": True}, {"is_causal": None}, {"attention_mask": torch.zeros(1)}])
def test_parts_are_attended_to_one_by_one_where_more_is_asked(settings):
    def noting(module, query, key, value, attention_mask, is_causal=None):
        counts.append(query.shape[2])
        return query.transpose(1, 2), None

    counts = []
    results, weights = attentions(
        noting, torch.tensor([0, 2, 6]), None, *torch.randn(3, 1, 2, 6, 4).unbind(0), **settings
    )
    assert counts == [2, 4] and len(results) == len(weights) == 2


def test_weights_are_those_of_the_parts():
    def weighing(module, query, key, value, attention_mask, is_causal):
        return query.transpose(1, 2), query @ key.transpose(-1, -2)

    states = torch.randn(3, 1, 2, 6, 4).unbind(0)
    _, weights = attentions(weighing, torch.tensor([0, 2, 6]), None, *states, attention_mask=None, is_causal=False)
    assert [each.shape[-1] for each in weights] == [2, 4]
