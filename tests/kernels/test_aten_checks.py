"""What a node's arguments have to keep to, for operators of PyTorch's that trust them."""

from __future__ import annotations

import pytest
import torch
from aten_calls import call, node_model, run, session_of
from attack import handmade, overloads

A = torch.ops.aten
r, z = torch.randn, torch.zeros


def layer(*weights, batch=2, hidden=4):
    return [r(5, 2, 3), [z(1, batch, hidden)] * 2, list(weights), True, 1, 0.0, False, False, False]


LSTM = (r(16, 3), r(16, 4), r(16), r(16))
SCORES = r(6, 2, 2).log_softmax(-1)
X = r(3, 4)

REFUSED = {
    "a state of another batch": (A.lstm.input, layer(*LSTM, batch=1), "'hx\\[0\\]' has the shape"),
    "too few weights": (A.lstm.input, layer(*LSTM[:3]), "3 weights"),
    "a weight of another size": (A.lstm.input, layer(r(15, 3), *LSTM[1:]), "'params\\[0\\]' has the shape"),
    "many layers": (A.lstm.input, [*layer(*LSTM)[:4], 2**62, *layer(*LSTM)[5:]], "'num_layers'"),
    "an unknown mode of sampling": (
        *(A.grid_sampler_2d.default, [z(1, 1, 2, 2), z(1, 4, 4, 2), -1, 0, True]),
        "'interpolation_mode' is -1",
    ),
    "an unknown mode of padding": (
        *(A.grid_sampler.default, [z(1, 1, 2, 2), z(1, 4, 4, 2), 0, 3, True]),
        "'padding_mode' is 3",
    ),
    "labels out of range": (
        *(A.ctc_loss.IntList, [SCORES, torch.tensor([1, 2**28, 1, 1, 1]), [6, 6], [3, 2], 0, 1, True]),
        "'targets' contains 268435456",
    ),
    "more labels than there are": (A.ctc_loss.IntList, [SCORES, torch.ones(5).long(), [6, 6], [3, 3]], "the sum of"),
    "an offset out of range": (
        *(A.embedding_bag.default, [r(10, 4), torch.tensor([1, 2, 3, 4, 5, 0]), torch.tensor([0, 2, -(2**40), 6])]),
        "'offsets' must be non-decreasing",
    ),
    "an index out of range": (
        *(A.embedding_bag.default, [r(3, 4), torch.tensor([3]), torch.tensor([0])]),
        "contains 3",
    ),
    "a weight of another shape": (A._weight_norm.default, [r(3, 40), z(1, 3), 1], "'g' has the shape"),
    "no tensors": (A._stack.default, [[], -2], "'tensors' is empty"),
    "statistics of no channels": (
        *(A.batch_norm_update_stats.default, [r(2, 3, 1), z(0), z(0), 0.1]),
        "'running_mean' has the shape",
    ),
    "a scale of another size": (A._upsample_nearest_exact1d.default, [z(1, 2, 5), [7], 1e-300], "does not match"),
    "an empty query": (
        *(A._scaled_dot_product_flash_attention_for_cpu.default, [z(1, 4, 0, 8), r(1, 4, 6, 8), r(1, 4, 6, 8)]),
        "'query' is empty",
    ),
    "values of another length": (
        *(A.scaled_dot_product_attention.default, [r(1, 2, 8, 16), r(1, 2, 80, 16), r(1, 2, 15, 16)]),
        "have different lengths",
    ),
    "another kernel size": (
        *(A.slow_conv3d_forward.default, [r(1, 2, 5, 5, 5), r(3, 2, 2, 2, 2), [3, 2, 2], None, [1, 1, 1], [0, 0, 0]]),
        "'kernel_size' does not match 'weight'",
    ),
    "a pivot out of range": (A.lu_unpack.default, [r(2, 2), torch.tensor([1, 9], dtype=torch.int32)], "contains 9"),
    "half a block": (
        *(A.linalg_ldl_solve.default, [r(3, 3), torch.tensor([1, 2, -3], dtype=torch.int32), r(3, 1)]),
        "a negative pivot without a matching neighbor",
    ),
    "a block over two matrices": (
        *(A.linalg_ldl_solve.default, [r(2, 2, 2), torch.tensor([[1, -2], [-2, 2]], dtype=torch.int32), r(2, 2, 1)]),
        "a negative pivot without a matching neighbor",
    ),
    "factors of another batch": (
        *(A.linalg_ldl_solve.default, [r(2, 3, 3), torch.tensor([[1, 2, 3]] * 2, dtype=torch.int32), r(4, 1, 3, 1)]),
        "'LD' and 'B' have different batch dimensions",
    ),
    "numbers that are not finite": (A.linalg_eigvals.default, [torch.full((2, 2), torch.inf)], "non-finite"),
    "the least integer": (A.div.Tensor_mode, [torch.tensor([-(2**63)]), torch.tensor([-1])], "divided by -1"),
    "a degree without an end": (
        *(A.special_legendre_polynomial_p.default, [X, torch.full((3, 4), 1e18)]),
        "'n' must not contain values above 10000",
    ),
    "a degree that is no number": (A.special_laguerre_polynomial_l.default, [X, torch.full((3, 4), torch.nan)], "'n'"),
    "a large degree": (A.special_laguerre_polynomial_l.n_scalar, [X, 2**40], "'n' must be at most 10000"),
    "a dimension twice": (A._fft_c2c.default, [r(2, 2, dtype=torch.complex64), [1, 1], 0, True], "twice"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_that_does_not_fit_is_refused_when_it_is_made(name):
    target, args, words = REFUSED[name]
    kwargs = {"rounding_mode": "trunc"} if target is A.div.Tensor_mode else {}
    results = [X] * len(target._schema.returns)
    model, fed = node_model(target, args, kwargs, results[0] if len(results) == 1 else tuple(results))
    session = session_of(model, (str(target).removesuffix(".default").replace("aten.", "aten::"),))
    with pytest.raises(Exception, match=f"invalid arguments: .*{words}"):
        run(session, fed)


HANDMADE = handmade.calls()


@pytest.mark.parametrize("name", HANDMADE)
def test_a_call_that_fits_gives_what_pytorch_gives(name):
    target = overloads.overload(name)
    for args, kwargs in HANDMADE[name]:
        call(target, args, kwargs, aten=(name,))
