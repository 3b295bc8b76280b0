"""Numbers from data: scales, indices, sizes, elements of lists."""

from __future__ import annotations

import math

import torch
from models.deciding.model import LEVELS, MASKS, ROWS, SIGNS, deciding
from torch import nn

__all__: list[str] = []


_lengths = tuple(
    torch.tensor([[float(a), b, 6 - a - b, 0]] * ROWS) for a, b in ((2, 1), (1, 1), (0, 3), (5, 1), (6, 0))
)


@deciding(0, LEVELS)
def numbers_as_scales(x):
    largest = x.max().item()
    return x * int(x.max()) + float(x.min()) / (largest + 1) + x.mean().item()


@deciding(0, LEVELS)
def numbers_through_arithmetic(x):
    s = x.max().item()
    n = int(s * 10)
    y = x * round(s) + math.ceil(s) - math.floor(s) + math.trunc(-s) * math.sqrt(s)
    return y * min(s, 2) + max(s, 1.5, n // 3) - n % 3 + n / 4 + x ** int(s)


@deciding(0, LEVELS)
def numbers_rounded_to_places(x):
    s, n = x.mean().item() * 12.345, int(x.sum() * 7)
    return x + round(s, 2), x * round(s, -1), x - round(s, 1), x + round(n, -1), x * round(n, -2)


@deciding(0, LEVELS)
def numbers_as_indices(x):
    n = int(x.max())
    y = x + torch.arange(4)
    y[:, n] = 7
    return y[:, n] + y[:, x.min().long().item()] + y[0, int(x.max())]


@deciding(0, LEVELS)
def numbers_as_slice_bounds(x):
    n = int(x.max())
    y = x.clone()
    y[:, n : n + 1] = 5
    return y[:, :n].sum(1) + y[:, -n - 1 :].sum(1) + y[:, 1 : n + 1].sum(1)


@deciding(0, LEVELS)
def numbers_as_sizes(x):
    n = int(x.max()) + 1
    y = torch.arange(n * 6.0).reshape(n, -1) + torch.ones(n, 2).sum()
    z = x[:1].expand(n, -1) + torch.linspace(0, 1, n).unsqueeze(1) + x[:1].repeat(n, 1)
    return y, z, torch.nn.functional.interpolate(x[None, None], size=(n, 2 * n)), x.flatten().topk(min(n, 3)).values


@deciding(0, LEVELS)
def a_padding_up_to_a_length(x):
    n = int(x.max())
    return torch.nn.functional.pad(x[:, :n], (0, 4 - n)) + torch.nn.functional.one_hot(torch.tensor(0), n + 1).sum()


@deciding(1, LEVELS)
def a_comparison_of_a_number(x):
    n = int(x.max())
    return x + 1 if n > 2 else x[:, : n + 1]


@deciding(3, LEVELS, dynamic=False)
def the_best_of_several(x):
    best, least = (0, 0), float("inf")
    size = x.max().item()
    for height, width in ((1, 2), (2, 2), (4, 4)):
        scale = min(width / size, height / size)
        waste = height * width - int(size * scale)
        if waste < least:
            best, least = (height, width), waste
    return x * best[0] + best[1]


@deciding(0, _lengths)
def pieces_at_places(x):
    values = torch.arange(12.0).reshape(6, 2)
    first, *others = torch.tensor_split(values, x[0, :2].long().cumsum(0))
    values = values.clone()
    values[0] = x[0, 1]  # which has the graph made again without in-place operators
    return first, [each * 2 for each in others], values


@deciding(0, _lengths)
def pieces_of_lengths(x):
    values = torch.arange(12.0).reshape(6, 2)
    parts = values.split(x[0].long().tolist())
    return torch.cat([part * 2 + part.sum() for part in parts]), sum(part.sum() * len(part) for part in parts)


@deciding(0, _lengths)
def numbers_of_a_list(x):
    a, b, c, _ = map(int, x[0])
    first, *others = x[0].tolist()
    return torch.arange(a * b + c), torch.tensor([int(first), *others]) + sum(int(each) for each in x[0].tolist())


@deciding(0, _lengths)
def repeated_by_lengths(x):
    lengths = x[0].long()
    y = torch.arange(4.0).repeat_interleave(lengths)
    places = [torch.arange(n) for n in lengths]
    return y * y.shape[0] + torch.cat(places), lengths.cumsum(0)


@deciding(0, MASKS)
def sizes_that_data_decides(x):
    y = x[x > 0]
    found, counts = x.unique(return_counts=True)
    return y / max(len(y), 1), (x > 0).nonzero() * y.numel(), found * len(found) + counts.max().item()


@deciding(0, no_rows=True)
def rows_beside_as_many_as_data_say(x):
    """torch_geometric's GATConv: there is nothing where there are neither nodes nor edges."""
    both = torch.cat([x, x[x[:, 0] > 0]])
    if both.numel() == 0:
        return both
    return both.softmax(0) * 2


@deciding(1, LEVELS)
def a_number_that_an_answer_makes_zero(x):
    """The product of a number that data decides and one that a decision chooses, which no variable holds."""
    return (x + x.mean().item() * (1 if x.max() > 2 else 0)).sin().cos()


# As many turns as the first number of a row says: none, one, a few, and more than any capture has.


_STEPS = (torch.sin, torch.cos, torch.neg, lambda x: x * x)


@deciding(2, SIGNS)
def an_element_that_data_choose(x):
    return _STEPS[int(x[0, :3].argmax())](x) + 1


@deciding(3, SIGNS)
class LayerThatDataChoose(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(4)])

    def forward(self, x):
        place = x.sum(0).argmax() - 2  # some are counted from the last
        return torch.tanh(self.layers[place](x))


_FACTORS = {0: 1.0, 1: -2.5, 3: 4.0}


@deciding(2, SIGNS)
def a_value_of_a_dict_that_data_choose(x):
    return x * {0: 1.5, 1: -2.5, 2: 4.0}.get(int(x[0, :3].argmax()), 0.0) + _FACTORS.get(3, 0.0)


@deciding(3, SIGNS)
def a_dict_or_a_default(x):
    return x * _FACTORS.get(int((x > 0).sum()) % 4, 9.0)


@deciding(3, LEVELS)
def a_dict_or_an_error_that_is_handled(x):
    number = int(x.max())
    try:
        return x * _FACTORS[number]
    except KeyError:
        return x + number


@deciding(2, LEVELS)
def a_number_in_a_set(x):
    return x.sin() if int(x.max()) in {1, 3} else x.cos()


@deciding(2, SIGNS)
class LayerOfADict(nn.Module):
    """The layer of a dict that data choose, which has one for each number there can be."""

    def __init__(self) -> None:
        super().__init__()
        self.places = {0: 2, 1: 0, 2: 1}
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x):
        return self.layers[self.places[int(x[0, :3].argmax())]](x)
