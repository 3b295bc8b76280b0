"""Parts of tensors between the same numbers from data have the same length."""

from __future__ import annotations

import torch
from helpers.matching import assert_matches
from torch.nn.functional import scaled_dot_product_attention


def test_attention_over_a_part_of_the_tokens():
    """Its mask is seen to be one for this part."""

    def attended(q, k, mask, limits):
        start, stop = limits[0].item(), limits[1].item()
        q, k = q[:, :, start:stop], k[:, :, start:stop]
        return scaled_dot_product_attention(q, k, k, attn_mask=mask[None, None, start:stop, start:stop])

    def inputs(batch, length, *limits):
        tokens = torch.randn(2, batch, 3, length, 4)
        return *tokens, torch.randn(length, length), torch.tensor(limits)

    others = [inputs(1, 5, 1, 2), inputs(3, 7, 0, 7), inputs(2, 6, -3, 20)]
    tokens = {0: "batch", 2: "length"}
    shapes = (tokens, tokens, {0: "length", 1: "length"}, None)
    assert_matches(attended, *inputs(2, 12, 2, 9), others=others, dynamic_shapes=shapes)


def test_a_loop_over_parts():
    """Each iteration has parts of its own lengths."""

    def softened(x, mask, starts):
        found = []
        for start, stop in zip(starts.tolist(), (starts + 3).tolist(), strict=True):
            scores = x[start:stop].masked_fill(~mask[start:stop, None], -9.0)
            found.append((scores.softmax(0) * x[start:stop]).sum(0))
        return torch.stack(found)

    def inputs(length, *starts):
        return torch.randn(length, 2), torch.rand(length) > 0.5, torch.tensor(starts)

    others = [inputs(5, 1), inputs(12, 0, 3, 11), inputs(4, 3, 3)]
    shapes = ({0: "length"}, {0: "length"}, {0: "count"})
    assert_matches(softened, *inputs(9, 1, 4), others=others, dynamic_shapes=shapes)


def test_parts_that_differ_in_one_limit_have_lengths_of_their_own():
    def parts(x, limits):
        start, stop = limits[0].item(), limits[1].item()
        return x[start:stop], x[start : stop + 1], x[: stop - start], x[start:stop:2]

    others = [(torch.randn(5), torch.tensor([4, 5])), (torch.randn(7), torch.tensor([5, 2]))]
    assert_matches(parts, torch.randn(9), torch.tensor([2, 6]), others=others, dynamic_shapes=({0: "n"}, None))
