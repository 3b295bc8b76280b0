"""Lists of parts whose number, or whose lengths, only data decide."""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, softmax
from torch.nn.utils.rnn import pad_sequence

from reported_models.report import Case, form, module

_WIDTH = 4


def some_parts(*lengths: int) -> tuple[Tensor, Tensor]:
    """Rows [sum of the lengths, 4], and the lengths."""
    return torch.randn(sum(lengths), _WIDTH), torch.tensor(lengths)


def of_parts(function: Callable[[Sequence[Tensor]], Any]) -> Case:
    """A function of the parts that a list of lengths gives: the rows, and the number of parts, are dynamic."""

    def forward(x: Tensor, lengths: Tensor) -> Any:
        return function(x.split(lengths.tolist()))

    others = [(3,), (1, 5, 2), (2, 2, 2, 2, 1), (6, 1)]
    return Case(module(forward), some_parts, (2, 4, 3), others, ({0: "rows"}, {0: "parts"}))


def _padded(batch: int, length: int, *lengths: int) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, length, _WIDTH), torch.tensor(lengths)


def of_rows(function: Callable[[Tensor, Tensor], Any]) -> Case:
    """A function of a padded batch and its lengths: the batch and the length are dynamic."""
    others = [(1, 5, 3), (2, 4, 4, 1), (4, 9, 2, 9, 1, 5)]
    return Case(module(function), _padded, (3, 6, 2, 6, 4), others, ({0: "batch", 1: "length"}, {0: "batch"}))


@form("lists", "padded to the longest by writes into rows of a new tensor")
def pad_list() -> Case:
    def forward(x: Tensor, lengths: Tensor) -> Tensor:
        parts = [x[i, : int(n)] for i, n in enumerate(lengths)]
        padded = parts[0].new_full((len(parts), max(each.size(0) for each in parts), _WIDTH), -1.0)
        for i, each in enumerate(parts):
            padded[i, : each.size(0)] = each
        return padded

    return of_rows(forward)


@form("lists", "padded at the left to the longest")
def collate_left() -> Case:
    def forward(x: Tensor, lengths: Tensor) -> Tensor:
        rows = [x[i, : int(n)] for i, n in enumerate(lengths)]
        longest = max(len(each) for each in rows)
        return torch.stack([pad(each, (0, 0, longest - len(each), 0)) for each in rows])

    return of_rows(forward)


@form("lists", "rows expanded by their durations, then padded")
def length_regulator() -> Case:
    def expand(rows: Tensor, durations: Tensor) -> Tensor:
        return torch.cat([row.expand(max(int(n), 0), -1) for row, n in zip(rows, durations, strict=True)], 0)

    def forward(x: Tensor, durations: Tensor) -> Tensor:
        return pad_sequence([expand(rows, each) for rows, each in zip(x, durations, strict=True)], batch_first=True)

    def inputs(batch: int, length: int) -> tuple[Tensor, Tensor]:
        return torch.randn(batch, length, _WIDTH), torch.randint(0, 4, (batch, length)).clamp(min=1)

    dynamic = {0: "batch", 1: "length"}
    return Case(module(forward), inputs, (2, 3), [(1, 4), (3, 2), (4, 5)], (dynamic, dynamic))


@form("lists", "images of other sizes in one batch, with a mask")
def nested_tensor() -> Case:
    def forward(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        images = [first, second]
        sizes = [list(each.shape) for each in images]
        largest = [max(each) for each in zip(*sizes, strict=True)]
        batch = torch.zeros(len(images), *largest)
        mask = torch.ones(len(images), *largest[1:], dtype=torch.bool)
        for image, into, hidden in zip(images, batch, mask, strict=True):
            into[: image.shape[0], : image.shape[1], : image.shape[2]].copy_(image)
            hidden[: image.shape[1], : image.shape[2]] = False
        return batch, mask

    def inputs(*sizes: int) -> tuple[Tensor, Tensor]:
        return torch.randn(3, *sizes[:2]), torch.randn(3, *sizes[2:])

    dynamic = ({1: "h", 2: "w"}, {1: "height", 2: "width"})
    return Case(module(forward), inputs, (5, 8, 7, 6), [(7, 6, 5, 8), (4, 4, 4, 4), (9, 3, 2, 5)], dynamic)


@form("lists", "means of the pieces of each word")
def words_of_pieces() -> Case:
    def forward(x: Tensor, words: Tensor) -> Tensor:
        return torch.stack([x[words == each].mean(0) for each in range(int(words.max()) + 1)])

    def inputs(*lengths: int) -> tuple[Tensor, Tensor]:
        return torch.randn(sum(lengths), _WIDTH), torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))

    return Case(module(forward), inputs, (2, 1, 3), [(4,), (1, 1), (2, 3, 1, 1, 2)], ({0: "pieces"}, {0: "pieces"}))


