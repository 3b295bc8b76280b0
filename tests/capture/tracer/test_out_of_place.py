"""Captured graphs without in-place operators, made from their nodes, against the model as it writes."""

from __future__ import annotations

import random

import pytest
import torch
from helpers.matching import assert_matches

from opbridge.capture import capture
from opbridge.capture.tracer.out_of_place import out_of_place
from opbridge.capture.tracer.writes import written_by


def _assert_same(function, *args, others=(), understood=True, dynamic_shapes=None):
    """The rewritten graph gives what the function gives, and holds no writes."""
    graph = capture(function, args, dynamic_shapes=dynamic_shapes).graph
    rewritten = out_of_place(graph)
    assert (rewritten is not None) == understood
    if rewritten is None:
        return
    assert not any(written_by(node) for node in rewritten.graph.nodes if node.op == "call_function")
    rewritten.graph.lint()
    _assert_gives(rewritten, function, args)
    for each in others:
        _assert_gives(rewritten, function, each)


def _assert_gives(graph, function, args):
    leaves = iter([each.clone() if isinstance(each, torch.Tensor) else each for each in args])
    by_node = {leaf.node: value for leaf, value in zip(graph.inputs, leaves, strict=True)}
    given = [
        graph.weights[node].tensor if node in graph.weights else by_node[node]
        for node in graph.graph.nodes
        if node.op == "placeholder"
    ]
    found = torch.fx.Interpreter(graph.module).run(*given)
    expected = function(*(each.clone() if isinstance(each, torch.Tensor) else each for each in args))
    expected = expected if isinstance(expected, tuple) else (expected,)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, equal_nan=True)


def _parts_of_parts(x):
    y = x.clone()
    y[1:3][:, 1:][0] = 7
    y[..., 2, :2] += y[..., :2, 0]
    return y


def _overlapping_slices(x):
    y = x.clone()
    upper, lower = y[:3], y[1:]
    upper.mul_(2)
    lower.add_(upper.clone())
    upper[2] -= lower[0]
    return upper, lower, y


def _shifted_onto_itself(x):
    y = x.clone()
    y[1:] = y[:-1].clone()
    y[:, 0] = y[:, 1]
    return y


def _read_before_and_after(x):
    y = x.clone()
    view = y.view(2, 8)
    before = view + 1
    y[0, 0] = 100
    between = view + 1
    view[1].zero_()
    return before, between, y.sum(), view


def _write_into_an_input(x):
    row = x[1]
    x.add_(1)
    row.mul_(3)
    return x * 1, row + 0


def _through_transposes(x):
    y = x.clone()
    y.t()[0] = 1
    y.permute(1, 0)[2:].neg_()
    y.unsqueeze(1).squeeze(1).transpose(0, 1)[1].add_(2)
    return y, y.view(-1), y.mT


def _through_reshapes(x):
    y = x.clone()
    y.reshape(2, 2, 4)[:, 1] = 3
    y.flatten()[5:7] = y.flatten()[:2]
    y.unflatten(1, (2, 2))[:, :, 0] *= 2
    return y


def _through_splits(x):
    y = x.clone()
    first, second = y.chunk(2, 1)
    first.copy_(second)
    rows = y.unbind(0)
    rows[2].add_(rows[1])
    y.split([1, 3])[1].mul_(2)
    return y, first, rows[2]


def _diagonal(x):
    y = x.clone()
    y.diagonal(1).fill_(4)
    return y, y.diagonal()


def _other_dtypes(x):
    y = torch.zeros(4, 4, dtype=torch.int64)
    y[1] = x[0]
    z = torch.zeros(4, 4, dtype=torch.float64)
    z[:, 1:].copy_(x[:, :3])
    return y, z


def _broadcast(x):
    y = torch.empty_like(x)
    y[:] = x[0]
    y[1:] = 2.5
    y[:, 3] = x[0, 0]
    return y


def _steps(x):
    y = x.clone()
    y[::2, 1::2] = y[1::2, ::2]
    y[-1] = 0
    y[-3:-1, :-2] *= 2
    return y


def _copies_with_other_strides(x):
    y = x.clone()
    part = y[0]
    part.copy_(x.t()[1])
    y.copy_(x.t())
    return y.view(-1), part.view(2, 2)


def _source_written_later(x):
    y, z = x.clone(), torch.zeros(4, 4)
    z.copy_(y)
    y.add_(1)
    z[0].add_(y[0])
    return y, z


def _masked(x):
    y = x.clone()
    y[1:].masked_fill_(x[1:] > 0, 9)
    y[y < 0] = 0
    y[0][torch.tensor([0, 2])] = -1.0
    return y


def _in_evaluation(x):
    y = x.clone()
    same = torch.dropout(y, 0.3, False)
    same[0] = 1
    return y.contiguous(), y.to(torch.float32).add_(1), same


def _expanded(x):
    y = x.clone()
    wide = y[:, :1].expand(4, 3)
    y[0] = 5
    return wide * 1


