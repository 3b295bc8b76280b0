"""Operators on sparse tensors, as operators on the dense tensors that stand for these in the graph.

1. A sparse weight is a dense one in the graph, with zeros for the elements that are not stored.
2. Conversions between layouts change nothing; products, sums and tensors made of indices and values are those of dense
   tensors.
3. What is stored of a sparse weight (`indices()`, `values()`) is a constant.
4. An operator that treats an element that is not stored unlike a stored zero is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

from opbridge.base.torch_private import torch_operators, torch_overrides
from opbridge.errors import CaptureError

__all__ = ["StoredElements", "dense_form", "dense_operator", "is_sparse"]

_SPARSE = frozenset({torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc})


class StoredElements(Protocol):
    """What the operators of this module need of a recorder."""

    def sparse_weight(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The sparse weight that a tensor of the graph stands for; None for any other tensor."""


def is_sparse(tensor: torch.Tensor) -> bool:
    """Whether a tensor stores some of its elements only."""
    return tensor.layout in _SPARSE


def dense_form(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor with values that is dense, also during a capture; a dense one is returned as it is."""
    if not is_sparse(tensor):
        return tensor
    with torch_overrides.without_modes():
        return tensor.detach().to_dense()


def dense_operator(function: Any) -> Callable[..., Any] | None:
    """What to call in the place of an operator on sparse tensors; None for any other operator.

    The first argument of what is returned is the recorder; the others are those of the operator.
    """
    return _DENSE.get(function)


def _same(recorder: StoredElements, x: torch.Tensor, *settings: Any, **named: Any) -> torch.Tensor:
    return x.clone()


def _to_dense(
    recorder: StoredElements, x: torch.Tensor, dtype: torch.dtype | None = None, *, masked_grad: bool | None = None
) -> torch.Tensor:
    return x.clone() if dtype is None else x.to(dtype, copy=True)


def _product(recorder: StoredElements, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.mm(x, y)


def _added_product(
    recorder: StoredElements, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, *, beta: Any = 1, alpha: Any = 1
) -> torch.Tensor:
    return torch.addmm(x, y, z, beta=beta, alpha=alpha)


def _sum(recorder: StoredElements, x: torch.Tensor, dim: Any = None, *, dtype: Any = None) -> torch.Tensor:
    return torch.sum(x, dtype=dtype) if dim is None else torch.sum(x, dim, dtype=dtype)


def _of_coordinates(
    recorder: StoredElements, indices: torch.Tensor, values: torch.Tensor, size: Any = None, **settings: Any
) -> torch.Tensor:
    if size is None:
        raise CaptureError(
            "The shape of torch.sparse_coo_tensor without a size depends on the values of the indices. Pass size=."
        )
    made = torch.zeros(size, dtype=settings.get("dtype") or values.dtype)
    return made.index_put(tuple(indices.unbind(0)), values.to(made.dtype), accumulate=True)


def _of_rows(
    recorder: StoredElements,
    starts: torch.Tensor,
    columns: torch.Tensor,
    values: torch.Tensor,
    size: Any = None,
    **settings: Any,
) -> torch.Tensor:
    if size is None or len(size) != 2:
        raise CaptureError("A sparse CSR tensor created in forward() must have a size of two dimensions.")
    rows = torch.arange(size[0]).repeat_interleave(starts.diff(), output_size=columns.shape[0])
    return _of_coordinates(recorder, torch.stack([rows, columns.to(rows.dtype)]), values, size, **settings)


def _of_compressed(recorder: StoredElements, *args: Any, layout: torch.layout | None = None, **settings: Any) -> Any:
    if layout is not torch.sparse_csr:
        raise CaptureError(
            f"forward() creates a tensor of layout {layout}, which is not supported. Use torch.sparse_csr, or "
            "a dense tensor."
        )
    return _of_rows(recorder, *args, **settings)


def _stored(method: str) -> Callable[..., Any]:
    def stored(recorder: StoredElements, x: torch.Tensor) -> Any:
        weight = recorder.sparse_weight(x)
        if weight is None:
            raise CaptureError(
                f"{method}() depends on which elements of a sparse tensor are stored, but the tensors of an ONNX "
                "file are dense. Compute it from the dense tensor (x.nonzero(), x[x != 0]), or use indices and "
                "values directly."
            )
        with torch_overrides.without_modes():
            if weight.layout == torch.sparse_coo and method in ("indices", "values"):
                weight = weight.coalesce()
            stored = getattr(weight.detach(), method)()
            return stored.clone() if isinstance(stored, torch.Tensor) else stored  # no view of a sparse tensor

    return stored


def _refused(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise CaptureError(
            f"{name} distinguishes an element that is not stored from a stored zero, but the tensors of an ONNX "
            "file are dense. Use a dense tensor and a mask of its elements."
        )

    return refuse


_METHODS = ("indices", "values", "_indices", "_values", "crow_indices", "col_indices", "ccol_indices", "row_indices")
_BY_NAME: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("coalesce", "_coalesce", "to_sparse", "to_sparse.sparse_dim", "_to_sparse"), _same),
    **dict.fromkeys(
        ("_to_sparse.sparse_dim", "to_sparse_csr", "to_sparse_csc", "to_sparse_bsr", "to_sparse_bsc"), _same
    ),
    **dict.fromkeys(("to_dense", "_to_dense"), _to_dense),
    **dict.fromkeys(("_sparse_mm", "smm"), _product),
    "_sparse_addmm": _added_product,
    **dict.fromkeys(("_sparse_sum", "_sparse_sum.dim"), _sum),
    "_sparse_sum.dtype": lambda recorder, x, *, dtype: _sum(recorder, x, dtype=dtype),
    "_sparse_sum.dim_dtype": lambda recorder, x, dim, *, dtype: _sum(recorder, x, dim, dtype=dtype),
    **dict.fromkeys(
        ("sparse_coo_tensor.indices", "sparse_coo_tensor.indices_size", "_sparse_coo_tensor_unsafe"), _of_coordinates
    ),
    **dict.fromkeys(("sparse_csr_tensor.crow_col_value_size", "_sparse_csr_tensor_unsafe"), _of_rows),
    "sparse_compressed_tensor.comp_plain_value_size": _of_compressed,
    "is_coalesced": lambda recorder, x: True,
    **{method: _stored(method) for method in (*_METHODS, "_nnz", "sparse_dim", "dense_dim")},
    **{
        name: _refused(f"aten::{name}")
        for name in (
            "_sparse_softmax",
            "_sparse_softmax.int",
            "_sparse_softmax.Dimname",
            "_sparse_log_softmax",
            "_sparse_log_softmax.int",
            "_sparse_log_softmax.Dimname",
            "_sparse_mm.reduce",
            "sparse_mask",
            "sparse_sampled_addmm",
        )
    },
}
_DENSE: dict[Any, Callable[..., Any]] = {
    operator: instead
    for name, instead in _BY_NAME.items()
    if (operator := torch_operators.operator_object(f"aten::{name}")) is not None
}
