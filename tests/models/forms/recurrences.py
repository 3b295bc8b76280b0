"""Recurrences over a sequence of any length: state space models, linear attention, cells in loops."""

from __future__ import annotations

import torch
from models.forms.form import floats, form, integers
from torch import nn
from torch._higher_order_ops import scan
from torch.nn import functional

__all__: list[str] = []

_X = floats("batch", "length", 4)


@form(_X)
class SelectiveScan(nn.Module):
    """Mamba: the state after each step, by a loop of Python's over the sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.rates = nn.Parameter(torch.randn(4, 3))
        self.project = nn.Linear(4, 10)
        self.convolution = nn.Conv1d(4, 4, 3, groups=4, padding=2)

    def forward(self, x):
        length = x.shape[1]
        x = functional.silu(self.convolution(x.transpose(1, 2))[..., :length].transpose(1, 2))
        delta, inputs, outputs = self.project(x).split([4, 3, 3], dim=-1)
        delta = functional.softplus(delta)
        decay = torch.exp(delta[..., None] * -self.rates.exp())
        driven = delta[..., None] * inputs[:, :, None] * x[..., None]
        state = torch.zeros(x.shape[0], 4, 3)
        found = []
        for step in range(length):
            state = decay[:, step] * state + driven[:, step]
            found.append((state * outputs[:, step, None]).sum(-1))
        return torch.stack(found, dim=1)


@form(_X)
class SelectiveScanByOperator(nn.Module):
    """Mamba over a sequence of any length, by torch's scan."""

    def __init__(self) -> None:
        super().__init__()
        self.rates = nn.Parameter(torch.randn(4, 3))
        self.project = nn.Linear(4, 10)

    def forward(self, x):
        delta, inputs, outputs = self.project(x).split([4, 3, 3], dim=-1)
        delta = functional.softplus(delta)
        decay = torch.exp(delta[..., None] * -self.rates.exp()).transpose(0, 1)
        driven = (delta[..., None] * inputs[:, :, None] * x[..., None]).transpose(0, 1)

        def step(state, given):
            state = given[0] * state + given[1]
            return state, state.clone()

        _, states = scan(step, torch.zeros(x.shape[0], 4, 3), (decay, driven))
        return (states.transpose(0, 1) * outputs[:, :, None]).sum(-1)


@form(_X)
class SelectiveScanBySums(nn.Module):
    """The same recurrence by cumulative sums of logarithms."""

    def __init__(self) -> None:
        super().__init__()
        self.rates = nn.Parameter(torch.randn(4))

    def forward(self, x):
        decay = torch.cumsum(-self.rates.exp() * functional.softplus(x) * 0.1, dim=1)
        return torch.cumsum(x * torch.exp(-decay), dim=1) * decay.exp()


@form(_X)
def segment_sums(x):
    """Mamba 2: differences of cumulative sums below the diagonal."""
    length = x.shape[1]
    spread = x[..., None].transpose(1, 2).expand(-1, 4, length, length)
    kept = torch.tril(torch.ones(length, length, dtype=torch.bool), diagonal=-1)
    total = spread.masked_fill(~kept, 0).cumsum(dim=-2)
    return total.masked_fill(~torch.tril(torch.ones(length, length, dtype=torch.bool)), -torch.inf).exp()


@form(_X)
def state_of_chunks(x):
    """Chunks of a sequence that is padded to a whole number of these."""
    size = 3
    pad = (size - x.size(1) % size) % size
    chunks = functional.pad(x, (0, 0, 0, pad)).reshape(x.size(0), -1, size, 4)
    total = chunks.cumsum(dim=2)
    carried = functional.pad(total[:, :, -1].cumsum(dim=1), (0, 0, 1, 0))[:, :-1]
    return (total + carried[:, :, None]).flatten(1, 2)[:, : x.size(1)]


@form(_X)
def whole_chunks_before_single_steps(x):
    """xLSTM: a loop over whole chunks, which writes to parts of a tensor, then one over the steps that are left."""
    batch, length, width = x.shape
    state, found, size = x.new_zeros(batch, width), [], 3
    count = length // size
    if count > 0:
        chunks = x[:, : count * size].contiguous().view(batch, count, size, width)
        states = x.new_zeros(batch, (count + 1) * width)
        for place in range(count):
            states[:, place * width : (place + 1) * width] = state
            state = torch.tanh(state + chunks[:, place].sum(1))
        states[:, -width:] = state
        found.append((chunks * states[:, :-width].view(batch, count, 1, width)).reshape(batch, count * size, width))
    if length - count * size > 0:
        steps = []
        for step in range(count * size, length):
            state = torch.tanh(state + x[:, step])
            steps.append(state)
        found.append(torch.stack(steps, 1))
    return torch.cat(found, 1).reshape(batch, length, -1) + x, state


@form(_X)
def linear_attention(x):
    query, key = functional.elu(x) + 1, functional.elu(x * 2) + 1
    total = torch.einsum("blk,blv->blkv", key, x).cumsum(1)
    return torch.einsum("blk,blkv->blv", query, total) / (query * key.cumsum(1)).sum(-1, keepdim=True)


@form(_X)
class CellInLoop(nn.Module):
    """A cell in a loop of Python's over the sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 3)

    def forward(self, x):
        state = torch.zeros(x.shape[0], 3)
        found = []
        for each in x.unbind(1):
            state = self.cell(each, state)
            found.append(state)
        return torch.stack(found, 1)


@form(floats("batch", 5, 4))
class CellsOfFixedLength(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 3)

    def forward(self, x):
        state = (torch.zeros(x.shape[0], 3), torch.zeros(x.shape[0], 3))
        for step in range(x.size(1)):
            state = self.cell(x[:, step], state)
        return torch.cat(state, -1)


@form(_X, floats(2, "batch", 3), floats(2, "batch", 3))
class StackedLstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 3, num_layers=2, batch_first=True)

    def forward(self, x, hidden, cell):
        return self.lstm(x, (hidden, cell))


@form(floats("length", 4))
class LstmWithoutBatch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 3, bidirectional=True)

    def forward(self, x):
        output, (hidden, cell) = self.lstm(x)
        return output, hidden, cell


@form(_X)
class TransducerJoint(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.predict = nn.GRU(4, 3, batch_first=True), nn.RNN(4, 3, batch_first=True)

    def forward(self, x):
        return (self.encode(x)[0][:, :, None] + self.predict(x)[0][:, None]).log_softmax(-1)


@form(_X)
class CausalConvolutions(nn.Module):
    """WaveNet, with dilations that double."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv1d(4, 8, 2, dilation=2**depth) for depth in range(3)])

    def forward(self, x):
        x = x.transpose(1, 2)
        for layer in self.layers:
            x = x + functional.glu(layer(functional.pad(x, (layer.dilation[0], 0))), dim=1)
        return x


@form(integers(9, "batch", "length"))
class LastToken(nn.Module):
    """The logits at the last token that is no padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 4), nn.Linear(4, 2)

    def forward(self, ids):
        logits = self.head(self.embedding(ids))
        last = (ids.ne(0).int() * torch.arange(ids.shape[-1], dtype=torch.int32)).argmax(-1)
        return logits[torch.arange(ids.shape[0]), last]


@form(_X)
def time_shift(x):
    """RWKV: each step beside the one before."""
    shifted = functional.pad(x, (0, 0, 1, -1))
    return x * 0.3 + shifted * 0.7, torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
