"""Loops and branches as operators: bodies that need ranks, and results that are None or numbers."""

from __future__ import annotations

import torch
from models.forms.form import floats, form, integers
from torch import nn

__all__: list[str] = []

_X = floats("batch", 4)
_SEQUENCE = floats("batch", "length", 4)


def _times(count, step, *carried):
    start = torch.zeros((), dtype=torch.int64)
    return torch.while_loop(lambda i, *_: i < count, lambda i, *given: (i + 1, *step(*given)), (start, *carried))[1:]


@form(_X)
def loop_of_softmax(x):
    return _times(3, lambda given: (given.softmax(-1),), x)


@form(_SEQUENCE)
class LoopOfLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x):
        def step(given):
            y = self.norm(given)
            return (given + self.attention(y, y, y, need_weights=False)[0],)

        return _times(2, step, x)[0]


@form(floats("batch", 2, 6, 6))
class LoopOfConvolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x):
        return _times(2, lambda given: (nn.functional.max_pool2d(self.convolution(given), 3, 1, 1),), x)[0]


@form(floats("batch", 1, 8, 8))
def hysteresis_of_edges(image):
    """kornia's canny: edges grow by convolution until they no longer change."""
    kernel = torch.ones(1, 1, 3, 3)
    strong, weak = (image > 1).float(), ((image > 0) & (image <= 1)).float()

    def grow(strong, weak, _):
        grown = (nn.functional.conv2d(strong, kernel, padding=1) > 0).float() * weak + strong
        grown = grown.clamp(max=1)
        return grown, weak * (1 - grown), (grown != strong).any()

    return torch.while_loop(
        lambda strong, weak, changed: changed.clone(), grow, (strong, weak, torch.ones((), dtype=torch.bool))
    )[0]


@form(_SEQUENCE)
def loop_of_rolled(x):
    def step(given, total):
        return given.roll(1, 1).flip(-1), total + given.mean(dim=(1, 2))

    return _times(3, step, x, torch.zeros(x.shape[0]))


@form(floats("batch", 4, 4))
def loop_of_matrix_products(x):
    return _times(3, lambda given: (given @ given / given.norm(dim=(1, 2), keepdim=True),), x)


@form(_SEQUENCE, integers(5, 1))
def loop_of_cumulative_sums(x, count):
    return _times(count[0], lambda given: (given.cumsum(1) / 2,), x)


@form(_SEQUENCE)
def decoding_loop(x):
    """A table that each turn writes one row of, and reads the rows before."""
    count = x.shape[1]

    def step(at, table):
        written = torch.where(torch.arange(count)[:, None] == at, table.mean(1, keepdim=True) + 1, table)
        return at + 1, written

    return torch.while_loop(lambda at, table: at < count, step, (torch.zeros((), dtype=torch.int64), x))[1]


@form(_SEQUENCE)
def loop_of_sorted(x):
    return _times(2, lambda given: (given.sort(1).values + given.argmax(-1, keepdim=True),), x)


@form(_X)
def loop_of_numbers(x):
    """What is carried is a number of Python's."""
    _, last = torch.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a.softmax(-1) * 2), (0, x))
    return last


@form(_X)
def loop_within_loop(x):
    def outer(given):
        return (_times(2, lambda each: (each.softmax(-1) + given,), given)[0],)

    return _times(2, outer, x)[0]


@form(_SEQUENCE)
def branches_within_loop(x):
    def step(given):
        return (torch.cond(given.mean() > 0, lambda a: a.softmax(-1), lambda a: a.flip(1) + 1, (given,)),)

    return _times(3, step, x)[0]


@form(_SEQUENCE)
def loop_within_branches(x):
    return torch.cond(
        x.mean() > 0,
        lambda given: _times(2, lambda each: (each.softmax(-1),), given)[0],
        lambda given: given.log_softmax(-1),
        (x,),
    )


@form(_SEQUENCE)
def branches_that_need_ranks(x):
    return torch.cond(
        x.sum() > 0, lambda a: a.transpose(1, 2).flatten(1).softmax(-1), lambda a: a.flatten(1).flip(-1), (x,)
    )


@form(_X)
def branches_that_return_structures(x):
    found = torch.cond(
        x.sum() > 0,
        lambda a: {"value": a.softmax(-1), "parts": (a.mean(), a.argmax(-1))},
        lambda a: {"value": a * 2, "parts": (a.sum(), a.argmin(-1))},
        (x,),
    )
    return found["value"] + found["parts"][0], found["parts"][1]


@form(_X)
def branches_without_operands(x):
    return x + torch.cond(x.sum() > 0, lambda: torch.ones(4), lambda: torch.zeros(4), ())


@form(_X, integers(2, 1))
def branch_by_input(x, choice):
    return torch.cond(choice[0] == 1, lambda a: a.cumsum(0), lambda a: a.softmax(0), (x,))


@form(floats("length", "batch", 4))
def scan_of_softmax(x):
    from torch._higher_order_ops import scan

    return scan(lambda total, each: ((total + each).softmax(-1), total.sum(-1)), torch.zeros_like(x[0]), x)


@form(floats("length", "batch", 4))
def map_of_normalised(x):
    from torch._higher_order_ops.map import map as map_over

    return map_over(lambda each, shift: nn.functional.layer_norm(each, (4,)) + shift, x, torch.ones(4))


@form(floats("batch", "length", 4, 3))
class NormalisedInChunks(nn.Module):
    """diffusers' MochiChunkedGroupNorm3D: the last chunk is shorter, and how many there are is a size's to say."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x):
        chunks = x.flatten(0, 1).split(8, dim=0)
        rows = torch.cat([self.norm(chunk) for chunk in chunks], dim=0)
        return rows.unflatten(0, (x.shape[0], -1))
