"""Recurrent layers and their cells."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dtypes import cast, const
from opbridge.translations.lib.packed_sequences import packed, padded_form
from opbridge.translations.nn.projected_lstm import projected_layers
from opbridge.translations.registry import builtin

# The order of ONNX's gates, by their places in torch's: input, output, forget, cell of torch's input, forget, cell,
# output; update, reset, new of torch's reset, update, new.
_LSTM_GATES = (0, 3, 1, 2)
_GRU_GATES = (1, 0, 2)

_PLAIN = frozenset({ir.DataType.BFLOAT16, ir.DataType.FLOAT, ir.DataType.FLOAT16})


@builtin("aten::lstm.input")
def lstm(
    input,
    hx,
    params,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
):
    """lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool
    train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)
    """
    directions = 2 if bidirectional else 1
    if len(params) == num_layers * directions * (5 if has_biases else 3):
        _refuse_other_numbers(input, num_layers, dropout, train)
        return projected_layers(input, hx, params, has_biases, num_layers, directions, batch_first)
    return _layers(
        "LSTM", _LSTM_GATES, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    )


@builtin("aten::gru.input")
def gru(
    input,
    hx,
    params,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
):
    """gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train,
    bool bidirectional, bool batch_first) -> (Tensor, Tensor)
    """
    return _layers(
        "GRU", _GRU_GATES, input, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    )


@builtin("aten::rnn_tanh.input")
def rnn_tanh(
    input,
    hx,
    params,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
):
    """rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool
    train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)
    """
    return _layers(
        "Tanh", (0,), input, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    )


@builtin("aten::rnn_relu.input")
def rnn_relu(
    input,
    hx,
    params,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
):
    """rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool
    train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)
    """
    return _layers(
        "Relu", (0,), input, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    )


@builtin("aten::lstm.data")
def lstm_data(
    data,
    batch_sizes,
    hx,
    params,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
):
    """lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float
    dropout, bool train, bool bidirectional) -> (Tensor, Tensor, Tensor)
    """
    _refuse_projections(params, has_biases, num_layers, bidirectional)
    return _packed_layers(
        "LSTM", _LSTM_GATES, data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional
    )


@builtin("aten::gru.data")
def gru_data(
    data,
    batch_sizes,
    hx,
    params,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
):
    """gru.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float
    dropout, bool train, bool bidirectional) -> (Tensor, Tensor)
    """
    return _packed_layers(
        "GRU", _GRU_GATES, data, batch_sizes, [hx], params, has_biases, num_layers, dropout, train, bidirectional
    )


@builtin("aten::rnn_tanh.data")
def rnn_tanh_data(
    data,
    batch_sizes,
    hx,
    params,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
):
    """rnn_tanh.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float
    dropout, bool train, bool bidirectional) -> (Tensor, Tensor)
    """
    return _packed_layers(
        "Tanh", (0,), data, batch_sizes, [hx], params, has_biases, num_layers, dropout, train, bidirectional
    )


@builtin("aten::rnn_relu.data")
def rnn_relu_data(
    data,
    batch_sizes,
    hx,
    params,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
):
    """rnn_relu.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float
    dropout, bool train, bool bidirectional) -> (Tensor, Tensor)
    """
    return _packed_layers(
        "Relu", (0,), data, batch_sizes, [hx], params, has_biases, num_layers, dropout, train, bidirectional
    )


@builtin("aten::lstm_cell")
def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor,
    Tensor)
    """
    hidden, cell = hx
    gates = _linear(input, w_ih, b_ih) + _linear(hidden, w_hh, b_hh)
    enter, forget, new, leave = op.Split(gates, num_outputs=4, axis=-1)
    cell = op.Sigmoid(forget) * cell + op.Sigmoid(enter) * op.Tanh(new)
    return op.Sigmoid(leave) * op.Tanh(cell), cell


@builtin("aten::gru_cell")
def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor"""
    reset, update, new = op.Split(_linear(input, w_ih, b_ih), num_outputs=3, axis=-1)
    reset_hidden, update_hidden, new_hidden = op.Split(_linear(hx, w_hh, b_hh), num_outputs=3, axis=-1)
    update = op.Sigmoid(update + update_hidden)
    new = op.Tanh(new + op.Sigmoid(reset + reset_hidden) * new_hidden)
    return (hx - new) * update + new


@builtin("aten::rnn_tanh_cell")
def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None,
    Tensor? b_hh=None) -> Tensor"""
    return op.Tanh(_linear(input, w_ih, b_ih) + _linear(hx, w_hh, b_hh))


