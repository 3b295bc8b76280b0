"""Type promotion without PyTorch, beside PyTorch's."""

from __future__ import annotations

import itertools

import onnx_ir as ir
import pytest
import torch

from opbridge.fixing.promotion import promoted, result_type

TYPES = {
    ir.DataType.BOOL: torch.bool,
    ir.DataType.UINT8: torch.uint8,
    ir.DataType.INT8: torch.int8,
    ir.DataType.INT16: torch.int16,
    ir.DataType.INT32: torch.int32,
    ir.DataType.INT64: torch.int64,
    ir.DataType.UINT16: torch.uint16,
    ir.DataType.UINT32: torch.uint32,
    ir.DataType.UINT64: torch.uint64,
    ir.DataType.FLOAT16: torch.float16,
    ir.DataType.BFLOAT16: torch.bfloat16,
    ir.DataType.FLOAT: torch.float32,
    ir.DataType.DOUBLE: torch.float64,
}


def test_every_pair_of_types_is_promoted_as_in_pytorch():
    for one, other in itertools.product(TYPES, TYPES):
        try:
            expected = torch.promote_types(TYPES[one], TYPES[other])
        except RuntimeError:
            expected = None
        found = promoted(one, other)
        assert (None if found is None else TYPES[found]) == expected, (one, other)


def test_scalars_count_as_in_pytorch():
    for one, other in itertools.product(TYPES, TYPES):
        tensor, scalar = torch.ones(2, dtype=TYPES[one]), torch.ones((), dtype=TYPES[other])
        try:
            expected = torch.result_type(tensor, scalar)
        except RuntimeError:
            expected = None
        for operands in ([(one, False), (other, True)], [(other, True), (one, False)]):
            found = result_type(operands)
            assert (None if found is None else TYPES[found]) == expected, (one, other)


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ([("UINT8", False), ("INT8", False), ("FLOAT16", False)], "FLOAT16"),
        ([("INT64", False), ("DOUBLE", True), ("FLOAT16", False)], "FLOAT16"),
        ([("INT64", True), ("INT32", True)], "INT64"),
        ([("STRING", False), ("INT32", False)], None),
        ([("FLOAT8E5M2", False), ("FLOAT", False)], None),
    ],
)
def test_several_operands(operands, expected):
    found = result_type([(ir.DataType[name], scalar) for name, scalar in operands])
    assert found == (None if expected is None else ir.DataType[expected])
