"""Models from float32 to float16 or bfloat16, with results that are compared.

In: any ONNX file, and a format. Out: a `Narrowed`: the model, the nodes that stay in float32 with the reasons, and
how the two models compare; or a refusal.
May import: conversion, rules, save, side_by_side, runtimes, onnx, base.

casting.py       a file, cast, compared and written
steps.py         what that is made of
calls.py         functions: inlined, and put back in their new types
formats.py       the two formats, and constants in them
types.py         which values of a model are of float32
forms.py         which inputs and outputs of a node take a format
rewriting.py     a model in its new types
choosing.py      the nodes that stay in float32 before anything is compared
instruments.py   nodes that are added to a copy of a model, to look into it
measuring.py     what its values reach, and what each node loses
simulating.py    a copy in which each node rounds or not, as it is told
searching.py     the nodes that cost most, by halves
tensors.py       tensors of float32 in a format
sharing.py       the models of the steps, with weights that are written once or not at all
emulating.py     the cast model in float32, with every rounding
feeding.py       inputs to run both on
drawn.py         outputs of random numbers, which cannot be compared
judging.py       how far outputs are apart
report.py        what is said of it
"""

from __future__ import annotations

from opbridge.precision.casting import cast, cast_for, with_kept_file
from opbridge.precision.report import Kept, Narrowed

__all__ = ["Kept", "Narrowed", "cast", "cast_for", "with_kept_file"]
