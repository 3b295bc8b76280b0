"""Recurrent networks, packed sequences and loops over time."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from reported_models.report import Case, module, reported


class _ManualBidirectional(nn.Module):
    """Two recurrent networks, the second over the reversed sequence."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU], layers: int = 1) -> None:
        super().__init__()
        self.forwards = kind(6, 8, layers, batch_first=True)
        self.backwards = kind(6, 8, layers, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x * mask.unsqueeze(-1)
        first, _ = self.forwards(x)
        second, _ = self.backwards(torch.flip(x, [1]))
        return torch.cat([first, torch.flip(second, [1])], -1) * mask.unsqueeze(-1)


def _masked(batch: int, time: int) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, time, 6), (torch.rand(batch, time) > 0.3).float()


@reported("pytorch/pytorch", 191855)
def manual_bidirectional_lstm() -> Case:
    return Case(_ManualBidirectional(nn.LSTM), _masked, (1, 12), [(1, 5), (1, 31)], ({1: "time"}, {1: "time"}))


@reported("pytorch/pytorch", 191855, "GRU of two layers, dynamic batch, one step")
def manual_bidirectional_gru() -> Case:
    sizes = {0: "batch", 1: "time"}
    return Case(_ManualBidirectional(nn.GRU, 2), _masked, (2, 12), [(1, 1), (3, 31)], (sizes, sizes))


class _Gru(nn.Module):
    def __init__(self, state: bool) -> None:
        super().__init__()
        self.gru = nn.GRU(39, 16, 2, batch_first=True)
        self.state = state

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        if not self.state:
            return self.gru(x)[0], y
        hidden = torch.zeros(2, x.size(0), 16, dtype=x.dtype, device=x.device)
        for chunk in x.split(5, dim=1):
            _, hidden = self.gru(chunk, hidden)
        return hidden, y


@reported("pytorch/pytorch", 126339)
def gru_dynamic_batch_and_time() -> Case:
    return Case(
        _Gru(False),
        lambda b, t: (torch.randn(b, t, 39), torch.arange(b)),
        (2, 110),
        [(1, 3), (5, 64)],
        ({0: "batch", 1: "time"}, {0: "batch"}),
    )


@reported("pytorch/pytorch", 126339, "the state is carried over chunks of the dynamic time")
def gru_over_chunks() -> Case:
    return Case(
        _Gru(True),
        lambda b, t: (torch.randn(b, t, 39), torch.arange(b)),
        (2, 12),
        [(1, 3), (3, 21)],
        ({0: "batch", 1: "time"}, {0: "batch"}),
    )


class _PackedNorm(nn.Module):
    """Normalizes the valid steps only, by packing them."""

    def __init__(self, width: int, recurrent: bool) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.rnn = nn.LSTM(width, 4, batch_first=True, bidirectional=True) if recurrent else None

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        normed = PackedSequence(
            self.norm(packed.data), packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices
        )
        if self.rnn is not None:
            normed, _ = self.rnn(normed)
        return pad_packed_sequence(normed, batch_first=True)[0]


def _with_lengths(batch: int, time: int) -> tuple[Tensor, Tensor]:
    lengths = torch.randint(1, time + 1, (batch,))
    lengths[batch // 2] = time
    return torch.randn(batch, time, 5), lengths


def _trained(model: nn.Module) -> nn.Module:
    for each in model.modules():
        if isinstance(each, nn.BatchNorm1d | nn.InstanceNorm1d) and each.running_mean is not None:
            each.running_mean.normal_()
            each.running_var.uniform_(0.5, 2.0)
    return model.eval()


@reported("pytorch/pytorch", 49936)
def packed_batch_norm() -> Case:
    model = _trained(_PackedNorm(5, False))
    return Case(model, _with_lengths, (3, 7), [(3, 4), (3, 9)], ({1: "time"}, None))


@reported("pytorch/pytorch", 49936, "followed by a bidirectional LSTM, dynamic batch")
def packed_batch_norm_lstm() -> Case:
    model = _trained(_PackedNorm(5, True))
    return Case(model, _with_lengths, (3, 7), [(1, 4), (5, 9)], ({0: "batch", 1: "time"}, {0: "batch"}))


class _SortedLstm(nn.Module):
    """Sorts by length, packs, runs, pads to the whole length and restores the order."""

    def __init__(self, total: bool) -> None:
        super().__init__()
        self.rnn = nn.LSTM(5, 6, 2, bidirectional=True, batch_first=True)
        self.total = total

    def forward(self, inputs: Tensor, input_lens: Tensor) -> tuple[Tensor, Tensor]:
        padded_seq_len = inputs.shape[1]
        _, idx_sort = torch.sort(input_lens, dim=0, descending=True)
        _, idx_unsort = torch.sort(idx_sort, dim=0)
        inputs = inputs.index_select(0, idx_sort)
        input_lens = list(input_lens[idx_sort])
        packed = pack_padded_sequence(inputs, input_lens, batch_first=True)
        outputs, (hn, _) = self.rnn(packed)
        total = padded_seq_len if self.total else None
        outputs = pad_packed_sequence(outputs, batch_first=True, total_length=total)[0]
        return outputs.index_select(0, idx_unsort), hn.index_select(1, idx_unsort)


def _distinct_lengths(batch: int, time: int) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, time, 5), torch.randperm(time)[:batch] + 1


