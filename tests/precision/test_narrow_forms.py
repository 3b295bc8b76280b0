"""Which inputs and outputs of a node take a format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from opbridge.precision.formats import BFLOAT16, FLOAT16, Format

_SKIP = "com.microsoft.SkipSimplifiedLayerNormalization"
_ATTENTION = "com.microsoft.GroupQueryAttention"
_ROTATION = "com.microsoft.RotaryEmbedding"


@pytest.mark.parametrize(
    ("opset", "to", "body", "inputs", "outputs"),
    [
        (19, FLOAT16, "y = Neg (x)", [True], [True]),
        (19, FLOAT16, "y = Pow (x, x)", [True, True], [True]),
        (19, FLOAT16, "y = Cast <to = 1> (x)", [True], [True]),
        (19, FLOAT16, "y = Cast <to = 7> (x)", [True], [False]),
        (19, FLOAT16, "y = Cast <to = 11> (x)", [True], [False]),
        (18, FLOAT16, "y = DequantizeLinear (i, s)", [False, False], [False]),
        (19, FLOAT16, "y = DequantizeLinear (i, s)", [False, True], [True]),
        (18, FLOAT16, "y = QuantizeLinear (x, s)", [False, False], [False]),
        (19, FLOAT16, "y = QuantizeLinear (x, s)", [True, True], [False]),
        (19, FLOAT16, "y = Resize (x, , r)", [True, False, False], [True]),
        (19, FLOAT16, "y = Range (s, s, s)", [False] * 3, [False]),
        (19, FLOAT16, "y, m = LayerNormalization (x, r)", [True, True], [True, False]),
        (17, BFLOAT16, "y = GlobalAveragePool (x)", [False], [False]),
        (26, FLOAT16, "y = BitCast <to = 6> (x)", [False], [False]),
        (19, FLOAT16, "y = my.Foo (x)", [False], [False]),
        (19, FLOAT16, f"y, m = {_SKIP} (x, x, r)", [True] * 3, [True, True]),
        (19, BFLOAT16, f"y, m = {_SKIP} (x, x, r)", [True] * 3, [True, True]),
        (19, FLOAT16, f"y = {_ATTENTION} (x, x, x, , , i, i)", [True] * 3 + [False] * 4, [True]),
        (19, FLOAT16, f"y = {_ROTATION} (x, i, x, x)", [True, False, True, True], [True]),
        (19, BFLOAT16, f"y = {_ROTATION} (x, i, x, x)", [False] * 4, [False]),
        (19, BFLOAT16, f"y = {_ATTENTION} (x, x, x, , , i, i)", [False] * 7, [False]),
    ],
)
def test_forms(
    ready: Callable[..., Any], opset: int, to: Format, body: str, inputs: list[bool], outputs: list[bool]
) -> None:
    text = f"""<ir_version: 9, opset_import: ["" : {opset}, "my" : 1, "com.microsoft" : 1]>
    g (float[2,4] x, float s, float[2] r, int8[4] i) => (float[a] z) {{ {body}  z = Neg (r) }}"""
    prepared, form = ready(text, FLOAT16)
    node = next(iter(prepared.model.graph))
    if to is not FLOAT16:
        from opbridge.precision.forms import form_of

        found = form_of(node, opset, to, prepared.floats)
    else:
        found = form(node)
    assert [*found.inputs] == inputs and [*found.outputs] == outputs
    assert found.changes or found.why
