"""Models that ONNX's node tests lack: operators in the sizes that models have, and bodies as exporters write them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

__all__ = ["texts"]

_HEAD = '<ir_version: 10, opset_import: ["" : {opset}]> g ({inputs}) => ({outputs}) {{ {nodes} }}'

_BODIES = {
    "if_of_outer_values": """<ir_version: 8, opset_import: ["" : 17]>
    g (bool c, float[2] x, float[2] z) => (float[2] y) {
      y = If (c) <then_branch = t () => (float[2] a) { a = Add (x, z) },
                  else_branch = e () => (float[2] b) { b = Sub (x, z) }>
    }""",
    "if_of_computed_condition": """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x, float[2] z) => (float[2] y) {
      s = ReduceSum <keepdims = 0> (x)
      k = Constant <value = float {0.0}> ()
      c = Greater (s, k)
      y = If (c) <then_branch = t () => (float[2] a) { a = Add (x, z) },
                  else_branch = e () => (float[2] b) { b = Sub (x, z) }>
    }""",
    "loop_of_floats": """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x, float[2] z) => (float[2] y) {
      n = Constant <value = int64 {3}> ()
      c = Constant <value = bool {1}> ()
      y = Loop (n, c, x) <body = b (int64 i, bool k, float[2] v) => (bool k2, float[2] w) {
        k2 = Identity (k)
        w = Mul (v, z)
      }>
    }""",
    "loop_while_computed": """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x, float[2] z) => (float[2] y) {
      n = Constant <value = int64 {3}> ()
      s = ReduceSum <keepdims = 0> (x)
      k0 = Constant <value = float {100.0}> ()
      c = Less (s, k0)
      y = Loop (n, c, x) <body = b (int64 i, bool k, float[2] v) => (bool k2, float[2] w) {
        w = Mul (v, z)
        t = ReduceSum <keepdims = 0> (w)
        u = Constant <value = float {100.0}> ()
        k2 = Less (t, u)
      }>
    }""",
    "loop_that_collects": """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x, float[2] z) => (float[2] y, float[3, 2] all) {
      n = Constant <value = int64 {3}> ()
      c = Constant <value = bool {1}> ()
      y, all = Loop (n, c, x) <body = b (int64 i, bool k, float[2] v) => (bool k2, float[2] w, float[2] o) {
        k2 = Identity (k)
        w = Mul (v, z)
        o = Identity (w)
      }>
    }""",
}


_QUANTISED = """<ir_version: 10, opset_import: ["" : {opset}]>
g (float[4, 3] x, float[3, 2] w) => (float[4, 2] y) {{
  s = Constant <value = float {{0.05}}> ()
  z = Constant <value = {type} {{0}}> ()
  q = QuantizeLinear (x, s, z)
  d = DequantizeLinear (q, s, z)
  y = MatMul (d, w)
}}"""
"""A tensor quantised as a whole, with 0 for 0."""

_BY_CHANNELS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[4, 3] x, float[3, 2] w) => (float[4, 2] y) {
  s = Constant <value = float[3] {0.05, 0.04, 0.03}> ()
  z = Constant <value = int8[3] {0, 0, 0}> ()
  q = QuantizeLinear <axis = 1> (x, s, z)
  d = DequantizeLinear <axis = 1> (q, s, z)
  y = MatMul (d, w)
}"""


def texts() -> Iterator[tuple[str, str]]:
    """Each model with its name, in ONNX's text form."""
    yield from ((f"model_{name}", text) for name, text in _BODIES.items())
    for type_, opset in itertools.product(("int8", "uint8"), (17, 21)):
        yield f"model_quantised_{type_}_{opset}", _QUANTISED.format(type=type_, opset=opset)
    yield "model_quantised_by_channels", _BY_CHANNELS
    for type_, opset, rank, extra in itertools.product(
        ("float16", "float", "bfloat16"), (23, 24), (4, 3), ("", "mask", "bool_mask", "causal")
    ):
        shape = "[2, 2, 8, 64]" if rank == 4 else "[2, 8, 128]"
        inputs = ", ".join(f"{type_}{shape} {name}" for name in "QKV")
        attributes = [] if rank == 4 else ["q_num_heads = 2", "kv_num_heads = 2"]
        read = "Q, K, V"
        if extra == "mask":
            inputs, read = f"{inputs}, {type_}[8, 8] M", f"{read}, M"
        elif extra == "bool_mask":
            inputs, read = f"{inputs}, bool[8, 8] M", f"{read}, M"
        elif extra == "causal":
            attributes.append("is_causal = 1")
        listed = f" <{', '.join(attributes)}>" if attributes else ""
        nodes = f"Y = Attention{listed} ({read})"
        name = "_".join(filter(None, ("model_attention", type_, str(opset), f"{rank}d", extra)))
        yield name, _HEAD.format(opset=opset, inputs=inputs, outputs=f"{type_}{shape} Y", nodes=nodes)