@reported("pytorch/pytorch", 41774)
def sorted_lstm() -> Case:
    sizes = ({0: "batch"}, {0: "batch"})
    return Case(_SortedLstm(True), _distinct_lengths, (3, 7), [(1, 7), (5, 7)], sizes)


@reported("pytorch/pytorch", 41774, "dynamic time, padded to the longest only")
def sorted_lstm_to_longest() -> Case:
    sizes = ({0: "batch", 1: "time"}, {0: "batch"})
    return Case(_SortedLstm(False), _distinct_lengths, (3, 7), [(1, 4), (4, 9)], sizes)


class _Spans(nn.Module):
    def __init__(self, hidden_size: int, max_span_len: int) -> None:
        super().__init__()
        self.max_span_len = max_span_len
        self.fc = nn.Linear(hidden_size * 2, hidden_size)

    def forward(self, seq_hiddens: Tensor) -> Tensor:
        seq_len = seq_hiddens.size()[1]
        hiddens_list = []
        for ind in range(seq_len):
            hidden_each_step = seq_hiddens[:, ind, :]
            a = seq_hiddens[:, ind : ind + self.max_span_len, :]
            b = hidden_each_step[:, None, :].repeat(1, a.shape[1], 1)
            hiddens_list.append(torch.tanh(self.fc(torch.cat([a, b], dim=-1))))
        return torch.cat(hiddens_list, dim=1)


class _TypedSpans(_Spans):
    def forward(self, seq_hiddens: Tensor) -> tuple[Tensor, Tensor]:
        rows, starts = [], []
        for ind, hidden_each_step in enumerate(seq_hiddens.unbind(1)):
            a = seq_hiddens[:, ind : ind + self.max_span_len, :]
            b = hidden_each_step[:, None, :].expand_as(a)
            rows.append(torch.tanh(self.fc(torch.cat([a, b], dim=-1))).amax(1))
            starts.append(torch.full((seq_hiddens.shape[0],), ind))
        return torch.stack(rows, 1), torch.stack(starts, 1)


@reported("pytorch/pytorch", 59870)
def spans() -> Case:
    return Case(_Spans(4, 3), lambda b, t: (torch.randn(b, t, 4),), (2, 6), [(1, 2), (3, 9)], ({0: "b", 1: "t"},))


@reported("pytorch/pytorch", 59870, "enumerate and unbind, two lists")
def spans_by_enumerate() -> Case:
    model = _TypedSpans(4, 3)
    return Case(model, lambda b, t: (torch.randn(b, t, 4),), (2, 6), [(1, 2), (3, 9)], ({0: "b", 1: "t"},))


class _Greedy(nn.Module):
    """A greedy decoder that stops at the end token."""

    def __init__(self, batched: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 8)
        self.gru = nn.GRU(8, 8)
        self.out = nn.Linear(16, 12)
        self.batched = batched

    def forward(self, hidden: Tensor, encoder_outputs: Tensor) -> Tensor:
        token = torch.zeros(1, hidden.shape[1], dtype=torch.long)
        found = []
        done = torch.zeros(hidden.shape[1], dtype=torch.bool)
        for _ in range(15):
            embedded = self.embedding(token)
            output, hidden = self.gru(embedded, hidden)
            weights = torch.softmax((output[0] @ encoder_outputs.T), -1)
            logits = self.out(torch.cat([output[0], weights @ encoder_outputs], -1))
            token = logits.argmax(-1)[None]
            if self.batched:
                token = token.masked_fill(done[None], 3)
                done = done | (token[0] == 3)
                found.append(token[0])
                if done.all():
                    break
            else:
                if token.item() == 3:
                    break
                found.append(token.view(-1))
        return torch.stack(found) if self.batched else torch.cat([torch.zeros(1, dtype=torch.long), *found])


