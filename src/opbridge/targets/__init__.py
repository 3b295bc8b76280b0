"""Targets: what models are to run on, each in its versions, as facts of which every one says where it is known from.

In: the name of a target, or a file that describes one. Out: `Target`. Nothing here looks at a model; `opbridge.rules`
does. Imports `base` and `errors`.
"""

from opbridge.targets.reading import find_target, find_targets, names
from opbridge.targets.target import Opsets, Target

__all__ = ["Opsets", "Target", "find_target", "find_targets", "names"]