@form("lists", "the best row of each class that occurs")
def best_of_classes() -> Case:
    def forward(scores: Tensor, labels: Tensor) -> Tensor:
        kept = []
        for label in labels.unique():
            (rows,) = torch.where(labels == label)
            kept.append(rows[scores[rows].argmax()])
        return torch.stack(kept)

    def inputs(count: int, classes: int) -> tuple[Tensor, Tensor]:
        return torch.randn(count), torch.randint(0, classes, (count,))

    return Case(module(forward), inputs, (8, 3), [(5, 1), (9, 5), (1, 2)], ({0: "rows"}, {0: "rows"}))


@form("lists", "a softmax over each part, joined again")
def segment_softmax() -> Case:
    return of_parts(lambda parts: torch.cat([softmax(each, 0) for each in parts]))


@form("lists", "statistics of each part")
def readout() -> Case:
    return of_parts(lambda parts: torch.stack([torch.cat([each.mean(0), each.amax(0), each.sum(0)]) for each in parts]))


@form("lists", "positions of grids of patches")
def grid_positions() -> Case:
    def forward(table: Tensor, grid: Tensor) -> Tensor:
        positions = []
        for frames, height, width in grid.tolist():
            rows = torch.arange(height).unsqueeze(1).expand(-1, width)
            columns = torch.arange(width).unsqueeze(0).expand(height, -1)
            positions.append(torch.stack([rows.flatten(), columns.flatten()], -1).repeat(frames, 1))
        return table[torch.cat(positions)].flatten(1)

    def inputs(*sizes: int) -> tuple[Tensor, Tensor]:
        return torch.randn(16, 3), torch.tensor(sizes).view(-1, 3)

    return Case(
        module(forward), inputs, (1, 2, 4, 2, 4, 3), [(1, 3, 3), (2, 1, 2, 1, 5, 1, 3, 2, 2)], (None, {0: "images"})
    )


@form("lists", "the maximum of each span")
def spans() -> Case:
    def forward(x: Tensor, spans: Tensor) -> Tensor:
        return torch.stack([x[start:end].max(0).values for start, end in spans.tolist()])

    def inputs(length: int, *bounds: int) -> tuple[Tensor, Tensor]:
        return torch.randn(length, _WIDTH), torch.tensor(bounds).view(-1, 2)

    return Case(
        module(forward), inputs, (9, 0, 2, 4, 9), [(5, 1, 3), (7, 0, 7, 2, 3, 6, 7)], ({0: "length"}, {0: "spans"})
    )


@form("lists", "spans of each row of a batch")
def spans_of_rows() -> Case:
    def forward(x: Tensor, spans: Tensor) -> Tensor:
        means = []
        for row, bounds in zip(x, spans, strict=True):
            means.append(torch.stack([row[start : end + 1].mean(0) for start, end in bounds.tolist()]))
        return torch.stack(means)

    def inputs(batch: int, length: int, count: int) -> tuple[Tensor, Tensor]:
        bounds = torch.randint(0, length, (batch, count, 2)).sort(-1).values
        return torch.randn(batch, length, _WIDTH), bounds

    dynamic = ({0: "batch", 1: "length"}, {0: "batch", 1: "spans"})
    return Case(module(forward), inputs, (2, 6, 3), [(1, 4, 1), (3, 9, 4)], dynamic)


@form("lists", "each element from the last one, as often as data say")
def decayed() -> Case:
    def forward(x: Tensor, lengths: Tensor) -> Tensor:
        states = [x[:, 0]]
        for step in range(1, int(lengths.max())):
            states.append(states[-1] * 0.5 + x[:, step])
        return torch.stack(states, 1)

    return of_rows(forward)


