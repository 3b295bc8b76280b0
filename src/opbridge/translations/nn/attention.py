"""Scaled dot-product attention, and the fused forms of the transformer's layers.

Plain products and a softmax: ONNX has an Attention operator since opset 23, and onnxruntime's is no faster.
"""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dims import Dim, dim_of, shape_of
from opbridge.translations.lib.dtypes import HALVES, const
from opbridge.translations.lib.matrices import matrix_transpose
from opbridge.translations.nn.activation import dropout
from opbridge.translations.registry import builtin

_BOOL = ir.DataType.BOOL


@builtin("aten::scaled_dot_product_attention")
def scaled_dot_product_attention(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
):
    """scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0,
    bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor
    """
    if enable_gqa and not (dim_of(query, -3).is_known and dim_of(query, -3) == dim_of(key, -3)):
        return _grouped_attention(query, key, value, attn_mask, is_causal, scale, dropout_p)
    scores = _scores(query, key, len(key.shape), scale, dim_of(query, -1))
    if is_causal:
        scores = scores + _causal(query, key)
    return _attend(scores, attn_mask, value, dropout_p)


@builtin("aten::_scaled_dot_product_flash_attention_for_cpu")
def flash_attention_for_cpu(
    query, key, value, dropout_p: float = 0.0, is_causal: bool = False, attn_mask=None, scale: float | None = None
):
    """_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, bool
    is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)
    """
    if dropout_p:
        raise TranslationError("Attention with dropout is random. Call model.eval() first.")
    scores = _scores(query, key, len(key.shape), scale, dim_of(query, -1))
    if is_causal:
        scores = scores + _causal(query, key)
    total = scores if attn_mask is None else scores + _as_addend(attn_mask, scores)
    return _attend(scores, attn_mask, value), op.ReduceLogSumExp(total, [len(query.shape) - 1], keepdims=0)


