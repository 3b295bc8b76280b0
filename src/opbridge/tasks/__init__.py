"""What a model is exported for: `task=`, which makes the inputs, the dynamic shapes, and what they are verified with.

In: a model.
Out: Prepared: the inputs and options of its export.
May import: capture, base, errors.
"""

from opbridge.tasks.genai import GenaiFolder, genai_folder
from opbridge.tasks.prepared import TASKS, Prepared, prepare
from opbridge.tasks.suggested import suggestion

__all__ = ["TASKS", "GenaiFolder", "Prepared", "genai_folder", "prepare", "suggestion"]