@reported("pytorch/pytorch", 24788)
def greedy_decoder() -> Case:
    return Case(
        _Greedy(False),
        lambda n: (torch.randn(1, 1, 8), torch.randn(n, 8)),
        (10,),
        [(4,), (10,), (17,), (6,)],
        (None, {0: "length"}),
    )


@reported("pytorch/pytorch", 24788, "a dynamic batch that stops when every row has ended")
def greedy_decoder_batched() -> Case:
    return Case(
        _Greedy(True),
        lambda b, n: (torch.randn(1, b, 8), torch.randn(n, 8)),
        (2, 10),
        [(1, 4), (3, 17), (2, 6)],
        ({1: "batch"}, {0: "length"}),
    )


class _RepeatedConv(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n
        self.conv = nn.Conv2d(3, 3, 3)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.n):
            x = self.conv(x)
        return x


class _ConvWhile(_RepeatedConv):
    def forward(self, x: Tensor) -> Tensor:
        while x.shape[-1] > 4 and x.shape[-2] > 4:
            x = self.conv(x)
        return x


@reported("pytorch/pytorch", 122588)
def repeated_convolution() -> Case:
    return Case(
        _RepeatedConv(2), lambda b, h: (torch.rand(b, 3, h, h),), (1, 10), [(2, 14)], ({0: "b", 2: "h", 3: "w"},)
    )


@reported("pytorch/pytorch", 122588, "as often as the dynamic size has room for")
def repeated_convolution_by_size() -> Case:
    return Case(_ConvWhile(2), lambda h, w: (torch.rand(1, 3, h, w),), (10, 11), [(4, 4), (14, 9)], ({2: "h", 3: "w"},))


@reported("speechbrain/speechbrain", 1750)
def length_mask_pooling() -> Case:
    def pool(x: Tensor, lengths: Tensor) -> Tensor:
        size = x.shape[-1]
        length = lengths * size
        max_len = x.shape[-1]
        mask = torch.arange(max_len, device=length.device, dtype=length.dtype).expand(
            len(length), max_len
        ) < length.unsqueeze(1)
        mask = torch.as_tensor(mask, dtype=x.dtype, device=x.device).unsqueeze(1)
        total = mask.sum(dim=2, keepdim=True).float()
        m = mask / total
        mean = (m * x).sum(2)
        std = torch.sqrt((m * (x - mean.unsqueeze(2)).pow(2)).sum(2).clamp(1e-12))
        attn = torch.cat([x, mean.unsqueeze(2).repeat(1, 1, size), std.unsqueeze(2).repeat(1, 1, size)], dim=1)
        attn = attn.masked_fill(mask == 0, float("-inf"))
        return torch.softmax(attn, dim=2)

    return Case(
        module(pool),
        lambda b, t: (torch.randn(b, 4, t), torch.linspace(0.4, 1.0, b)),
        (2, 10),
        [(1, 5), (3, 23)],
        ({0: "batch", 2: "time"}, {0: "batch"}),
    )


@reported("speechbrain/speechbrain", 1750, "integer lengths, the mask as long as the longest")
def longest_mask_pooling() -> Case:
    def pool(x: Tensor, lengths: Tensor) -> Tensor:
        max_len = int(lengths.max().item())
        x = x[..., :max_len]
        mask = torch.arange(max_len, device=x.device)[None] < lengths[:, None]
        weights = torch.softmax(x.masked_fill(~mask[:, None], float("-inf")), 2)
        return torch.cat([(weights * x).sum(2), x.std(2)], 1)

    return Case(
        module(pool),
        lambda b, t: (torch.randn(b, 4, t), torch.randint(2, t + 1, (b,))),
        (2, 10),
        [(1, 5), (3, 23)],
        ({0: "batch", 2: "time"}, {0: "batch"}),
    )
