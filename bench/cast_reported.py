"""Graphs of float32 that tools were reported to cast wrongly to float16, each cut down to the nodes that matter."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["REPORTED", "Reported"]


class Reported(NamedTuple):
    """A graph.

    Attributes:
        report: Where it was reported.
        what: What it has.
        text: The model, as ONNX's parser takes it.
    """

    report: str
    what: str
    text: str


_HEAD = '<ir_version: 8, opset_import: ["" : {opset}]>\n'


def _reported(report: str, what: str, text: str, opset: int = 17) -> Reported:
    return Reported(report, what, _HEAD.format(opset=opset) + text)


REPORTED = (
    _reported(
        "onnxconverter-common#320, #331",
        "a Cast to float32 in the middle",
        """g (float[4] x, int64[4] i) => (float[4] y) { r = Relu (x)  c = Cast <to = 1> (i)  y = Add (r, c) }""",
    ),
    _reported(
        "onnxruntime#2974",
        "integers cast to float32",
        """g (int64[4] i) => (float[4] y) <float k = {0.1}> { c = Cast <to = 1> (i)  y = Mul (c, k) }""",
    ),
    _reported(
        "onnxconverter-common#287, onnxruntime#20570",
        "RandomNormalLike with a dtype",
        """g (float[4] x) => (float[4] y) <float z = {0}> {
            r = RandomNormalLike <dtype = 1, seed = 1.0> (x)  s = Mul (r, z)  y = Add (s, x)
        }""",
    ),
    _reported(
        "onnxruntime#14827, #1760",
        "the scales of a Resize",
        """g (float[1,1,2,2] x) => (float[1,1,4,4] y) <float[4] s = {1, 1, 2, 2}> {
            r = Relu (x)  y = Resize <mode = "linear"> (r, , s)
        }""",
    ),
    _reported(
        "onnxconverter-common#208",
        "an empty roi of a Resize",
        """g (float[1,1,2,2] x) => (float[1,1,4,4] y) <float[0] e = {}, float[4] s = {1, 1, 2, 2}> {
            r = Relu (x)  y = Resize <mode = "linear"> (r, e, s)
        }""",
    ),
    _reported(
        "onnxruntime#6501",
        "a small constant that is added",
        """g (float[4,8] x) => (float[4,8] y) <float e = {1e-9}> {
            a = Abs (x)  m = ReduceMax <axes = [1]> (a)  p = Add (m, e)  y = Div (x, p)
        }""",
    ),
    _reported(
        "onnxconverter-common#304",
        "a weight of a node that is kept and of one that is not",
        """g (float[1,1,2,2] x) => (float[1,1,2,2] y) <float[4] w = {1, 1, 1, 1}> {
            r = Resize <mode = "nearest"> (x, , w)  t = ReduceMean <axes = [0], keepdims = 0> (w)  y = Mul (r, t)
        }""",
    ),
    _reported(
        "onnxconverter-common#307",
        "a Cast whose result nobody reads",
        """g (float[4] x) => (float[4] y) { c = Cast <to = 1> (x)  d = Cast <to = 1> (x)  y = Relu (d) }""",
    ),
    _reported(
        "onnxconverter-common#271, onnxruntime#20346",
        "Casts in a row",
        """g (float[4] x) => (float[4] y) <float k = {100000}> {
            m = Mul (x, k)  d = Cast <to = 11> (m)  f = Cast <to = 1> (d)  y = Div (f, k)
        }""",
    ),
    _reported(
        "onnxruntime#20189",
        "an If whose branches read values of outside",
        """g (float[4] x, bool b) => (float[4] y) <float k = {2}> {
            r = Relu (x)
            y = If (b) <
                then_branch = t () => (float[4] o) { o = Mul (r, k) },
                else_branch = e () => (float[4] p) { c = Cast <to = 1> (b)  p = Add (r, c) }
            >
        }""",
    ),
    _reported(
        "onnxruntime#1774",
        "the value of a Pad",
        """g (float[2,2] x) => (float[4,2] y) <int64[4] p = {1, 0, 1, 0}, float v = {1.5}> { y = Pad (x, p, v) }""",
    ),
    _reported(
        "TensorRT#4493, #3657",
        "a normalisation in small operators with large values",
        """g (float[4,8] x) => (float[4,8] y) <float k = {500}, float t = {2}, float e = {1e-5}> {
            s = Mul (x, k)  m = ReduceMean <axes = [1]> (s)  d = Sub (s, m)  q = Pow (d, t)
            v = ReduceMean <axes = [1]> (q)  w = Add (v, e)  r = Sqrt (w)  y = Div (d, r)
        }""",
    ),
    _reported(
        "roboflow/rf-detr#1453",
        "a mask of the smallest float32",
        """g (float[2,8] x, bool[2,8] m) => (float[2,8] y) <float z = {0}, float n = {-3.4e38}> {
            w = Where (m, z, n)  a = Add (x, w)  y = Softmax (a)
        }""",
    ),
    _reported(
        "onnxruntime#11245",
        "positions computed in float32",
        """g (int64[4] i) => (float[4,2] y) <float k = {301.3}, float[2] w = {1, 2}> {
            f = Cast <to = 1> (i)  m = Mul (f, k)  o = Floor (m)  c = Cast <to = 7> (o)
            a = Constant <value_ints = [1]> ()  u = Unsqueeze (c, a)  n = Constant <value_int = 3000> ()
            l = Greater (u, n)  d = Cast <to = 1> (l)  y = Add (d, w)
        }""",
    ),
)