@form("lists", "a cache that grows until a token ends it")
def growing_cache() -> Case:
    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(6, _WIDTH)
            self.key, self.value, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 6)

        def forward(self, token: Tensor) -> tuple[Tensor, Tensor]:
            keys = values = token.new_zeros(0, _WIDTH, dtype=torch.float32)
            tokens = []
            for _ in range(8):
                x = self.embedding(token)
                keys = torch.cat([keys, self.key(x)])
                values = torch.cat([values, self.value(x)])
                token = self.head(softmax(x @ keys.T, -1) @ values).argmax(-1)
                tokens.append(token)
                if int(token) == 0:
                    break
            return torch.cat(tokens), keys

    torch.manual_seed(3)
    return Case(Decoder(), lambda token: (torch.tensor([token]),), (1,), [(2,), (3,), (4,), (5,), (0,)])


@form("lists", "repeated labels and blanks taken out")
def collapsed() -> Case:
    def forward(scores: Tensor) -> Tensor:
        labels, last = [], -1
        for label in scores.argmax(-1).tolist():
            if label not in (last, 0):
                labels.append(label)
            last = label
        return torch.tensor(labels, dtype=torch.int64)

    return Case(module(forward), lambda steps: (torch.randn(steps, 4),), (7,), [(1,), (12,), (30,)], ({0: "steps"},))


