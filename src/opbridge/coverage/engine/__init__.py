"""What every sweep stands on: worker processes here or on a cluster, the journal, the file of results.

In: `Work`, which says what is to be tried and how, and the tasks.
Out: the verdict on each task.
"""

from __future__ import annotations
