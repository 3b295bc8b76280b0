"""Models from one opset to another, with the same results.

In: any ONNX file and an opset. Out: a `Conversion`: the model, what was changed, and how the two compare; or a
refusal that names every node. A node goes from opset to opset through the changes of its operator: `steps`.
May import: save, side_by_side, runtimes, onnx, base.

convert.py       a file, converted, compared and written
steps.py         a model, node by node
older.py         a node in operators that are older than its own
placing.py       nodes in the place of others
names.py         names for what is built
step.py          what the adapters are written with
adapters/        what to do at each change, one file a family
functions.py     operators replaced by their definitions
widening.py      calls in a wider type
schemas.py       the forms of operators
types.py         the types of values
report.py        what is said of it
"""

from __future__ import annotations

from opbridge.conversion.converting import OLDEST, convert
from opbridge.conversion.report import Change, Conversion, Refusal

__all__ = ["OLDEST", "Change", "Conversion", "Refusal", "convert"]
