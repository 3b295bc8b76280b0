"""The strategies for a capture, in the order in which they are tried. Each is data: a name, a condition, what it does.

| module | |
| --- | --- |
| strategy | a Strategy, and the Progress that its condition is about |
| direct | the direct capture of the model on its example, and with more freedom for sizes |
| sizes | captures that are valid for sizes on which the model takes another branch than on the example |
| paths | the capture of all paths that data may make the model take |
| larger_example | when a capture of a larger example stands for one of the example |
| torch_export | torch.export, and advice where nothing else succeeds |
| ordered | all strategies in order, and what runs them |

A strategy gets the progress so far and returns a better outcome, or that it has none. It changes neither: what is tried
and does not help leaves no trace but its entry in the list of what was tried. To add one, write it in the module that
it belongs to, and give it its place in `ordered.STRATEGIES`.
"""

from __future__ import annotations

from opbridge.capture.strategies.ordered import STRATEGIES, run_strategies

__all__ = ["STRATEGIES", "run_strategies"]
