"""Fake implementations for operators of torch that read values during a capture, or specialise sizes.

1. During a capture, torch runs an operator on fake tensors to get the shapes of its results. A composite operator runs
   others, and fails where they check a value (cov: that no weight is negative), or specialises a size (a recurrent
   layer: the length of its loop; cdist: whether there are more than 25 rows).
2. Here each of these operators has a fake implementation instead. The operator itself stays in the graph.
3. Python functions of torch that check values are replaced by the same functions without the check.
"""

from __future__ import annotations

import contextlib
import functools
import math
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch

from opbridge.base.torch_private import capabilities, torch_overrides, torch_sizes
from opbridge.capture import convolution_shapes, image_shapes, packed_sequences, strided_copies, vision_shapes

__all__ = ["describes", "is_raised_by_check", "replacing_fake_implementations", "without_checks"]


def replacing_fake_implementations(*, rewriting: bool = False) -> contextlib.AbstractContextManager[None]:
    """Within this context, the operators of this module have the fake implementations of this module.

    Args:
        rewriting: Whether a captured graph is rewritten; see `strided_copies`.
    """
    return torch_overrides.replacing_shape_functions(
        {**_COMPOSITE, **convolution_shapes.COMPOSITE, **image_shapes.COMPOSITE, **packed_sequences.COMPOSITE},
        _WITH_KERNELS,
        {
            **convolution_shapes.REPLACED,
            **packed_sequences.REPLACED,
            **strided_copies.REPLACED,
            **vision_shapes.REPLACED,
            **_REPLACED,
            **(strided_copies.REPLACED_IN_REWRITING if rewriting else {}),
        },
    )


def describes(name: str) -> bool:
    """Whether this module has a fake implementation of an operator that has none of its own."""
    return name in _WITH_KERNELS


def is_raised_by_check(error: BaseException) -> bool:
    """Whether an error comes from a check in a function of torch's for which there is a form without the check."""
    codes = {function.__code__ for function in _WITHOUT_CHECKS}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def without_checks(enabled: bool = True) -> contextlib.AbstractContextManager[None]:
    """Within this context, functions of torch that check values do not check them."""
    return torch_overrides.replacing_torch_functions(_WITHOUT_CHECKS) if enabled else contextlib.nullcontext()


