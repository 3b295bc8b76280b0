"""Sequences of several lengths: packed, through recurrent layers, and padded again."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from helpers.matching import assert_matches
from torch import nn
from torch.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
    unpad_sequence,
)

import opbridge

LAYERS: dict[str, tuple[type[nn.RNNBase], dict[str, Any]]] = {
    "LSTM": (nn.LSTM, {}),
    "GRU": (nn.GRU, {}),
    "tanh": (nn.RNN, {}),
    "relu": (nn.RNN, {"nonlinearity": "relu"}),
}

FORMS = list(itertools.product((1, 2), (False, True), (False, True), (False, True)))
"""Layers, bidirectional, batch_first, enforce_sorted."""

IN_PAIRS = [
    (1, False, False, False),
    (1, True, True, True),
    (2, False, True, True),
    (2, True, False, True),
    (2, True, True, False),
]
"""Forms with both values of each setting beside both of each other one."""

DYNAMIC = {"x": {0: "batch", 1: "steps"}, "lengths": {0: "batch"}}


class Packed(nn.Module):
    """A recurrent layer between packing and padding."""

    def __init__(
        self,
        kind: str = "LSTM",
        layers: int = 1,
        *,
        bidirectional: bool = False,
        batch_first: bool = True,
        enforce_sorted: bool = False,
        **padding: Any,
    ) -> None:
        super().__init__()
        layer, extra = LAYERS[kind]
        self.layer = layer(5, 7, layers, bidirectional=bidirectional, batch_first=batch_first, **extra)
        self.batch_first = batch_first
        self.enforce_sorted = enforce_sorted
        self.padding = padding
        self.eval()

    def forward(self, x: torch.Tensor, lengths: torch.Tensor, states: Any = None) -> Any:
        packed = pack_padded_sequence(x, lengths, self.batch_first, self.enforce_sorted)
        packed, states = self.layer(packed, states)
        return *pad_packed_sequence(packed, self.batch_first, **self.padding), states


def sequences(*lengths: int, steps: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(len(lengths), steps or max(lengths), 5), torch.tensor(lengths)


OTHERS = [sequences(1, 8, 8, 2), sequences(3, 6, 4), sequences(2), sequences(2, 1, steps=9)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "is_dynamic"), [*((kind, True) for kind in LAYERS), ("LSTM", False), ("GRU", False)])
def test_layers(kind: str, is_dynamic: bool) -> None:
    """All forms of one layer: what differs between the layers is none of what packing and padding do."""
    forms = FORMS if kind == "LSTM" and is_dynamic else IN_PAIRS
    for layers, bidirectional, batch_first, enforce_sorted in forms:

        def given(*lengths: int, steps: int = 0, time_major: bool = not batch_first) -> tuple[torch.Tensor, ...]:
            x, found = sequences(*lengths, steps=steps or None)
            return x.transpose(0, 1).contiguous() if time_major else x, found

        others = [given(5, 3, 3, steps=6)] + ([] if enforce_sorted else [given(2, 6, 5)])
        if is_dynamic:
            others += [given(8, 8, 2, 1), given(3), given(2, 1, steps=9)]
        module = Packed(
            kind, layers, bidirectional=bidirectional, batch_first=batch_first, enforce_sorted=enforce_sorted
        )
        axes = {0: "batch", 1: "steps"} if batch_first else {0: "steps", 1: "batch"}
        shapes = {"x": axes, "lengths": {0: "batch"}, "states": None} if is_dynamic else None
        assert_matches(module, *given(6, 4, 2), others=others, dynamic_shapes=shapes)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_first_states(kind: str) -> None:
    def states(batch: int) -> Any:
        made = torch.randn(4, batch, 7), torch.randn(4, batch, 7)
        return made if kind == "LSTM" else made[0]

    axes = {1: "batch"}
    shapes = {**DYNAMIC, "states": (axes, axes) if kind == "LSTM" else axes}
    others = [(*each, states(len(each[1]))) for each in OTHERS]
    module = Packed(kind, 2, bidirectional=True)
    assert_matches(module, *sequences(4, 6, 2), states(3), others=others, dynamic_shapes=shapes)


def test_a_layer_between_packing_and_padding_is_one_node_with_lengths() -> None:
    module = Packed(batch_first=False, enforce_sorted=True)
    program = opbridge.export(module, (torch.randn(6, 3, 5), torch.tensor([6, 4, 2])))
    types = [node.op_type for node in program.model.graph]
    assert types == ["Cast", "LSTM", "Squeeze", "ReduceMax", "Reshape", "Slice", "Identity"]
    (layer,) = [node for node in program.model.graph if node.op_type == "LSTM"]
    assert layer.inputs[4] is not None


def test_lengths_of_another_type() -> None:
    x, lengths = sequences(4, 6, 2)
    module = Packed("GRU")
    assert_matches(module, x, lengths.int(), others=[(x, torch.tensor([1, 2, 5]).int())])


def test_lengths_of_a_mask() -> None:
    class Masked(Packed):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> Any:  # type: ignore[override]
            return super().forward(x, mask.sum(1).cpu())

    def given(*lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
        x, found = sequences(*lengths)
        return x, torch.arange(x.shape[1]) < found[:, None]

    shapes = {"x": DYNAMIC["x"], "mask": DYNAMIC["x"]}
    assert_matches(Masked(), *given(4, 6, 2), others=[given(1, 2), given(3, 9, 9, 1)], dynamic_shapes=shapes)


def test_lengths_in_a_list_have_known_sizes() -> None:
    class Listed(Packed):
        def forward(self, x: torch.Tensor) -> Any:  # type: ignore[override]
            return super().forward(x, [3, 4, 1])[0].reshape(3, 28).relu_()  # type: ignore[arg-type]

    x = torch.randn(3, 6, 5)
    assert_matches(Listed(), x, others=[(torch.randn(3, 6, 5),)])
    assert_matches(Listed(), x, others=[(torch.randn(3, 9, 5),)], dynamic_shapes={"x": {1: "steps"}})


def test_lengths_in_a_list_of_values() -> None:
    class Listed(Packed):
        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:  # type: ignore[override]
            return super().forward(x, lengths.tolist())

    assert_matches(Listed(), *sequences(4, 6, 2), others=[sequences(3, 1, 5, steps=6)])


@pytest.mark.slow
@pytest.mark.parametrize(
    "padding", [{"total_length": 9}, {"padding_value": -2.0}, {"total_length": 9, "padding_value": 3}]
)
def test_padding(padding: dict[str, Any]) -> None:
    shapes = {**DYNAMIC, "states": None}
    assert_matches(Packed(**padding), *sequences(4, 6, 2), others=OTHERS, dynamic_shapes=shapes)
    assert_matches(Packed(**padding), *sequences(4, 6, 2), others=[sequences(1, 5, 2, steps=6)])


def test_padding_to_the_length_of_the_input() -> None:
    def padded(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = pack_padded_sequence(x, lengths, True, False)
        return pad_packed_sequence(packed, True, 1.0, x.shape[1])

    assert_matches(padded, *sequences(4, 6, 2), others=OTHERS, dynamic_shapes=DYNAMIC)
    assert_matches(padded, *sequences(4, 6, 2), others=[sequences(1, 5, 2, steps=6)])


@pytest.mark.slow
def test_the_packed_form_itself() -> None:
    def packed(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        found = pack_padded_sequence(x, lengths, True)
        return found.data * 2, found.batch_sizes

    assert_matches(packed, *sequences(6, 4, 2), others=[sequences(5, 5, 4, 1)], dynamic_shapes=DYNAMIC)
    integers = torch.randint(9, (4, 5))
    assert_matches(packed, integers, torch.tensor([5, 5, 2, 1]), others=[(integers, torch.tensor([3, 2, 1, 1]))])


def test_layers_of_the_packed_form() -> None:
    class Layers(Packed):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = nn.Linear(5, 5), nn.Linear(7, 2)

        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:  # type: ignore[override]
            packed = pack_padded_sequence(x, lengths, True, False)
            packed, _ = self.layer(PackedSequence(self.before(packed.data).relu_(), *packed[1:]))
            return pad_packed_sequence(PackedSequence(self.after(packed.data), *packed[1:]), True, -3.0)

    assert_matches(Layers(), *sequences(4, 6, 2), others=OTHERS, dynamic_shapes=DYNAMIC)


@pytest.mark.slow
def test_packed_again() -> None:
    class Twice(Packed):
        def __init__(self) -> None:
            super().__init__()
            self.second = nn.GRU(10, 3, batch_first=True)

        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:  # type: ignore[override]
            x, lengths, _ = super().forward(x, lengths)
            x = torch.cat([x.tanh(), x[..., :3]], -1)
            return self.second(pack_padded_sequence(x, lengths, True, False))[1]

    assert_matches(Twice(), *sequences(4, 6, 2), others=OTHERS, dynamic_shapes=DYNAMIC)


@pytest.mark.parametrize("kind", LAYERS)
def test_packed_sequences_as_inputs(kind: str) -> None:
    class Given(Packed):
        def forward(self, data: torch.Tensor, batch_sizes: torch.Tensor) -> Any:  # type: ignore[override]
            packed, states = self.layer(PackedSequence(data, batch_sizes))
            return *pad_packed_sequence(packed, True), states

    shapes = {"data": {0: "count"}, "batch_sizes": {0: "steps"}}
    others = [(torch.randn(7, 5), torch.tensor([3, 3, 1])), (torch.randn(2, 5), torch.tensor([1, 1]))]
    assert_matches(Given(kind), torch.randn(9, 5), torch.tensor([3, 3, 2, 1]), others=others, dynamic_shapes=shapes)


@pytest.mark.slow
def test_a_list_of_sequences() -> None:
    class Listed(Packed):
        def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Any:  # type: ignore[override]
            packed, states = self.layer(pack_sequence([a, b, c], enforce_sorted=False))
            return *pad_packed_sequence(packed, True), states, pad_sequence([b, c, a], padding_value=2.5)

    def given(*lengths: int) -> list[torch.Tensor]:
        return [torch.randn(length, 5) for length in lengths]

    shapes = {"a": {0: "a"}, "b": {0: "b"}, "c": {0: "c"}}
    assert_matches(Listed(), *given(4, 6, 3), others=[given(7, 2, 3)], dynamic_shapes=shapes)
    assert_matches(Listed(), *given(4, 6, 3), others=[given(4, 6, 3)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_pad_sequence(dtype: torch.dtype) -> None:
    def padded(*given: torch.Tensor) -> Any:
        return (
            pad_sequence(list(given)),
            pad_sequence(list(given), batch_first=True, padding_value=1, padding_side="left"),
        )

    def made(*lengths: int) -> list[torch.Tensor]:
        return [torch.randn(length, 2).mul(3).to(dtype) for length in lengths]

    assert_matches(padded, *made(3, 5, 2), others=[made(3, 5, 2)])
    assert_matches(padded, *made(3, 5), others=[made(4, 2)], dynamic_shapes={"given": ({0: "a"}, {0: "b"})})


@pytest.mark.slow
def test_sequences_unpacked() -> None:
    class Unpacked(Packed):
        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:  # type: ignore[override]
            packed, _ = self.layer(pack_padded_sequence(x, lengths, True, False))
            return unpack_sequence(packed), unpad_sequence(x, lengths, True)

    assert_matches(Unpacked(), *sequences(4, 6, 2), others=[sequences(1, 3, 5, steps=6)])


@pytest.mark.slow
def test_sequences_unpacked_of_as_many_as_the_batch_says() -> None:
    class Unpacked(Packed):
        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:  # type: ignore[override]
            packed, _ = self.layer(pack_padded_sequence(x, lengths, True, False))
            found, given = unpack_sequence(packed), unpad_sequence(x, lengths, True)
            return torch.cat(found), torch.stack([part.sum(0) for part in given])

    others = [sequences(1, 3, 5, steps=6), sequences(2), sequences(1, 1, 4, 2)]
    assert_matches(Unpacked(), *sequences(4, 6, 2), others=others, dynamic_shapes=DYNAMIC)


def test_a_state_of_another_batch_is_refused() -> None:
    with pytest.raises(opbridge.OpbridgeError, match=r"Expected hidden size \(1, 3, 7\), got \[1, 2, 7\]"):
        opbridge.export(Packed("GRU", enforce_sorted=True), (*sequences(6, 4, 2), torch.randn(1, 2, 7)))
