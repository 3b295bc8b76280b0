"""Repairs what rules find in a model for its targets, with proof that the results are as they were.

In: any ONNX file, and the names of targets. Out: `Fixed`, and a file. Imports `rules`, `targets`, `save`,
`side_by_side`, `onnx`, `base`.
"""

from opbridge.fixing.fix import Change, Fixed, difference, fix
from opbridge.fixing.repairs import REPAIRS

__all__ = ["REPAIRS", "Change", "Fixed", "difference", "fix"]
