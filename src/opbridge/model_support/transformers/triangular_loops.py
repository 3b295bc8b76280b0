"""Loops of transformers that invert a triangular matrix row by row, as one operator while a model is captured.

The chunks of Kimi's delta attention write the 63 rows of a matrix one after another, and a capture follows each. Row
`i` becomes `A[i] + A[i] @ T[:i]`: what the loop computes is the solution of `(I - A) T = A`, where `A` has nothing from
the diagonal on.

Checked on transformers 5.24.
"""

from __future__ import annotations

import torch

__all__ = ["solved"]


def solved(matrix: torch.Tensor) -> torch.Tensor:
    """What such a loop makes of matrices that have nothing from the diagonal on, [..., size, size].

    In the order of a contiguous tensor, which the written matrix has; the operator's result lies column by column.
    """
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return torch.linalg.solve_triangular(identity - matrix, matrix, upper=False, unitriangular=True).contiguous()
