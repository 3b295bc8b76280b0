"""Decisions that depend on data: `if x.sum() > 0`. All ways that a model can take become one graph.

1. `answers`: one run of the model, in which a truth value that only data decides is answered as it is told to. The
   graph of that way has a mark where Python asked, with what Python's variables hold there.
2. `ways`: the model is captured until every decision has got both answers, each together with every answer that may
   come before it. Where Python is at the same place again, and its variables hold the same but for values of the graph,
   ways have joined: what follows is the same for both. `exploring` makes the captures.
3. `flow`: the operators between two decisions are a block. A value that is another node in each of the blocks before it
   is a variable of a block, as in SSA form.
4. `merging`: the blocks run as one model, whose decisions are operators `cond`, and are captured as any model is.

Where two ways that seemed to have joined do not do the same, the model is captured with no two ways joined.
"""

from __future__ import annotations

from opbridge.capture.decisions.capturing_ways import capture_decisions
from opbridge.capture.decisions.ways import WaysRefused

__all__ = ["WaysRefused", "capture_decisions"]
