"""Several models that belong together, such as an encoder and a decoder: exported as one set of files.

In: models by name, with example inputs each, and a function that runs the whole pipeline.
Out: one folder with a file for each and one for their weights; the programs and their verifications.
May import: recording, the pipeline, and what it stands on.

| module | |
| --- | --- |
| parts | `Parts`: the forms that parts are given in |
| data | the parts, and what becomes of them |
| exporting | check, export and verify, of all parts |
| folder | the folder of a set |
"""

from __future__ import annotations

from opbridge.parts.data import ExportedParts, PartsVerification
from opbridge.parts.parts import Parts

__all__ = ["ExportedParts", "Parts", "PartsVerification"]