def _cov(x: torch.Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> torch.Tensor:
    dtype = x.dtype
    for weights in (fweights, aweights):
        dtype = dtype if weights is None else torch.promote_types(dtype, weights.dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        dtype = torch.get_default_dtype()
    with torch_sizes.guarding_small_sizes(x.shape):
        is_matrix = x.dim() == 2 and bool(x.shape[0] != 1)
    return x.new_empty((x.shape[0], x.shape[0]) if is_matrix else (), dtype=dtype)


def _corrcoef(x: torch.Tensor) -> torch.Tensor:
    return _cov(x)


def _cdist(x1: torch.Tensor, x2: torch.Tensor, p: float = 2.0, compute_mode: int | None = None) -> torch.Tensor:
    batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return x1.new_empty((*batch, x1.shape[-2], x2.shape[-2]))


def _ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> torch.Tensor:
    return log_probs.new_empty(log_probs.shape[1:-1] if reduction == 0 else ())


def _box_iou_rotated(boxes1: torch.Tensor, boxes2: torch.Tensor) -> torch.Tensor:
    return boxes1.new_empty((boxes1.shape[0], boxes2.shape[0]), dtype=torch.float32)  # whatever the boxes are of


def _one_hot(x: torch.Tensor, num_classes: Any = -1) -> torch.Tensor:
    if isinstance(num_classes, int) and num_classes == -1:
        num_classes = torch_sizes.unknown_size(x)
    return x.new_empty((*x.shape, num_classes))


def _dim_arange(x: torch.Tensor, dim: int) -> torch.Tensor:
    return x.new_empty((x.shape[dim],), dtype=torch.int64)


def _repeat_interleave(
    x: torch.Tensor, repeats: torch.Tensor, dim: int | None = None, *, output_size: Any = None
) -> torch.Tensor:
    """One count stands for all elements; with a dynamic size that is one in the example it may be one or not."""
    sizes, axis = ([x.numel()], 0) if dim is None else (list(x.shape), dim)
    count = repeats.shape[0] if repeats.dim() == 1 else 1
    if type(count) is int and type(sizes[axis]) is int and count not in (1, sizes[axis]):
        raise RuntimeError(f"repeats has {count} elements, and the dimension has {sizes[axis]}")
    sizes[axis] = torch_sizes.unknown_size(x) if output_size is None else output_size
    return x.new_empty(sizes)


def _is_differentiated(*tensors: Any) -> bool:
    """Whether a result needs a gradient, which that of a shape alone does not have."""
    return any(isinstance(each, torch.Tensor) and each.requires_grad for each in tensors)


def _take_along_dim(x: torch.Tensor, indices: torch.Tensor, dim: int | None = None) -> Any:
    if _is_differentiated(x):
        return NotImplemented
    if dim is None:
        return x.new_empty((indices.numel(),))
    rank = max(x.dim(), indices.dim())
    dim = dim % rank
    sizes, wanted = list(x.shape), list(indices.shape)
    if x.dim() != indices.dim():
        raise RuntimeError("torch.take_along_dim(): input and indices should have the same number of dimensions")
    sizes[dim] = wanted[dim]
    return x.new_empty(torch.broadcast_shapes(sizes, wanted))


def _cross_entropy_loss(
    x: torch.Tensor,
    target: torch.Tensor,
    weight: Any = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    if _is_differentiated(x, target, weight):
        return NotImplemented
    if reduction:
        return x.new_empty(())
    return x.new_empty((*x.shape[:1], *x.shape[2:]) if x.dim() > 1 else ())


def _bilinear(x1: torch.Tensor, x2: torch.Tensor, weight: torch.Tensor, bias: Any = None) -> Any:
    if _is_differentiated(x1, x2, weight, bias):
        return NotImplemented
    given, wanted = (x1.shape[-1], x2.shape[-1]), tuple(weight.shape[1:])
    for size, features in zip(given, wanted, strict=True):
        torch._check(size == features, lambda: f"bilinear() takes inputs of {wanted} features, but got {given}")
    return x1.new_empty((*torch.broadcast_shapes(x1.shape[:-1], x2.shape[:-1]), weight.shape[0]))


def _combinations(x: torch.Tensor, r: int = 2, with_replacement: bool = False) -> Any:
    count = x.shape[0] if x.dim() == 1 else None
    if type(count) is not int or r < 1 or _is_differentiated(x):
        return NotImplemented
    return x.new_empty((math.comb(count + r - 1 if with_replacement else count, r), r))


def _grouped_mm(
    x: torch.Tensor, weight: torch.Tensor, offs: Any = None, bias: Any = None, out_dtype: torch.dtype | None = None
) -> Any:
    if (
        x.dtype not in _OF_GROUPED_PRODUCTS
        or weight.dtype != x.dtype
        or capabilities.describes_grouped_products.present
    ):
        return NotImplemented
    torch._check(x.shape[-1] == weight.shape[-2], lambda: "contraction dimension of mat_a and mat_b must match")
    by_group = x.dim() == weight.dim()
    groups = (x.shape[0] if x.dim() == 3 else offs.shape[0],) if by_group else ()
    return x.new_empty((*groups, x.shape[-2], weight.shape[-1]), dtype=out_dtype or x.dtype)


def _narrow(x: torch.Tensor, dim: int, start: torch.Tensor, length: Any) -> torch.Tensor:
    sizes = list(x.shape)
    sizes[dim] = length
    return x.new_empty(sizes)


def _tensor_split(x: torch.Tensor, places: torch.Tensor, dim: int = 0) -> list[torch.Tensor]:
    if places.dim() != 1:  # how many parts there are depends on its value
        return list(torch.tensor_split(x, int(places), dim))
    sizes = list(x.shape)
    parts = []
    for _ in range(int(places.shape[0]) + 1):
        sizes[dim] = torch_sizes.unknown_size(x)
        parts.append(x.new_empty(sizes))
    return parts


def _recurrent(input: torch.Tensor, hidden: torch.Tensor, bidirectional: bool) -> torch.Tensor:
    return input.new_empty((*input.shape[:2], hidden.shape[-1] * (2 if bidirectional else 1)))


def _lstm(input: torch.Tensor, hx: Sequence[torch.Tensor], *settings: Any) -> tuple[torch.Tensor, ...]:
    # params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    output = _recurrent(input, hx[0], settings[5])
    return output, hx[0].new_empty(hx[0].shape), hx[1].new_empty(hx[1].shape)


def _rnn(input: torch.Tensor, hx: torch.Tensor, *settings: Any) -> tuple[torch.Tensor, ...]:
    return _recurrent(input, hx, settings[5]), hx.new_empty(hx.shape)


def _pad_sequence(
    sequences: Sequence[torch.Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> torch.Tensor:
    steps = functools.reduce(torch.sym_max, (each.shape[0] for each in sequences))
    shape = (len(sequences), steps) if batch_first else (steps, len(sequences))
    return sequences[0].new_empty((*shape, *sequences[0].shape[1:]))


def _lstsq(
    x: torch.Tensor, b: torch.Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[torch.Tensor, ...]:
    """Assumes matrices of full rank: torch returns empty residuals where one is not."""
    rows, columns = x.shape[-2:]
    is_vector = b.dim() == 1 or (b.dim() == x.dim() - 1 and b.shape == x.shape[:-1])
    right = () if is_vector else (b.shape[-1],)
    batch = torch.broadcast_shapes(x.shape[:-2], b.shape[: -1 if is_vector else -2])
    has_rank, has_values = driver != "gels", driver in ("gelsd", "gelss")
    has_residuals = driver not in (None, "gelsy") and bool(rows > columns)
    real = x.dtype.to_real()
    return (
        x.new_empty((*batch, columns, *right)),
        x.new_empty((*batch, *right) if has_residuals else (0,), dtype=real),
        x.new_empty(batch if has_rank else (0,), dtype=torch.int64),
        x.new_empty((*batch, min(rows, columns)) if has_values else (0,), dtype=real),
    )


def _gaussian_nll_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    var: torch.Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:
    """0.5 * (log(max(var, eps)) + (input - target)^2 / max(var, eps)), as torch.nn.GaussianNLLLoss documents it."""
    var = torch.full_like(input, var) if isinstance(var, (int, float)) else var.clone()
    if var.dim() != input.dim() and tuple(var.shape) == tuple(input.shape[:-1]):
        var = var.unsqueeze(-1)
    with torch.no_grad():  # the gradient passes over the bound
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _norm(
    x: torch.Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> torch.Tensor:
    dims = [dim] if isinstance(dim, int) else dim or range(x.dim())
    reduced = {each % x.dim() for each in dims}
    sizes = [1 if each in reduced else size for each, size in enumerate(x.shape) if keepdim or each not in reduced]
    return x.new_empty(sizes, dtype=dtype or x.dtype.to_real())


def _matrix_norm(
    x: torch.Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> torch.Tensor:
    return _norm(x, ord, dim, keepdim, dtype=dtype)


def _fill_diagonal(x: torch.Tensor, fill_value: Any, wrap: bool = False) -> torch.Tensor:
    first = torch.arange(x.shape[0], device=x.device)
    if wrap and x.dim() == 2:  # after each square of rows, one row is left out
        first = first % (x.shape[1] + 1)
    mask = torch.ones((), dtype=torch.bool, device=x.device)
    for axis in range(1, x.dim()):
        place = torch.arange(x.shape[axis], device=x.device).view(-1, *[1] * (x.dim() - axis - 1))
        mask = mask & (first.view(-1, *[1] * (x.dim() - 1)) == place)
    return x.masked_fill_(mask, fill_value)


def _cond(x: torch.Tensor, p: Any = None) -> torch.Tensor:
    return x.new_empty(x.shape[:-2], dtype=x.dtype.to_real())


def _kron(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    rank = max(x.dim(), y.dim())
    left, right = ((1,) * (rank - each.dim()) + tuple(each.shape) for each in (x, y))
    return x.new_empty([a * b for a, b in zip(left, right, strict=True)], dtype=torch.result_type(x, y))


def _vander(x: torch.Tensor, N: Any = None, increasing: bool = False) -> torch.Tensor:
    found = torch.linalg.vander(x, N=x.shape[-1] if N is None else N)
    return found if increasing else found.flip(-1)


def _linalg_vander(x: torch.Tensor, *, N: Any = None) -> torch.Tensor:
    dtype = x.dtype if x.dtype.is_floating_point or x.dtype.is_complex else torch.int64
    return x.new_empty((*x.shape, x.shape[-1] if N is None else N), dtype=dtype)


def _like(x: torch.Tensor, *settings: Any, **more: Any) -> torch.Tensor:
    return x.new_empty(x.shape)


def _like_and_mask(x: torch.Tensor, *settings: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape, dtype=torch.bool)


def _transducer_loss(logits: torch.Tensor, *others: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return logits.new_empty(logits.shape[:1]), logits.new_empty(logits.shape)


def _geqrf(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    rows, columns = x.shape[-2:]
    return x.new_empty(x.shape), x.new_empty((*x.shape[:-2], torch.sym_min(rows, columns)))


def _jagged_to_padded(
    values: torch.Tensor, offsets: Sequence[torch.Tensor], max_lengths: Sequence[Any], padding_value: float = 0.0
) -> torch.Tensor:
    return values.new_empty((offsets[0].shape[0] - 1, *max_lengths, *values.shape[1:]))


def _padded_to_jagged(dense: torch.Tensor, offsets: Sequence[torch.Tensor], total_L: Any = None) -> torch.Tensor:
    total = torch_sizes.unknown_size(dense) if total_L is None else total_L
    return dense.new_empty((total, *dense.shape[1 + len(offsets) :]))


def _fake_quantized(x: torch.Tensor, scale: Any, *settings: Any) -> Any:
    if _is_differentiated(x, scale):
        return NotImplemented
    return x.new_empty(x.shape)


def _histogram(x: torch.Tensor, bins: int = 100, **settings: Any) -> tuple[torch.Tensor, ...]:
    return x.new_empty((bins,)), x.new_empty((bins + 1,))


# Composite operators; and operators with kernels of their own, but without a fake implementation.
_COMPOSITE: dict[str, Callable[..., Any]] = {
    "aten::cov": _cov,
    "aten::corrcoef": _corrcoef,
    "aten::cdist": _cdist,
    "aten::ctc_loss.IntList": _ctc_loss,
    "aten::ctc_loss.Tensor": _ctc_loss,
    "aten::one_hot": _one_hot,
    "aten::_dim_arange": _dim_arange,
    "aten::narrow.Tensor": _narrow,
    "aten::repeat_interleave.self_Tensor": _repeat_interleave,
    "aten::tensor_split.tensor_indices_or_sections": _tensor_split,
    "aten::pad_sequence": _pad_sequence,
    "aten::lstm.input": _lstm,
    "aten::gru.input": _rnn,
    "aten::rnn_tanh.input": _rnn,
    "aten::rnn_relu.input": _rnn,
    "aten::fill_diagonal_": _fill_diagonal,
    "aten::linalg_norm": _norm,
    "aten::linalg_norm.ord_str": _norm,
    "aten::linalg_matrix_norm": _matrix_norm,
    "aten::linalg_matrix_norm.str_ord": _matrix_norm,
    "aten::linalg_cond": _cond,
    "aten::linalg_cond.p_str": _cond,
    "aten::kron": _kron,
    "aten::take_along_dim": _take_along_dim,
    "aten::combinations": _combinations,
    "aten::cross_entropy_loss": _cross_entropy_loss,
    "aten::bilinear": _bilinear,
    "aten::fake_quantize_per_channel_affine": _fake_quantized,
    "aten::fake_quantize_per_tensor_affine": _fake_quantized,
    "aten::fake_quantize_per_tensor_affine.tensor_qparams": _fake_quantized,
    "aten::linalg_vander": _linalg_vander,
    "aten::vander": _vander,
}
_WITH_KERNELS: dict[str, Callable[..., Any]] = {
    "aten::linalg_lstsq": _lstsq,
    "torchaudio::rnnt_loss_forward": _transducer_loss,
    "torchvision::box_iou_rotated": _box_iou_rotated,
    "aten::geqrf": _geqrf,
    "aten::histogram.bin_ct": _histogram,
    "aten::_jagged_to_padded_dense_forward": _jagged_to_padded,
    "aten::_padded_dense_to_jagged_forward": _padded_to_jagged,
    "aten::_sample_dirichlet": _like,
    "aten::_dirichlet_grad": _like,
    "aten::_standard_gamma_grad": _like,
    "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": _like_and_mask,
    "aten::binomial": _like,
    "aten::fake_quantize_per_tensor_affine_cachemask": _like_and_mask,
    "aten::fake_quantize_per_channel_affine_cachemask": _like_and_mask,
    "aten::_fake_quantize_learnable_per_tensor_affine": _like,
    "aten::_fake_quantize_learnable_per_channel_affine": _like,
}

# Where torch's own implementation refuses what the operator computes.
_REPLACED: dict[str, Callable[..., Any]] = {"aten::_grouped_mm": _grouped_mm}
_OF_GROUPED_PRODUCTS = frozenset({torch.float32, torch.float16})

# Written in Python.
_WITHOUT_CHECKS: dict[Any, Callable[..., Any]] = {torch.nn.functional.gaussian_nll_loss: _gaussian_nll_loss}
