"""Settings for every test."""

from __future__ import annotations

import os

# pytest-xdist starts one process a core. More threads in each of them, or in a process that a test starts, only take
# turns; a test that is about threads asks for them. OpenMP reads this when torch is imported, so it is set before.
os.environ.setdefault("OMP_NUM_THREADS", "1")