def _written_whole(x):
    y = torch.empty_like(x)
    y[:, :] = x
    y[...] = y + 1
    return y


_FUNCTIONS = [
    _parts_of_parts,
    _overlapping_slices,
    _shifted_onto_itself,
    _read_before_and_after,
    _write_into_an_input,
    _through_transposes,
    _through_reshapes,
    _through_splits,
    _diagonal,
    _other_dtypes,
    _broadcast,
    _steps,
    _copies_with_other_strides,
    _source_written_later,
    _masked,
    _in_evaluation,
    _expanded,
    _written_whole,
]


@pytest.mark.parametrize("function", _FUNCTIONS)
def test_values_are_those_of_the_model(function):
    _assert_same(function, torch.randn(4, 4), others=[(torch.randn(4, 4),), (torch.full((4, 4), torch.nan),)])


@pytest.mark.slow
@pytest.mark.parametrize("function", _FUNCTIONS)
def test_files_give_what_the_model_gives(function):
    assert_matches(function, torch.randn(4, 4), others=[(torch.randn(4, 4),)])


def _rows(x):
    y = torch.zeros_like(x)
    for i in range(3):
        y[:, i, :i] = x[:, i, :i].clone() + y[:, :i, 0]
    y[:, -1:] = y.sum(1, keepdim=True)
    return y.view(-1), y


@pytest.mark.slow
def test_dynamic_sizes():
    others = [(torch.randn(size, 4, 4),) for size in (1, 2, 5)]
    _assert_same(_rows, torch.randn(3, 4, 4), others=others, dynamic_shapes=({0: "n"},))
    assert_matches(_rows, torch.randn(3, 4, 4), others=others, dynamic_shapes=({0: "n"},))


def _resized(x):
    y = x.clone()
    y[0].unsqueeze_(0)
    y[1] = 2
    return y


def _strided(x):
    y = x.clone()
    y.as_strided((2, 2), (1, 1)).add_(1)
    return y


def _windows(x):
    y = x.clone()
    y.unfold(0, 2, 2)[0].mul_(2)
    return y


def _promoted(x):
    y = x.clone()
    y[0].add_(torch.ones(4, dtype=torch.float64))
    return y


@pytest.mark.parametrize("function", [_resized, _strided, _windows, _promoted])
def test_what_is_not_understood_is_left_to_torch(function):
    _assert_same(function, torch.randn(4, 4), understood=False)


def test_reading_windows_of_what_is_written_to():
    def model(x):
        y = x.clone()
        windows = y.unfold(0, 2, 1)
        y[1] = 5
        return windows * 2

    _assert_same(model, torch.randn(4, 4))


class _Program:
    """A function that writes to views of its argument at random, the same each time that it is called."""

    def __init__(self, seed):
        self._seed = seed

    def __call__(self, x):
        draw = random.Random(self._seed)
        tensors, results = [x.clone(), x * 2, x], []
        for _ in range(draw.randint(4, 14)):
            chosen = draw.choice(tensors)
            kind = draw.random()
            if kind < 0.5:
                tensors.append(_view(draw, chosen))
            elif kind < 0.85:
                _write(draw, chosen, draw.choice(tensors))
            else:
                results.append(draw.choice(tensors) + 1)
        return (*results, *(each * 1 for each in tensors))


def _view(draw, x):
    dim = draw.randrange(x.dim()) if x.dim() else 0
    views = [
        lambda: x.select(dim, draw.randrange(-x.shape[dim], x.shape[dim])),
        lambda: x.narrow(dim, 1, x.shape[dim] - 1),
        lambda: x[draw.choice([slice(None), slice(1, None), slice(None, -1), slice(None, None, 2)])],
        lambda: x.transpose(0, -1),
        lambda: x.unsqueeze(dim),
        lambda: x.squeeze(),
        lambda: x.reshape(-1),
        lambda: x.expand(x.shape),
        lambda: x.unbind(dim)[draw.randrange(x.shape[dim])],
        lambda: x.split(2, dim)[0],
        lambda: x.detach(),
    ]
    return draw.choice(views)() if x.dim() and x.shape[dim] > 1 else x.unsqueeze(0)


def _write(draw, x, other):
    writes = [
        lambda: x.add_(1),
        lambda: x.mul_(0.5),
        lambda: x.zero_(),
        lambda: x.fill_(3),
        lambda: x.copy_(other if other.shape == x.shape else other.sum()),
        lambda: x.copy_(other.clone() if other.shape == x.shape else other.max()),
        lambda: x.add_(other.mean()),
        lambda: x.masked_fill_(x > 0, 2),
    ]
    draw.choice(writes)()


@pytest.mark.parametrize("seed", range(30))
def test_random_programs(seed):
    program = _Program(seed)
    x = torch.randn(3, 4, 2)
    try:
        program(x.clone())
    except RuntimeError:  # PyTorch refuses to write to memory that partly is what it reads
        pytest.skip("PyTorch refuses the program")
    _assert_same(lambda x: program(x), x)
