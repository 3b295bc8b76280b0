"""torch's implicit type promotion, node by node."""

from __future__ import annotations

import pytest
import torch

from opbridge.capture import capture
from opbridge.graph.promotion import computation_dtype

FLOAT, DOUBLE, HALF = torch.randn(3), torch.randn(3, dtype=torch.float64), torch.randn(3, dtype=torch.float16)
INT, BOOL, COMPLEX = torch.tensor([1, 2, 3]), torch.tensor([True, False, True]), torch.randn(3, dtype=torch.complex64)


@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        (lambda x, y: x + y, (FLOAT, FLOAT), None),
        (lambda x, y: x + y, (FLOAT, INT), torch.float32),
        (lambda x, y: x + y, (HALF, FLOAT), torch.float32),
        (lambda x, y: x + y, (HALF, torch.tensor(1.0, dtype=torch.float64)), torch.float16),
        (lambda x, y: x * y, (BOOL, INT), torch.int64),
        (lambda x, y: x > y, (INT, DOUBLE), torch.float64),
        (lambda x, y: x + y, (FLOAT, COMPLEX), torch.complex64),
        (lambda x: x * 2, (FLOAT,), None),
        (lambda x: x * 2.5, (INT,), torch.float32),
        (lambda x: x.sin(), (INT,), torch.float32),
        (lambda x, y: x @ y, (FLOAT, FLOAT), None),
        (lambda x, y: x.masked_fill(y, 1.0), (FLOAT, BOOL), None),
    ],
)
def test_the_type_that_torch_computes_in(function, args, expected):
    graph = capture(function, args).graph.graph
    (node,) = [node for node in graph.nodes if node.op == "call_function"]
    assert computation_dtype(node) == expected


def test_sizes_take_the_type_of_the_tensor():
    graph = capture(lambda x: x * x.shape[0], (torch.randn(3),), dynamic_shapes=({0: "n"},)).graph.graph
    (node,) = [node for node in graph.nodes if "mul" in node.name]
    assert computation_dtype(node) == torch.float32
