"""Repairs what rules find in a model for its targets, with proof that the results are as they were.

In: any ONNX file, and the names of targets; or a model in memory, with its targets. Out: `Fixed`, and a file; or the
changes that were made. Imports `conversion`, `rules`, `targets`, `save`, `side_by_side`, `runtimes`, `onnx`, `base`.

fix.py           a file, repaired, compared and written
attempts.py      a file, again and again without the repairs that fail
repairing.py     a model, round after round
site.py          the place of a finding: what repairs look at and build with
families/        the repairs, one file a family
engines.py       both models, built by TensorRT-RTX
evaluator.py     the original by ONNX's reference evaluator
"""

from opbridge.fixing.fix import Fixed, difference, fix
from opbridge.fixing.repairing import Broken, Change, Key, note_broken, repaired, repaired_copy
from opbridge.fixing.site import has_repair

__all__ = [
    "Broken",
    "Change",
    "Fixed",
    "Key",
    "difference",
    "fix",
    "has_repair",
    "note_broken",
    "repaired",
    "repaired_copy",
]
