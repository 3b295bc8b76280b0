"""The first operator that differs, in few runs that fetch few values: from PyTorch, between files or runtimes.

In: a file, and a PyTorch model with example inputs, another file, or another runtime or level of optimisations.
Out: a `Bisection` with its culprit and a reproducer; a `FileComparison` of the outputs alone.
May import: what verification does, and conversion, fixing, request, rules, side_by_side and torchscript.

bisecting.py           `opbridge.bisect`
comparing.py           `opbridge.compare`
files.py               one side: a file in a runtime, whose parts run
unending.py            models whose runs may never end
workspace.py           parts of a file that share its weights on disk
pytorch.py             one side: a PyTorch model
feeding.py             the inputs
types.py               what is known of values before they are computed
matching.py            which value of one file is which of another
graphs.py              the values that can be compared
search.py              cuts of a graph, until one value is left
locating.py            the search in two files, and the operator alone
beside_pytorch.py      PyTorch and a file, on the example inputs and on others
captured_pair.py       the search in a captured graph and a file, and the operator alone
captured_loops.py      PyTorch's side of a Loop or Scan
within_translation.py  the node that differs in the translation of one operator
fresh_translation.py   what opbridge makes of that operator now
same_nodes.py          two models whose values have the same places
by_values.py           values that are the same in what they hold
regions.py             where two sides part that are matched so
entering.py            branches and functions, as graphs of their own
iterations.py          the first iteration of a Loop or Scan that differs
judging.py             values compared
metadata.py            where a node comes from
cases.py               what shows a difference again
reproducing.py         the same as files and a script
report.py              what was found, in words and as data
"""

from __future__ import annotations

from opbridge.verification.bisection.bisecting import bisect
from opbridge.verification.bisection.comparing import FileComparison, compare
from opbridge.verification.bisection.report import Bisection

__all__ = ["Bisection", "FileComparison", "bisect", "compare"]
