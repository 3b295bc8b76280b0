"""Two ONNX models side by side on the same random inputs: whether one that was made of the other gives the same.

In: two files. Out: `SideBySide`. Imports `runtimes` and `errors`.
"""

from opbridge.side_by_side.ends import in_float32, narrowed
from opbridge.side_by_side.results import Run, SideBySide
from opbridge.side_by_side.running import (
    compare,
    difference,
    draws,
    feeds_of_shapes,
    first_that_runs,
    is_random,
    random_feeds,
)

__all__ = [
    "Run",
    "SideBySide",
    "compare",
    "difference",
    "draws",
    "feeds_of_shapes",
    "first_that_runs",
    "in_float32",
    "is_random",
    "narrowed",
    "random_feeds",
]