@form("lists", "two lists from pairs, with zip(*pairs)")
def transposed() -> Case:
    def forward(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        sums, lengths = zip(*[(each.sum(0), each.new_tensor(float(len(each)))) for each in parts], strict=True)
        return torch.stack(sums), torch.stack(lengths)

    return of_parts(forward)


@form("lists", "map over the parts")
def mapped() -> Case:
    return of_parts(lambda parts: torch.stack(list(map(lambda each: each.mean(0), parts))))  # noqa: C417 - the form is map of a lambda


@form("lists", "functools.reduce over the parts")
def reduced() -> Case:
    return of_parts(lambda parts: functools.reduce(torch.maximum, [each.sum(0) for each in parts]))


@form("lists", "offsets by itertools.accumulate")
def accumulated() -> Case:
    def forward(x: Tensor, lengths: Tensor) -> Tensor:
        ends = list(itertools.accumulate(lengths.tolist()))
        starts = [0, *ends[:-1]]
        return torch.stack([x[start:end].amax(0) for start, end in zip(starts, ends, strict=True)])

    return Case(module(forward), some_parts, (2, 4, 3), [(3,), (1, 5, 2), (6, 1)], ({0: "rows"}, {0: "parts"}))


@form("lists", "tensor_split at bounds that are a tensor")
def split_at_bounds() -> Case:
    def forward(x: Tensor, bounds: Tensor) -> Tensor:
        return torch.stack([each.sum(0) for each in torch.tensor_split(x, bounds)])

    def inputs(length: int, *bounds: int) -> tuple[Tensor, Tensor]:
        return torch.randn(length, _WIDTH), torch.tensor(bounds)

    return Case(module(forward), inputs, (8, 3, 5), [(4, 0, 4), (9, 2, 8), (6, 3, 3)], ({0: "length"}, None))


@form("lists", "parts in two lists by a condition on each")
def two_groups() -> Case:
    def forward(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        groups: dict[str, list[Tensor]] = {"short": [torch.zeros(_WIDTH)], "long": [torch.ones(_WIDTH)]}
        for each in parts:
            groups["short" if each.shape[0] < 3 else "long"].append(each.mean(0))
        return torch.stack(groups["short"]), torch.stack(groups["long"])

    return of_parts(forward)


@form("lists", "the parts that are long enough")
def filtered() -> Case:
    return of_parts(lambda parts: torch.cat([each for each in parts if each.shape[0] > 1] + [torch.zeros(1, _WIDTH)]))


@form("lists", "in reverse order, with insert at the begin")
def inserted() -> Case:
    def forward(parts: Sequence[Tensor]) -> Tensor:
        rows: list[Tensor] = []
        for each in parts:
            rows.insert(0, each.sum(0))
        return torch.stack(rows)

    return of_parts(forward)


@form("lists", "gone over in reverse")
def backwards() -> Case:
    def forward(parts: Sequence[Tensor]) -> Tensor:
        state, states = torch.zeros(_WIDTH), []
        for each in reversed(parts):
            state = torch.tanh(state + each.mean(0))
            states.append(state)
        return torch.stack(states[::-1])

    return of_parts(forward)


@form("lists", "the last two, in a deque")
def last_two() -> Case:
    def forward(parts: Sequence[Tensor]) -> Tensor:
        recent: deque[Tensor] = deque([torch.zeros(_WIDTH), torch.zeros(_WIDTH)], maxlen=2)
        rows = []
        for each in parts:
            recent.append(each.mean(0))
            rows.append(recent[0] + 2 * recent[1])
        return torch.stack(rows)

    return of_parts(forward)


@form("lists", "numbered from 1")
def numbered() -> Case:
    return of_parts(lambda parts: torch.stack([each.sum(0) / i for i, each in enumerate(parts, start=1)]))


@form("lists", "any and all of a generator over the parts")
def any_and_all() -> Case:
    def forward(parts: Sequence[Tensor]) -> Tensor:
        x = torch.stack([each.sum(0) for each in parts])
        if any(each.shape[0] > 4 for each in parts):
            x = x * 2
        if all(each.shape[0] > 1 for each in parts):
            x = x + 1
        return x

    return of_parts(forward)


@form("lists", "states in a tuple that grows")
def tuple_of_states() -> Case:
    def forward(x: Tensor, lengths: Tensor) -> Tensor:
        states: tuple[Tensor, ...] = ()
        state = x[:, 0]
        for step in range(int(lengths.max())):
            state = torch.tanh(state + x[:, step])
            states += (state,)
        return torch.stack(states, dim=1)

    return of_rows(forward)


@form("lists", "lists of lists made flat by itertools.chain")
def chained() -> Case:
    def forward(parts: Sequence[Tensor]) -> Tensor:
        pairs = [[each.mean(0), each.amax(0)] for each in parts]
        return torch.stack(list(itertools.chain.from_iterable(pairs)))

    return of_parts(forward)


@form("lists", "lists of lists made flat by a comprehension")
def flattened() -> Case:
    def forward(parts: Sequence[Tensor]) -> Tensor:
        pairs = [[each[0], each[-1]] for each in parts]
        return torch.stack([row for pair in pairs for row in pair])

    return of_parts(forward)


@form("lists", "[tensor] * n, with n from data")
def repeated() -> Case:
    def forward(x: Tensor, count: Tensor) -> Tensor:
        return torch.stack([x.mean(0)] * int(count) + [x[0]])

    def inputs(length: int, count: int) -> tuple[Tensor, Tensor]:
        return torch.randn(length, _WIDTH), torch.tensor(count)

    return Case(module(forward), inputs, (5, 3), [(2, 1), (4, 0), (7, 6)], ({0: "length"}, None))


@form("lists", "a block for each part on the diagonal")
def block_diagonal() -> Case:
    return of_parts(lambda parts: torch.block_diag(*[each @ each.T for each in parts]))


@form("lists", "a mask that is written for each packed sequence")
def packed_mask() -> Case:
    def forward(x: Tensor, lengths: Tensor) -> Tensor:
        ends = lengths.cumsum(0)
        mask = x.new_full((x.shape[0], x.shape[0]), float("-inf"))
        start = 0
        for i in range(ends.shape[0]):
            end = int(ends[i])
            mask[start:end, start:end] = 0
            start = end
        return softmax(x @ x.T + mask, -1) @ x

    return Case(module(forward), some_parts, (2, 4, 3), [(3,), (1, 5, 2), (6, 1)], ({0: "rows"}, {0: "parts"}))


@form("lists", "bounds of two lists at once")
def two_lists() -> Case:
    def forward(x: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
        return torch.stack([x[a:b].sum(0) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)])

    def inputs(length: int, *bounds: int) -> tuple[Tensor, Tensor, Tensor]:
        both = torch.tensor(bounds).view(2, -1)
        return torch.randn(length, _WIDTH), both[0], both[1]

    dynamic = ({0: "length"}, {0: "spans"}, {0: "spans"})
    return Case(module(forward), inputs, (9, 0, 3, 2, 9), [(4, 1, 4), (6, 0, 1, 5, 2, 1, 6)], dynamic)


@form("lists", "the row with the best score of each part")
def best_of_parts() -> Case:
    return of_parts(lambda parts: torch.stack([each[each[:, 0].argmax()] for each in parts]))


@form("lists", "lengths and sums as a tensor of numbers")
def tensors_of_numbers() -> Case:
    def forward(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        return torch.tensor([len(each) for each in parts]), torch.stack([each.sum() for each in parts])

    return of_parts(forward)


@form("lists", "three parts by name")
def three_by_name() -> Case:
    def forward(x: Tensor, lengths: Tensor) -> Tensor:
        first, second, third = x.split(lengths.tolist())
        return torch.cat([third, first * 2, second.flip(0)])

    return Case(module(forward), some_parts, (2, 4, 3), [(3, 1, 1), (1, 5, 2), (0, 6, 1)], ({0: "rows"}, None))


@form("lists", "each of three layers with its part")
def layer_of_part() -> Case:
    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(_WIDTH, 3) for _ in range(3))

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            return torch.cat([layer(each) for layer, each in zip(self.layers, x.split(lengths.tolist()), strict=True)])

    return Case(Layers(), some_parts, (2, 4, 3), [(3, 1, 1), (1, 5, 2), (2, 0, 1)], ({0: "rows"}, None))


@form("lists", "each row reversed up to its length, then padded")
def reversed_rows() -> Case:
    def forward(x: Tensor, lengths: Tensor) -> Tensor:
        return pad_sequence([row[:n].flip(0) for row, n in zip(x, lengths.tolist(), strict=True)], True, -1.0)

    return of_rows(forward)


@form("lists", "a recurrent network over each part, its last state")
def recurrent_over_parts() -> Case:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.GRU(_WIDTH, 3, batch_first=True)

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            return torch.cat([self.rnn(each.unsqueeze(0))[1][0] for each in x.split(lengths.tolist())])

    return Case(Encoder(), some_parts, (2, 4, 3), [(3,), (1, 5, 2), (6, 1)], ({0: "rows"}, {0: "parts"}))


@form("lists", "attention within each part, with a norm of the part")
def attention_in_parts() -> Case:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.attention = nn.LayerNorm(_WIDTH), nn.MultiheadAttention(_WIDTH, 2, batch_first=True)

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            mixed = []
            for each in torch.split(self.norm(x), lengths.tolist()):
                rows = each[None]
                mixed.append(self.attention(rows, rows, rows, need_weights=False)[0].squeeze(0))
            return x + torch.cat(mixed, dim=0)

    return Case(Attention(), some_parts, (2, 4, 3), [(3,), (1, 5, 2), (6, 1)], ({0: "rows"}, {0: "parts"}))


@form("lists", "crops of an image at boxes from data, scaled to one size")
def crops() -> Case:
    def forward(image: Tensor, boxes: Tensor) -> Tensor:
        parts = []
        for left, top, right, bottom in boxes.tolist():
            crop = image[:, top:bottom, left:right].unsqueeze(0)
            parts.append(nn.functional.interpolate(crop, size=(4, 4), mode="bilinear", align_corners=False))
        return torch.cat(parts)

    def inputs(height: int, width: int, *boxes: int) -> tuple[Tensor, Tensor]:
        return torch.randn(3, height, width), torch.tensor(boxes).view(-1, 4)

    dynamic = ({1: "h", 2: "w"}, {0: "boxes"})
    others = [(6, 8, 1, 2, 7, 6), (9, 9, 0, 0, 9, 9, 3, 3, 4, 4, 2, 5, 8, 7)]
    return Case(module(forward), inputs, (8, 10, 0, 1, 4, 5, 2, 2, 9, 8), others, dynamic)


@form("lists", "points of each sample, the nearest ones by topk")
def nearest_of_parts() -> Case:
    def forward(parts: Sequence[Tensor]) -> Tensor:
        rows = []
        for each in parts:
            distances = torch.cdist(each[None], each[None])[0]
            rows.append(distances.topk(min(2, each.shape[0]), largest=False).values.amax(0).sum()[None])
        return torch.cat(rows)

    return of_parts(forward)
