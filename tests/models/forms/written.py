"""Results that are written to tensors that are there: `out=`, slices, and masks."""

from __future__ import annotations

import torch
from models.forms.form import floats, form, integers

__all__: list[str] = []

_X = floats("batch", 4)
_SEQUENCE = floats("batch", "length", 4)


@form(_X, _X)
def sum_to_out(x, y):
    z = torch.empty_like(x)
    torch.add(x, y, out=z)
    return z * 2


@form(_X, _X)
def sum_to_slice(x, y):
    z = torch.zeros(x.shape[0], 8)
    torch.add(x, y, out=z[:, :4])
    torch.mul(x, y, out=z[:, 4:])
    return z


@form(_X)
def out_to_input(x):
    y = x.clone()
    torch.sin(y, out=y)
    return y


@form(_X)
def out_of_other_size(x):
    """torch resizes an empty tensor."""
    z = torch.empty(0)
    torch.exp(x, out=z)
    return z


@form(_SEQUENCE)
def several_outs(x):
    values, places = torch.empty(0), torch.empty(0, dtype=torch.int64)
    torch.max(x, dim=1, out=(values, places))
    torch.sort(values, dim=-1, out=(values.clone(), places))
    return values, places


@form(_SEQUENCE, _SEQUENCE)
def outs_of_products(x, y):
    z = torch.empty(x.shape[0], x.shape[1], y.shape[1])
    torch.bmm(x, y.transpose(1, 2), out=z)
    torch.matmul(x, y.transpose(1, 2), out=z)
    w = torch.empty(x.shape[0], x.shape[1] * 2, 4)
    torch.cat([x, y], dim=1, out=w)
    return z, w


@form(_X)
def outs_of_factories(x):
    z = torch.empty(4)
    torch.arange(4, out=z)
    w = torch.empty(2, 4)
    torch.stack([z, z * 2], out=w)
    v = torch.empty(4)
    torch.sum(x, dim=0, out=v)
    return x + z + w[1] + v


@form(_X, integers(4, "batch", 2))
def outs_of_selection(x, at):
    z = torch.empty(x.shape[0], 2)
    torch.gather(x, 1, at, out=z)
    w = torch.empty(x.shape[0], 2)
    torch.index_select(x, 1, torch.tensor([0, 2]), out=w)
    v = torch.empty_like(x)
    torch.clamp(x, -0.5, 0.5, out=v)
    u = torch.empty_like(x)
    torch.where(x > 0, x, v, out=u)
    return z, w, v, u


@form(_SEQUENCE)
def out_to_column(x):
    z = torch.zeros_like(x)
    torch.cumsum(x[..., 0], dim=1, out=z[..., 0])
    torch.mean(x, dim=-1, out=z[..., 1])
    return z


@form(_X, _X)
def out_of_other_dtype(x, y):
    z = torch.empty(x.shape, dtype=torch.float64)
    torch.add(x, y, out=z)
    found = torch.empty(x.shape, dtype=torch.bool)
    torch.gt(x, y, out=found)
    return z, found


@form(_SEQUENCE)
def written_rows(x):
    y = torch.zeros(x.shape[0], x.shape[1] + 2, 4)
    y[:, 1:-1] = x
    y[:, 0] = x[:, 0]
    y[:, -1] = x[:, -1]
    return y


@form(_SEQUENCE)
def written_steps(x):
    y = x.clone()
    y[:, ::2] = 0
    y[:, 1::2, 1] += 5
    y[..., -1].mul_(3)
    y[0, 0, 0] = 7
    return y


@form(_SEQUENCE)
def written_in_loop(x):
    rows = torch.empty(3, x.shape[0], 4)
    state = x[:, 0]
    for step in range(3):
        state = state * 0.5 + step
        rows[step] = state
    return rows


@form(_SEQUENCE, integers(4, "batch"))
def written_by_indices(x, at):
    y = x.clone()
    y[torch.arange(x.shape[0]), :, at] = 1.0
    y[:, [0, -1]] = 2.0
    y.index_fill_(2, torch.tensor([1]), 3.0)
    y.index_copy_(1, torch.tensor([0]), x[:, :1] * 5)
    return y


@form(_SEQUENCE)
def written_by_masks(x):
    y = x.clone()
    y[y > 0] *= 2
    y[(y < -1) & (x < 0)] = -1
    y[..., 0][y[..., 0] > 1] = 1
    y.masked_scatter_(x > 1, torch.ones_like(x).cumsum(-1))
    return y


@form(_SEQUENCE)
def written_diagonals(x):
    scores = x @ x.transpose(1, 2)
    scores.diagonal(dim1=1, dim2=2).fill_(0)
    scores.triu_(1)
    torch.diagonal(scores, 1, 1, 2).add_(1)
    return scores


@form(_X)
def swapped_and_copied(x):
    y = x.clone()
    y[:, [0, 1]] = y[:, [1, 0]]
    y[:, 2:].copy_(y[:, :2] * 2)
    y.T[3] = 1
    return y


@form(_X)
def set_in_place(x):
    y = x.clone()
    y.clamp_(min=0).sqrt_().add_(1, alpha=2).div_(3)
    y.unsqueeze_(1).squeeze_(1).t_().t_()
    y.zero_() if y.dim() > 2 else y.neg_()
    return y.fill_diagonal_(1.0) if y.dim() == 2 else y


@form(_X)
def concatenated_in_place(x):
    total = torch.zeros(x.shape[0], 0)
    for column in range(4):
        total = torch.cat([total, x[:, column : column + 1].cumsum(0)], dim=1)
        total += 1
    return total


@form(floats("batch", 2, 8, 8))
def pasted_images(x):
    canvas = torch.full((x.shape[0], 2, 12, 12), 0.5)
    canvas[:, :, 2:10, 2:10] = x
    canvas[..., :2, :] = canvas[..., -2:, :].flip(-1)
    return canvas
