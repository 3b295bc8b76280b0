"""Losses that torch has no decomposition of, or one that is longer."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.elementwise.elementwise import log1p
from opbridge.translations.lib.dims import dim_of
from opbridge.translations.lib.dtypes import FLOATS, HALVES, cast, const, rounded, widen
from opbridge.translations.reduction.reduction import mean
from opbridge.translations.registry import builtin

_MEAN, _SUM = 1, 2


@builtin("aten::nll_loss", "aten::nll_loss2d", "aten::nll_loss_nd")
def nll_loss(self, target, weight=None, reduction: int = _MEAN, ignore_index: int = -100):
    """nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100) ->
    Tensor
    """
    return _nll(self, target, weight, reduction, ignore_index)[0]


@builtin("aten::nll_loss_forward", "aten::nll_loss2d_forward")
def nll_loss_forward(self, target, weight, reduction: int, ignore_index: int):
    """nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor
    output, Tensor total_weight)
    """
    loss, total = _nll(self, target, weight, reduction, ignore_index)
    # Without a reduction torch does not count.
    return loss, total if reduction in (_MEAN, _SUM) else const(0, self.dtype)


@builtin("aten::cross_entropy_loss")
def cross_entropy_loss(
    self, target, weight=None, reduction: int = _MEAN, ignore_index: int = -100, label_smoothing: float = 0.0
):
    """cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100,
    float label_smoothing=0.0) -> Tensor
    """
    axis = _class_axis(self)
    logs = op.LogSoftmax(self, axis=axis)
    logs.shape = self.shape
    if target.dtype in FLOATS:
        return _soft_cross_entropy(logs, target, weight, reduction, label_smoothing)
    loss, total = _nll(logs, target, weight, reduction, ignore_index)
    if not label_smoothing:
        return loss
    smooth = op.Neg(op.ReduceSum(_times_class_weight(logs, weight, len(logs.shape)), [axis], keepdims=0))
    smooth = op.Where(op.Equal(target, ignore_index), const(0, logs.dtype), smooth)
    if reduction in (_MEAN, _SUM):
        smooth = op.ReduceSum(smooth, keepdims=0)
    if reduction == _MEAN:
        smooth = smooth / total
    return loss * (1.0 - label_smoothing) + smooth * _smoothing_per_class(logs, label_smoothing)


def _nll(logs: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> tuple[Any, Any]:
    """The negative log likelihood of classes, and the sum of the weights."""
    axis = [_class_axis(logs)]
    target = op.Cast(target, to=ir.DataType.INT64)
    ignored = op.Equal(target, ignore_index)
    zero = const(0, logs.dtype)
    target = op.Where(ignored, 0, target)
    found = op.Squeeze(op.GatherElements(logs, op.Unsqueeze(target, axis), axis=axis[0]), axis)
    weights = const(1, logs.dtype) if weight is None else op.Gather(weight, target)
    losses = op.Where(ignored, zero, op.Neg(found if weight is None else found * weights))
    total = op.ReduceSum(op.Where(ignored, zero, weights), keepdims=0)
    if reduction not in (_MEAN, _SUM):
        return losses, total
    loss = op.ReduceSum(losses, keepdims=0)
    return (loss / total if reduction == _MEAN else loss), total


def _soft_cross_entropy(logs: Any, target: Any, weight: Any, reduction: int, label_smoothing: float) -> Any:
    """The cross entropy of a distribution over the classes."""
    axis = _class_axis(logs)
    target = op.CastLike(target, logs)
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + _smoothing_per_class(logs, label_smoothing)
    products = _times_class_weight(logs * target, weight, len(logs.shape))
    if reduction not in (_MEAN, _SUM):
        return op.Neg(op.ReduceSum(products, [axis], keepdims=0))
    loss = op.Neg(op.ReduceSum(products, keepdims=0))
    if reduction == _SUM:
        return loss
    rows = op.Cast(op.Size(logs), to=logs.dtype) / op.CastLike(dim_of(logs, axis).value, logs)
    return loss / rows


@builtin("aten::soft_margin_loss")
def soft_margin_loss(self, target, reduction: int = _MEAN):
    """soft_margin_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor"""
    # torch rounds each step to the type, where its decomposition does not: in float16 the power soon is infinite.
    power = op.Exp(widen(op.Neg(self) * op.CastLike(target, self)))
    if self.dtype in HALVES:
        power = rounded(power, self.dtype)
    power.shape, power.dtype = self.shape, ir.DataType.FLOAT if self.dtype in HALVES else self.dtype
    loss = cast(log1p(power), self.dtype)
    loss.shape, loss.dtype = self.shape, self.dtype
    if reduction == _MEAN:
        return mean(loss)
    return op.ReduceSum(loss, keepdims=0) if reduction == _SUM else loss


@builtin("aten::ctc_loss.Tensor", "aten::ctc_loss.IntList")
def ctc_loss(
    log_probs,
    targets,
    input_lengths,
    target_lengths,
    blank: int = 0,
    reduction: int = _MEAN,
    zero_infinity: bool = False,
):
    """ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, int
    reduction=Mean, bool zero_infinity=False) -> Tensor
    """
    # onnxscript takes its time to read the function, which few models need.
    from opbridge.translations.nn.ctc_function import ctc_forward

    is_batch = len(log_probs.shape) == 3
    emitted = log_probs if is_batch else op.Unsqueeze(log_probs, [1])
    lengths, counts = _lengths_column(input_lengths), _lengths_column(target_lengths)
    labels, places = _with_blanks(targets, counts, blank)
    two_back = op.Gather(labels, op.Max(op.Sub(places, 2), 0), axis=1)
    may_skip = op.And(op.GreaterOrEqual(places, 2), op.Not(op.Equal(labels, two_back)))
    every = op.Concat(op.Shape(emitted, start=0, end=1), op.Shape(labels), axis=0)
    emissions = op.GatherElements(emitted, op.Expand(op.Unsqueeze(labels, [0]), every), axis=2)
    nothing = const(-math.inf, log_probs.dtype)
    start = op.Where(op.Equal(places, 0), const(0, log_probs.dtype), nothing)
    start = op.Expand(start, op.Shape(labels))
    forward = ctc_forward(emissions, may_skip, lengths, start)
    # A sequence ends with its last label or with the blank after it.
    end = op.Mul(counts, 2)
    blank_end = op.GatherElements(forward, end, axis=1)
    label_end = op.GatherElements(forward, op.Max(op.Sub(end, 1), 0), axis=1)
    label_end = op.Where(op.Greater(counts, 0), label_end, nothing)
    largest = op.Max(blank_end, label_end)
    shift = op.Where(op.IsInf(largest), const(0, log_probs.dtype), largest)
    likelihood = op.Log(op.Exp(blank_end - shift) + op.Exp(label_end - shift)) + shift
    losses = op.Neg(op.Squeeze(likelihood, [1]))
    if zero_infinity:
        losses = op.Where(op.IsInf(losses), const(0, log_probs.dtype), losses)
    if reduction == _MEAN:
        counted = op.CastLike(op.Max(op.Squeeze(counts, [1]), 1), losses)
        return op.ReduceMean(op.Div(losses, counted), keepdims=0)
    if reduction == _SUM:
        return op.ReduceSum(losses, keepdims=0)
    return losses if is_batch else op.Squeeze(losses, [0])


def _lengths_column(lengths: Any) -> Any:
    """Lengths as int64 (N, 1), from a tensor or a list."""
    listed = isinstance(lengths, (list, tuple))
    values = const(list(lengths), ir.DataType.INT64) if listed else op.Cast(lengths, to=ir.DataType.INT64)
    return op.Reshape(values, [-1, 1])


def _with_blanks(targets: Any, counts: Any, blank: int) -> tuple[Any, Any]:
    """Each target with a blank before, between and after its labels (N, L), and the places 0 to L - 1.

    Args:
        targets: (N, S), or all labels in a row; what is not counted is not read, and may be anything.
        counts: How many labels each target has (N, 1).
        blank: The label of the blank.
    """
    targets = op.Cast(targets, to=ir.DataType.INT64)
    after = op.Constant(value_ints=[blank])
    if len(targets.shape) == 2:
        rows = op.Shape(targets, start=0, end=1)
        longest = op.Gather(op.Shape(targets), 1)
        ends = op.Expand(after, op.Concat(rows, [1], axis=0))
        labels = op.Concat(targets, ends, axis=1)
    else:
        longest = op.ReduceMax(counts, keepdims=0)
        first = op.Sub(op.CumSum(counts, 0), counts)
        padded = op.Concat(targets, after, axis=0)
        last = op.Sub(op.Gather(op.Shape(padded), 0), 1)
        labels = op.Gather(padded, op.Min(op.Add(first, op.Range(0, op.Add(longest, 1), 1)), last))
    places = op.Range(0, op.Add(op.Mul(longest, 2), 1), 1)
    is_label = op.And(op.Equal(op.Mod(places, 2), 1), op.Less(places, op.Mul(counts, 2)))
    found = op.Gather(labels, op.Div(places, 2), axis=1)
    return op.Where(is_label, found, after), places


def _class_axis(logs: Any) -> int:
    return 0 if len(logs.shape) == 1 else 1


def _times_class_weight(values: Any, weight: Any, rank: int) -> Any:
    """Values of a rank, times the weight of their class."""
    if weight is None:
        return values
    return values * (op.Unsqueeze(weight, list(range(1, rank - 1))) if rank > 2 else weight)


def _smoothing_per_class(logs: Any, label_smoothing: float) -> Any:
    """What label smoothing gives to each class."""
    classes = dim_of(logs, _class_axis(logs))
    return label_smoothing / (int(classes) if classes.is_known else op.CastLike(classes.value, logs))