@builtin("aten::_safe_softmax")
def safe_softmax(self, dim: int, dtype=None):
    """_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    if dtype not in (None, -1):
        self = op.Cast(self, to=dtype)
    if len(self.shape) == 0:
        return op.Where(op.Equal(self, float("-inf")), const(0, self.dtype), op.Exp(self - self))
    axis = dim % len(self.shape)
    none = op.Equal(op.ReduceMax(self, [axis]), float("-inf"))
    return op.Where(none, const(0, self.dtype), op.Softmax(self, axis=axis))


@builtin("aten::_native_multi_head_attention")
def native_multi_head_attention(
    query,
    key,
    value,
    embed_dim: int,
    num_head: int,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    mask=None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
):
    """_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head, Tensor
    qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, Tensor? mask=None, bool need_weights=True, bool
    average_attn_weights=True, int? mask_type=None) -> (Tensor, Tensor)
    """
    weights = op.Split(op.Transpose(qkv_weight, perm=[1, 0]), num_outputs=3, axis=1)
    biases = op.Split(qkv_bias, num_outputs=3, axis=0)
    q, k, v = (
        _by_head(op.MatMul(x, weight) + bias, num_head, embed_dim)
        for x, weight, bias in zip((query, key, value), weights, biases, strict=True)
    )
    scores = op.MatMul(q, op.Transpose(k, perm=[0, 1, 3, 2])) * (1.0 / math.sqrt(embed_dim / num_head))
    if mask is not None:
        scores = scores + op.Where(_as_score_mask(mask, mask_type), const(float("-inf"), query.dtype), 0.0)
    shares = op.Softmax(scores, axis=-1)
    heads = op.Transpose(op.MatMul(shares, v), perm=[0, 2, 1, 3])
    output = op.MatMul(op.Reshape(heads, [0, 0, embed_dim]), op.Transpose(proj_weight, perm=[1, 0])) + proj_bias
    if not need_weights:
        return output, None
    return output, op.ReduceMean(shares, [1], keepdims=0) if average_attn_weights else shares


@builtin("aten::_transformer_encoder_layer_fwd")
def transformer_encoder_layer_fwd(
    src,
    embed_dim: int,
    num_heads: int,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1,
    norm_bias_1,
    norm_weight_2,
    norm_bias_2,
    ffn_weight_1,
    ffn_bias_1,
    ffn_weight_2,
    ffn_bias_2,
    mask=None,
    mask_type: int | None = None,
):
    """_transformer_encoder_layer_fwd(Tensor src, int embed_dim, int num_heads, Tensor qkv_weight, Tensor qkv_bias,
    Tensor proj_weight, Tensor proj_bias, bool use_gelu, bool norm_first, float eps, Tensor norm_weight_1, Tensor
    norm_bias_1, Tensor norm_weight_2, Tensor norm_bias_2, Tensor ffn_weight_1, Tensor ffn_bias_1, Tensor ffn_weight_2,
    Tensor ffn_bias_2, Tensor? mask=None, int? mask_type=None) -> Tensor
    """

    def attended(x: Any) -> Any:
        return native_multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type
        )[0]

    def fed_forward(x: Any) -> Any:
        hidden = op.MatMul(x, op.Transpose(ffn_weight_1, perm=[1, 0])) + ffn_bias_1
        hidden = hidden * 0.5 * (op.Erf(hidden * math.sqrt(0.5)) + 1.0) if use_gelu else op.Relu(hidden)
        return op.MatMul(hidden, op.Transpose(ffn_weight_2, perm=[1, 0])) + ffn_bias_2

    def normed(x: Any, weight: Any, bias: Any) -> Any:
        return op.LayerNormalization(x, weight, bias, axis=-1, epsilon=eps)[0]

    if norm_first:
        src = src + attended(normed(src, norm_weight_1, norm_bias_1))
        return src + fed_forward(normed(src, norm_weight_2, norm_bias_2))
    src = normed(src + attended(src), norm_weight_1, norm_bias_1)
    return normed(src + fed_forward(src), norm_weight_2, norm_bias_2)


def _scores(query: Any, key: Any, rank: int, scale: float | None, width: Dim) -> Any:
    """The scaled products of queries and keys of a width."""
    keys = matrix_transpose(key, rank)
    if scale is None and not width.is_known:
        size = op.Max(op.Cast(op.Squeeze(shape_of([width])), to=key.dtype), const(1, key.dtype))
        return op.MatMul(query / op.Sqrt(size), keys)
    if scale is None:
        scale = 1.0 if width == 0 else 1.0 / math.sqrt(width)
    if key.dtype in HALVES:
        return op.MatMul(query * scale, keys)  # before the products, which float16 might not hold
    if key.dtype == ir.DataType.DOUBLE and width.is_known:
        # A vector: of a number onnxruntime would make a float32 attribute of its fused product.
        return op.MatMul(query * const([scale] * int(width), key.dtype), keys)
    return op.MatMul(query, keys) * scale


def _attend(scores: Any, mask: Any, value: Any, dropout_p: float = 0.0) -> Any:
    """The values weighed by their scores. A query that may look at nothing gets zeros."""
    if mask is None:
        return op.MatMul(_dropped(op.Softmax(scores, axis=-1), dropout_p), value)
    shares = op.Softmax(scores + _as_addend(mask, scores), axis=-1)
    return _or_zeros(op.MatMul(_dropped(shares, dropout_p), value), mask)


def _dropped(shares: Any, p: float) -> Any:
    """The shares with some of them dropped, new ones in each run; torch drops them whenever p is above 0."""
    return dropout(shares, p, True) if p else shares


def _or_zeros(result: Any, mask: Any) -> Any:
    """Zeros, in the place of nan, where the mask lets nothing through."""
    last = [len(mask.shape) - 1]
    zero = const(0, result.dtype)
    if mask.dtype != _BOOL:
        return op.Where(op.Equal(op.ReduceMax(mask, last), float("-inf")), zero, result)
    return op.Where(op.Cast(op.ReduceMax(op.Cast(mask, to=ir.DataType.INT32), last), to=_BOOL), result, zero)


def _as_addend(mask: Any, scores: Any) -> Any:
    """A mask in the form that is added to the scores."""
    if mask.dtype != _BOOL:
        return op.CastLike(mask, scores)
    return op.Where(mask, const(0, scores.dtype), const(float("-inf"), scores.dtype))


def _causal(query: Any, key: Any) -> Any:
    """-inf where a key is later than the query, 0 elsewhere; both are counted from the first one."""
    shape = shape_of([dim_of(query, -2), dim_of(key, -2)])
    return op.Trilu(op.Expand(const(float("-inf"), query.dtype), shape), 1, upper=1)


def _grouped_attention(
    query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float | None, dropout_p: float
) -> Any:
    """Attention where several heads of queries share a head of keys: the queries of a group in one product."""
    rank = len(query.shape)
    if rank < 3 or len(key.shape) != rank:
        raise TranslationError("Grouped attention is supported only for queries, keys and values of the same rank.")
    before = [dim_of(query, axis) for axis in range(rank - 3)]
    heads, length, width = (dim_of(query, axis) for axis in (-3, -2, -1))
    grouped = op.Reshape(query, shape_of([*before, dim_of(key, -3), -1, width]), allowzero=0)
    scores = _scores(grouped, key, rank, scale, width)
    by_group = op.Shape(scores)
    scores = op.Reshape(scores, shape_of([*before, heads, length, dim_of(key, -2)]))
    if is_causal:
        scores = scores + _causal(query, key)
    if mask is not None:
        scores = scores + _as_addend(mask, scores)
    shares = op.Softmax(scores, axis=-1)
    if mask is not None:
        shares = _or_zeros(shares, mask)
    result = op.MatMul(op.Reshape(_dropped(shares, dropout_p), by_group), value)
    return op.Reshape(result, shape_of([*before, heads, length, dim_of(value, -1)]))


def _by_head(projected: Any, heads: int, width: int) -> Any:
    """(batch, length, width) as (batch, head, length, width of a head)."""
    return op.Transpose(op.Reshape(projected, [0, 0, heads, width // heads]), perm=[0, 2, 1, 3])


def _as_score_mask(mask: Any, mask_type: int | None) -> Any:
    """torch's three kinds of masks, broadcast against (batch, head, query, key)."""
    if mask_type == 0:
        return mask
    if mask_type == 1:
        return op.Unsqueeze(mask, [1, 2])
    if mask_type == 2 and len(mask.shape) == 4:
        return mask
    raise TranslationError("Fused layers are supported only with masks for attention, for padding, or for both (4-D).")
