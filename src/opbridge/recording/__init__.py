"""Models exported from calls that were recorded: `opbridge.record`.

In: a module, and real calls of it.
Out: example inputs, dynamic dimensions, and inputs for the verification.
May import: the pipeline, and what it stands on.

| module | |
| --- | --- |
| recorder | `record` and `Recording`: the hooks on the module |
| groups | the calls of one signature, and what they are exported with |
| calls | one call: its inputs in one form, copied |
| dimensions | which dimensions vary, and what they are called |
"""

from __future__ import annotations

from opbridge.recording.groups import CallGroup
from opbridge.recording.recorder import Recording, record

__all__ = ["CallGroup", "Recording", "record"]
