"""Losses that torch has no decomposition of, or one that is longer."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.registry import translation
from opbridge.translations._common import FLOATS, const, size

_MEAN, _SUM = 1, 2


@translation("aten::nll_loss", "aten::nll_loss2d", "aten::nll_loss_nd")
def nll_loss(self, target, weight=None, reduction: int = _MEAN, ignore_index: int = -100):
    """nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100) ->
    Tensor
    """
    return _nll(self, target, weight, reduction, ignore_index)[0]


@translation("aten::nll_loss_forward", "aten::nll_loss2d_forward")
def nll_loss_forward(self, target, weight, reduction: int, ignore_index: int):
    """nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor
    output, Tensor total_weight)
    """
    loss, total = _nll(self, target, weight, reduction, ignore_index)
    # Without a reduction torch does not count.
    return loss, total if reduction in (_MEAN, _SUM) else const(0, self.dtype)


@translation("aten::cross_entropy_loss")
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
    smooth = op.Neg(op.ReduceSum(_weighted(logs, weight, len(logs.shape)), [axis], keepdims=0))
    smooth = op.Where(target == ignore_index, const(0, logs.dtype), smooth)
    if reduction in (_MEAN, _SUM):
        smooth = op.ReduceSum(smooth, keepdims=0)
    if reduction == _MEAN:
        smooth = smooth / total
    return loss * (1.0 - label_smoothing) + smooth * _share(logs, label_smoothing)


def _nll(logs: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> tuple[Any, Any]:
    """The negative log likelihood of classes, and the sum of the weights."""
    axis = [_class_axis(logs)]
    target = op.Cast(target, to=ir.DataType.INT64)
    ignored = target == ignore_index
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
        target = target * (1.0 - label_smoothing) + _share(logs, label_smoothing)
    products = _weighted(logs * target, weight, len(logs.shape))
    if reduction not in (_MEAN, _SUM):
        return op.Neg(op.ReduceSum(products, [axis], keepdims=0))
    loss = op.Neg(op.ReduceSum(products, keepdims=0))
    if reduction == _SUM:
        return loss
    rows = op.Cast(op.Size(logs), to=logs.dtype) / op.CastLike(size(logs, axis), logs)
    return loss / rows


def _class_axis(logs: Any) -> int:
    return 0 if len(logs.shape) == 1 else 1


def _weighted(values: Any, weight: Any, rank: int) -> Any:
    """Values of a rank, times the weight of their class."""
    if weight is None:
        return values
    return values * (op.Unsqueeze(weight, list(range(1, rank - 1))) if rank > 2 else weight)


def _share(logs: Any, label_smoothing: float) -> Any:
    """What label smoothing gives to each class."""
    classes = size(logs, _class_axis(logs))
    return label_smoothing / classes if isinstance(classes, int) else label_smoothing / op.CastLike(classes, logs)
