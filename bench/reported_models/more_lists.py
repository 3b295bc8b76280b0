"""More lists that only data decide, of which many are harder: algorithms that people write as loops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, pad_sequence

from reported_models.lists import of_parts, of_rows, some_parts
from reported_models.report import Case, form, module


@form("more lists", "None for each part, then filled by indices")
def filled_by_index() -> Case:
    def forward(parts: list[Tensor]) -> Tensor:
        means: list[Tensor | None] = [None] * len(parts)
        for i, each in enumerate(parts):
            means[i] = each.mean(0)
        return torch.stack(means)

    return of_parts(forward)


@form("more lists", "a queue from which the first is taken until it is empty")
def queue() -> Case:
    def forward(parts: list[Tensor]) -> Tensor:
        waiting, done = list(parts), []
        while waiting:
            done.append(waiting.pop(0).sum(0))
        return torch.stack(done)

    return of_parts(forward)


@form("more lists", "the longest part, by max with a key")
def longest_part() -> Case:
    return of_parts(lambda parts: max(parts, key=len).mean(0))


@form("more lists", "the indices of the parts, sorted by their lengths")
def sorted_indices() -> Case:
    def forward(x: Tensor, lengths: Tensor) -> Tensor:
        sizes = lengths.tolist()
        order = sorted(range(len(sizes)), key=lambda i: sizes[i], reverse=True)
        return torch.tensor(order)

    return Case(module(forward), some_parts, (2, 4, 3), [(3,), (1, 5, 2), (6, 1)], ({0: "rows"}, {0: "parts"}))


@form("more lists", "every second part")
def every_second() -> Case:
    return of_parts(lambda parts: torch.stack([each.sum(0) for i, each in enumerate(parts) if i % 2 == 0]))


@form("more lists", "all but the first and the last, where there are more than two")
def inner_parts() -> Case:
    def forward(parts: list[Tensor]) -> Tensor:
        inner = parts[1:-1] if len(parts) > 2 else parts
        return torch.stack([each.mean(0) for each in inner])

    return of_parts(forward)


@form("more lists", "a loop with else, left by break")
def left_or_not() -> Case:
    def forward(parts: list[Tensor]) -> Tensor:
        total = torch.zeros(4)
        for each in parts:
            total = total + each.mean(0)
            if total.sum() > 1:
                break
        else:
            total = total - 10
        return total

    return of_parts(forward)


@form("more lists", "the first that a condition holds for, by next")
def first_of() -> Case:
    def forward(parts: list[Tensor]) -> Tensor:
        return next((each.sum(0) for each in parts if each.mean() > 0), torch.zeros(4))

    return of_parts(forward)


@form("more lists", "differences of neighbours, by zip(parts, parts[1:])")
def neighbours() -> Case:
    def forward(parts: list[Tensor]) -> Tensor:
        means = [each.mean(0) for each in parts]
        return torch.stack([means[0], *[b - a for a, b in zip(means, means[1:], strict=False)]])  # noqa: RUF007 - the form is zip of a list with its rest

    return of_parts(forward)


@form("more lists", "padded rows and their mask, written at once")
def rows_and_mask() -> Case:
    def forward(parts: list[Tensor]) -> tuple[Tensor, Tensor]:
        longest = max(each.shape[0] for each in parts)
        padded = parts[0].new_zeros(len(parts), longest, 4)
        mask = torch.zeros(len(parts), longest, dtype=torch.bool)
        for i, each in enumerate(parts):
            padded[i, : each.shape[0]].copy_(each)
            mask[i, : each.shape[0]] = True
        return padded, mask

    return of_parts(forward)


@form("more lists", "a packed sequence of the parts, through an LSTM")
def packed() -> Case:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(4, 3)

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            _, (state, _) = self.rnn(pack_sequence(x.split(lengths.tolist()), enforce_sorted=False))
            return state[0]

    return Case(Encoder(), some_parts, (2, 4, 3), [(3,), (1, 5, 2), (6, 1)], ({0: "rows"}, {0: "parts"}))


@form("more lists", "positions and numbers of packed sequences")
def positions() -> Case:
    def forward(x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        sizes = lengths.tolist()
        places = torch.cat([torch.arange(size) for size in sizes])
        numbers = torch.cat([torch.full((size,), i) for i, size in enumerate(sizes)])
        return x + places[:, None], numbers

    return Case(module(forward), some_parts, (2, 4, 3), [(3,), (1, 5, 2), (6, 1)], ({0: "rows"}, {0: "parts"}))


@form("more lists", "a generator of the model's own")
def own_generator() -> Case:
    def chunks(x: Tensor, sizes: list[int]) -> Iterator[Tensor]:
        begin = 0
        for size in sizes:
            yield x[begin : begin + size]
            begin += size

    def forward(x: Tensor, lengths: Tensor) -> Tensor:
        return torch.stack([each.mean(0) for each in chunks(x, lengths.tolist())])

    return Case(module(forward), some_parts, (2, 4, 3), [(3,), (1, 5, 2), (6, 1)], ({0: "rows"}, {0: "parts"}))


@form("more lists", "a list that is made anew in each iteration")
def made_anew() -> Case:
    def forward(parts: list[Tensor]) -> Tensor:
        found: list[Tensor] = []
        for each in parts:
            found = [*found, each.mean(0)]
        return torch.stack(found)

    return of_parts(forward)


class _Result(NamedTuple):
    mean: Tensor
    size: Tensor


@form("more lists", "named tuples in a list")
def named_tuples() -> Case:
    def forward(parts: list[Tensor]) -> tuple[Tensor, Tensor]:
        results = [_Result(each.mean(0), each.norm()) for each in parts]
        return torch.stack([each.mean for each in results]), torch.stack([each.size for each in results])

    return of_parts(forward)


@dataclass
class _Track:
    mean: Tensor
    score: Tensor


@form("more lists", "objects of a dataclass in a list")
def objects() -> Case:
    def forward(parts: list[Tensor]) -> tuple[Tensor, Tensor]:
        tracks = []
        for each in parts:
            tracks.append(_Track(each.mean(0), each.amax()))
        return torch.stack([each.mean for each in tracks]), torch.stack([each.score for each in tracks])

    return of_parts(forward)


@form("more lists", "the rows of a mask, padded")
def masked_rows() -> Case:
    def forward(x: Tensor, mask: Tensor) -> Tensor:
        return pad_sequence([row[kept] for row, kept in zip(x, mask, strict=True)], batch_first=True)

    def inputs(batch: int, length: int) -> tuple[Tensor, Tensor]:
        mask = torch.rand(batch, length) > 0.4
        mask[:, 0] = True
        return torch.randn(batch, length, 4), mask

    dynamic = {0: "batch", 1: "length"}
    return Case(module(forward), inputs, (3, 6), [(1, 4), (2, 9), (5, 1)], (dynamic, dynamic))


@form("more lists", "a recurrent cell over the rows that are still active")
def active_rows() -> Case:
    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.GRUCell(4, 3)

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            lengths, order = lengths.sort(descending=True)
            x = x[order]
            state = x.new_zeros(x.shape[0], 3)
            for step in range(int(lengths[0])):
                active = int((lengths > step).sum())
                state = torch.cat([self.cell(x[:active, step], state[:active]), state[active:]])
            return state[order.argsort()]

    case = of_rows(lambda x, lengths: x)
    return Case(Cell(), case.inputs, case.example, case.others, case.dynamic_shapes)


@form("more lists", "as many of the largest as data say, of each row")
def largest_of_rows() -> Case:
    def forward(x: Tensor, counts: Tensor) -> Tensor:
        return torch.cat([row.topk(k).values for row, k in zip(x, counts.tolist(), strict=True)])

    def inputs(batch: int, length: int) -> tuple[Tensor, Tensor]:
        return torch.randn(batch, length), torch.randint(1, length + 1, (batch,))

    dynamic = ({0: "batch", 1: "length"}, {0: "batch"})
    return Case(module(forward), inputs, (3, 6), [(1, 4), (2, 9), (5, 2)], dynamic)


@form("more lists", "the boxes around masks")
def boxes_of_masks() -> Case:
    def forward(masks: Tensor) -> Tensor:
        boxes = torch.zeros(masks.shape[0], 4)
        for i, mask in enumerate(masks):
            y, x = torch.where(mask != 0)
            boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3] = x.min(), y.min(), x.max(), y.max()
        return boxes

    def inputs(count: int, height: int, width: int) -> tuple[Tensor]:
        masks = torch.rand(count, height, width) > 0.8
        masks[:, 1, 1] = True
        return (masks,)

    return Case(module(forward), inputs, (3, 6, 7), [(1, 4, 9), (5, 8, 3)], ({0: "masks", 1: "h", 2: "w"},))


@form("more lists", "non-maximum suppression as a loop")
def suppression() -> Case:
    def forward(boxes: Tensor, scores: Tensor) -> Tensor:
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        order = scores.argsort(descending=True)
        kept = []
        while order.numel() > 0:
            best = order[0]
            kept.append(best)
            others = order[1:]
            begin = torch.maximum(boxes[best, :2], boxes[others, :2])
            end = torch.minimum(boxes[best, 2:], boxes[others, 2:])
            common = (end - begin).clamp(min=0).prod(1)
            order = others[common / (areas[best] + areas[others] - common) <= 0.5]
        return torch.stack(kept)

    def inputs(count: int) -> tuple[Tensor, Tensor]:
        corner = torch.rand(count, 2)
        return torch.cat([corner, corner + torch.rand(count, 2) + 0.1], 1), torch.rand(count)

    return Case(module(forward), inputs, (8,), [(1,), (5,), (30,)], ({0: "boxes"}, {0: "boxes"}))


@form("more lists", "Viterbi's algorithm, with the way back")
def viterbi() -> Case:
    def forward(emissions: Tensor, transitions: Tensor) -> Tensor:
        score, history = emissions[0], []
        for emission in emissions[1:]:
            best = (score[:, None] + transitions + emission[None]).max(0)
            score = best.values
            history.append(best.indices)
        tag = score.argmax()
        path = [tag]
        for pointers in reversed(history):
            tag = pointers[tag]
            path.append(tag)
        path.reverse()
        return torch.stack(path)

    def inputs(length: int) -> tuple[Tensor, Tensor]:
        return torch.randn(length, 3), torch.randn(3, 3)

    return Case(module(forward), inputs, (5,), [(2,), (9,), (14,)], ({0: "length"}, None))


@form("more lists", "the forward algorithm of a CRF, masked")
def forward_algorithm() -> Case:
    def forward(emissions: Tensor, mask: Tensor, transitions: Tensor) -> Tensor:
        score = emissions[:, 0]
        for step in range(1, emissions.shape[1]):
            following = torch.logsumexp(score[:, :, None] + transitions + emissions[:, step, None], 1)
            score = torch.where(mask[:, step, None], following, score)
        return score.logsumexp(1)

    def inputs(batch: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
        return torch.randn(batch, length, 3), torch.rand(batch, length) > 0.3, torch.randn(3, 3)

    dynamic = {0: "batch", 1: "length"}
    return Case(module(forward), inputs, (2, 5), [(1, 2), (3, 9)], (dynamic, dynamic, None))


@form("more lists", "an edit distance by two loops")
def edit_distance() -> Case:
    def forward(one: Tensor, other: Tensor) -> Tensor:
        last = torch.arange(other.shape[0] + 1)
        for i in range(one.shape[0]):
            costs = [last[0] + 1]
            for j in range(other.shape[0]):
                changed = last[j] + (one[i] != other[j]).long()
                costs.append(torch.minimum(torch.minimum(last[j + 1] + 1, costs[-1] + 1), changed))
            last = torch.stack(costs)
        return last[-1]

    def inputs(one: int, other: int) -> tuple[Tensor, Tensor]:
        return torch.randint(0, 3, (one,)), torch.randint(0, 3, (other,))

    return Case(module(forward), inputs, (4, 5), [(1, 3), (6, 2), (7, 8)], ({0: "n"}, {0: "m"}))


@form("more lists", "k-means until the centres rest")
def k_means() -> Case:
    def forward(x: Tensor) -> Tensor:
        centres = x[:3]
        for _ in range(20):
            nearest = torch.cdist(x, centres).argmin(1)
            moved = torch.stack([x[nearest == i].mean(0) for i in range(3)])
            if torch.allclose(moved, centres):
                break
            centres = moved
        return centres

    return Case(module(forward), lambda n: (torch.randn(n, 2),), (12,), [(7,), (30,)], ({0: "n"},))


@form("more lists", "Sinkhorn's iterations until the error is small")
def sinkhorn() -> Case:
    def forward(costs: Tensor) -> Tensor:
        u, v = torch.zeros(costs.shape[0]), torch.zeros(costs.shape[1])
        for _ in range(30):
            before = u
            u = -(v[None] - costs).logsumexp(1)
            v = -(u[:, None] - costs).logsumexp(0)
            if (u - before).abs().sum() < 1e-3:
                break
        return (u[:, None] + v[None] - costs).exp()

    return Case(module(forward), lambda n, m: (torch.rand(n, m),), (4, 5), [(2, 7), (6, 3)], ({0: "n", 1: "m"},))


@form("more lists", "rows by their label, in a dict of lists")
def dict_of_lists() -> Case:
    def forward(x: Tensor, labels: Tensor) -> Tensor:
        groups: dict[int, list[Tensor]] = defaultdict(list)
        for row, label in zip(x, labels.tolist(), strict=True):
            groups[label].append(row)
        return torch.stack([torch.stack(groups[label]).mean(0) for label in sorted(groups)])

    def inputs(count: int) -> tuple[Tensor, Tensor]:
        return torch.randn(count, 4), torch.randint(0, 3, (count,))

    return Case(module(forward), inputs, (8,), [(4,), (12,)], ({0: "n"}, {0: "n"}))


@form("more lists", "sums of the parts that are longer than the mean")
def longer_than_mean() -> Case:
    def forward(parts: list[Tensor]) -> Tensor:
        mean = sum(each.shape[0] for each in parts) / len(parts)
        found = [each.sum(0) for each in parts if each.shape[0] >= mean]
        return torch.stack(found)

    return of_parts(forward)


@form("more lists", "sentences of words, by two levels of lengths")
def two_levels() -> Case:
    def forward(x: Tensor, words: Tensor, sentences: Tensor) -> Tensor:
        of_words = torch.stack([each.mean(0) for each in x.split(words.tolist())])
        return torch.stack([each.amax(0) for each in of_words.split(sentences.tolist())])

    def inputs(*sizes: int) -> tuple[Tensor, Tensor, Tensor]:
        words = torch.randint(1, 4, (sum(sizes),))
        return torch.randn(int(words.sum()), 4), words, torch.tensor(sizes)

    dynamic = ({0: "pieces"}, {0: "words"}, {0: "sentences"})
    return Case(module(forward), inputs, (2, 3), [(1,), (4, 1, 2)], dynamic)


@form("more lists", "farthest points, one after another")
def farthest_points() -> Case:
    def forward(points: Tensor, count: Tensor) -> Tensor:
        distances = torch.full((points.shape[0],), 1e10)
        chosen = [torch.zeros((), dtype=torch.long)]
        for _ in range(int(count) - 1):
            distances = torch.minimum(distances, (points - points[chosen[-1]]).square().sum(1))
            chosen.append(distances.argmax())
        return points[torch.stack(chosen)]

    def inputs(size: int, count: int) -> tuple[Tensor, Tensor]:
        return torch.randn(size, 3), torch.tensor(count)

    return Case(module(forward), inputs, (9, 4), [(5, 1), (20, 7)], ({0: "points"}, None))


@form("more lists", "greedy matching of two sets, the best pair first")
def greedy_matching() -> Case:
    def forward(costs: Tensor) -> Tensor:
        pairs = []
        for _ in range(min(costs.shape)):
            best = costs.argmin()
            row, column = best // costs.shape[1], best % costs.shape[1]
            pairs.append(torch.stack([row, column]))
            costs = costs.index_fill(0, row[None], float("inf")).index_fill(1, column[None], float("inf"))
        return torch.stack(pairs)

    return Case(module(forward), lambda n, m: (torch.rand(n, m),), (4, 5), [(2, 7), (6, 3)], ({0: "n", 1: "m"},))


@form("more lists", "tokens until a stop token in each row, then padded")
def up_to_stop() -> Case:
    def forward(ids: Tensor) -> Tensor:
        found = []
        for row in ids:
            stops = (row == 0).nonzero().flatten()
            end = int(stops[0]) if stops.numel() > 0 else row.shape[0]
            found.append(row[:end])
        return pad_sequence(found, batch_first=True, padding_value=-1)

    def inputs(batch: int, length: int) -> tuple[Tensor]:
        return (torch.randint(0, 5, (batch, length)),)

    return Case(module(forward), inputs, (3, 6), [(1, 4), (4, 9), (2, 30)], ({0: "batch", 1: "length"},))


@form("more lists", "an integral over intervals, with the last value outside of the loop")
def intervals() -> Case:
    def forward(x: Tensor, lengths: Tensor) -> Tensor:
        begin, last = 0, x[0]
        for length in lengths.tolist():
            last = last * 0.5 + x[begin : begin + length].sum(0)
            begin = begin + length
        return last + begin

    return Case(module(forward), some_parts, (2, 4, 3), [(3,), (1, 5, 2), (6, 1)], ({0: "rows"}, {0: "parts"}))