@builtin("aten::rnn_relu_cell")
def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None,
    Tensor? b_hh=None) -> Tensor"""
    return op.Relu(_linear(input, w_ih, b_ih) + _linear(hx, w_hh, b_hh))


def _refuse_projections(params: Sequence[Any], has_biases: bool, num_layers: int, bidirectional: bool) -> None:
    if len(params) != num_layers * (2 if bidirectional else 1) * (4 if has_biases else 2):
        raise TranslationError(
            "A packed LSTM with proj_size is not supported in ONNX. Use the layer without proj_size, or pad "
            "the sequences."
        )


def _packed_layers(
    kind: str, gates: Sequence[int], data: Any, batch_sizes: Any, hx: Sequence[Any], *settings: Any
) -> tuple[Any, ...]:
    """A stack of layers that is given packed sequences: the output, packed, and the last state of each kind.

    Args:
        kind: As for `_layers`, as are `gates` and `hx`.
        gates: The order of the gates.
        data: The steps of the sequences, packed.
        batch_sizes: How many sequences have each step.
        hx: The first states.
        settings: From `params` to `bidirectional`, as `_layers` takes them.
    """
    sequences = padded_form(data, batch_sizes)
    lengths = cast(sequences.lengths, ir.DataType.INT32)
    given: list[Any] = [kind, gates, sequences.values, hx, *settings, False, lengths]  # False: steps come first
    output, *states = _layers(*given)
    return packed(dataclasses.replace(sequences, values=output, is_zero=True)), *states


def _layers(
    kind: str,
    gates: Sequence[int],
    input: Any,
    hx: Sequence[Any],
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    lengths: Any = None,
) -> tuple[Any, ...]:
    """A stack of layers: the output, and the last state of each kind.

    Args:
        kind: "LSTM", "GRU", or the activation of a plain layer, "Tanh" or "Relu".
        gates: The order that ONNX wants torch's gates in.
        input: Of shape (length, batch, features), or the first two the other way round.
        hx: The first states, each of shape (layers x directions, batch, features).
        params: Weights and biases of each layer and direction, in turn.
        has_biases: Whether there are biases.
        num_layers: How many layers there are.
        dropout: The dropout between layers; of meaning in training only.
        train: Whether the model is in training.
        bidirectional: Whether each layer runs in both directions.
        batch_first: Whether the batch is the input's first dimension.
        lengths: The lengths of the sequences of the batch, int32; by default, each has all steps of the input.
    """
    _refuse_other_numbers(input, num_layers, dropout, train)
    directions = 2 if bidirectional else 1
    width = params[1].shape[1]
    per_direction = 4 if has_biases else 2
    current = op.Transpose(input, perm=[1, 0, 2]) if batch_first else input
    last: list[list[Any]] = [[] for _ in hx]
    for layer in range(num_layers):
        first = layer * directions
        groups = [params[index * per_direction :][:per_direction] for index in range(first, first + directions)]
        weights, recurrences = (_stack_directions([group[place] for group in groups], gates, width) for place in (0, 1))
        biases = None
        if has_biases:
            both = (_stack_directions([group[place] for group in groups], gates, width) for place in (2, 3))
            biases = op.Concat(*both, axis=1)
        states = [state if num_layers == 1 else op.Slice(state, [first], [first + directions], [0]) for state in hx]
        output, *after = _layer(kind, current, weights, recurrences, biases, lengths, states, width, directions)
        if bidirectional:
            # (length, direction, batch, features): the features of both directions side by side.
            current = op.Reshape(op.Transpose(output, perm=[0, 2, 1, 3]), [0, 0, 2 * width])
        else:
            current = op.Squeeze(output, [1])
        for collected, state in zip(last, after, strict=True):
            collected.append(state)
    if batch_first:
        current = op.Transpose(current, perm=[1, 0, 2])
    return (current, *(op.Concat(*states, axis=0) if num_layers > 1 else states[0] for states in last))


def _refuse_other_numbers(input: Any, num_layers: int, dropout: float, train: bool) -> None:
    if train and dropout and num_layers > 1:
        raise TranslationError("A recurrent layer with dropout is random. Call model.eval() first.")
    if input.dtype == ir.DataType.DOUBLE:
        raise TranslationError(
            "ONNX Runtime supports recurrent layers only in float32. Convert the model with .float() before exporting."
        )


def _layer(
    kind: str,
    input: Any,
    weights: Any,
    recurrences: Any,
    biases: Any,
    lengths: Any,
    states: Sequence[Any],
    width: int,
    directions: int,
) -> Sequence[Any]:
    """One layer: its outputs of shape (length, directions, batch, features), and its last states."""
    direction = "bidirectional" if directions == 2 else "forward"
    arguments = (input, weights, recurrences, biases, lengths, *states)
    if kind == "LSTM":
        return op.LSTM(*arguments, hidden_size=width, direction=direction)
    if kind == "GRU":
        return op.GRU(*arguments, hidden_size=width, direction=direction, linear_before_reset=1)
    return op.RNN(*arguments, hidden_size=width, direction=direction, activations=[kind] * directions)


def _stack_directions(weights: Sequence[Any], gates: Sequence[int], width: int) -> Any:
    """The weights of both directions, each with its gates in ONNX's order, as (directions, gates x features, ...)."""
    known = [_numbers_of(weight) for weight in weights]
    if all(array is not None for array in known):
        parts = [array[gate * width : (gate + 1) * width] for array in known for gate in gates]
        return const(np.concatenate(parts).reshape(len(weights), -1, *known[0].shape[1:]), weights[0].dtype)
    ordered = [op.Unsqueeze(_reordered(weight, gates, width), [0]) for weight in weights]
    return op.Concat(*ordered, axis=0) if len(ordered) > 1 else ordered[0]


def _numbers_of(weight: Any) -> Any:
    """A weight's numbers, where they are known at export."""
    data = getattr(weight, "const_value", None)
    return None if data is None or weight.dtype not in _PLAIN else data.numpy()


def _reordered(weight: Any, gates: Sequence[int], width: int) -> Any:
    if len(gates) == 1:
        return weight
    parts = [op.Slice(weight, [gate * width], [(gate + 1) * width], [0]) for gate in gates]
    return op.Concat(*parts, axis=0)


def _linear(input: Any, weight: Any, bias: Any) -> Any:
    """The linear part of a cell; the input has a batch dimension or none."""
    if len(input.shape) == 2:
        return op.Gemm(input, weight, bias, transB=1)
    product = op.MatMul(input, op.Transpose(weight, perm=[1, 0]))
    return product if bias is None else product + bias
