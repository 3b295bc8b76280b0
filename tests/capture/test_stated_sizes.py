"""Conditions on dynamic dimensions as the entries of dynamic_shapes that state them."""

from __future__ import annotations

import pytest

from opbridge.capture.stated_sizes import Dimension, statement, statement_of_multiples

NAMED = [
    Dimension("b", "x.shape[0]"),
    Dimension("n", "x.shape[1]"),
    Dimension("n", "y.shape[1]"),
    Dimension("m", "y.shape[0]"),
    Dimension("z.shape[2]", "z.shape[2]"),
    Dimension("d", "parts[0].shape[3]", is_dim=True),
]


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        (["b >= 2"], 'State "x": {0: Dim("b", min=2)} in dynamic_shapes'),
        (["n <= 9"], 'State "x": {1: Dim("n", max=9)}, "y": {1: Dim("n", max=9)} in dynamic_shapes'),
        (["b % 8 == 0", "m % 4 == 0"], 'State "x": {0: "8*b"}, "y": {0: "4*m"} in dynamic_shapes'),
        (["d % 2 == 0"], 'State parts[0]: {3: 2*Dim("d")} in dynamic_shapes'),
        (["z.shape[2] >= 3"], 'State "z": {2: Dim("z_shape_2", min=3)} in dynamic_shapes'),
        (["b == 3"], 'Leave dimension 0 of "x" out of dynamic_shapes'),
        (
            ["b == 3", "m >= 2"],
            'State "y": {0: Dim("m", min=2)} in dynamic_shapes and leave dimension 0 of "x" out of dynamic_shapes',
        ),
        (["b == m"], 'State "y": {0: "b"} in dynamic_shapes'),
        (["b + m <= n"], 'State "x": {1: "b + m"}, "y": {1: "b + m"} in dynamic_shapes'),
        (["b != 3"], ""),
        (["b >= m"], ""),
        (["b >= 2", "m % 2 != 0"], ""),
        (["other >= 2"], ""),
        ([], ""),
    ],
)
def test_statements(conditions, said):
    assert statement(conditions, NAMED) == said


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        (["8*h // 12 * 12 == 8*h"], 'State "x": {2: "24*h"}, "y": {0: 24*h} in dynamic_shapes'),
        (
            ["(8*h)*w == 64*((8*h) // 8)*(w // 8)", "w // 8 * 8 == w"],
            'State "x": {3: "8*w"} in dynamic_shapes',
        ),
        (["(8*h) % 12 + w % 5 == 0"], 'State "x": {2: "24*h", 3: "5*w"}, "y": {0: 24*h} in dynamic_shapes'),
        (["h == 3"], ""),
        (["h != 2*w"], ""),
        (["h % 0 == 0"], ""),
        (["other % 2 == 0"], ""),
        (["h % 67 == 0"], ""),
        (["h +"], ""),
        ([], ""),
    ],
)
def test_multiples_for_which_conditions_hold(conditions, said):
    images = [
        Dimension("8*h", "x.shape[2]"),
        Dimension("w", "x.shape[3]"),
        Dimension("(8*h)", "y.shape[0]", is_dim=True),
    ]
    assert statement_of_multiples(conditions, images) == said
