"""Which operators cross to ONNX, by which route, and whether they are right: a sweep over a database of samples.

In: a database of operators with samples, and what to try of it.
Out: the outcome of every sample, counted by operator.
May import: everything but cli.

from opbridge.coverage import sweep

if __name__ == "__main__":  # worker processes import the script again
    results = sweep("linalg.*", samples=3, output="results.json")
    print(results.summary())
"""

from __future__ import annotations

from opbridge.coverage.results import Results
from opbridge.coverage.sweep import sweep

__all__ = ["Results", "sweep"]
