"""What a node is that the file does not have."""

from __future__ import annotations

import pytest

from opbridge.profiling.kinds import kind_of


@pytest.mark.parametrize(
    "operator, stands_for, kind",
    [
        ("Conv", 1, ""),
        ("com.microsoft::FusedConv", 3, "fused"),
        ("Cast", 1, ""),
        ("Cast", 0, "inserted Cast"),
        ("Transpose", 0, "inserted layout change"),
        ("com.microsoft.nchwc::ReorderOutput", 0, "inserted layout change"),
        ("MemcpyToHost", 0, "copy to the CPU"),
        ("MemcpyFromHost", 0, "copy to the GPU"),
        ("Reshape", 0, "inserted"),
    ],
)
def test_kinds(operator, stands_for, kind):
    assert kind_of(operator, stands_for) == kind
