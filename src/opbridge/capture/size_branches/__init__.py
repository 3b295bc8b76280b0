"""Branches that depend on sizes: `if x.shape[0] == 1`. A capture for each region of sizes, and one graph of all.

A captured graph is valid for the sizes at which its guards hold: a region. Sizes at which one guard does not hold are
those of another region; `capture.guards` finds them.

1. `capturing_branches`: the model is captured for sizes of each region that is found so, if it runs there at all.
2. `joining`: what is common to all captures (`capture.value_numbers`), and then an operator `cond` on the sizes with
   the rest of each.
3. `size_numbers`: conditions on sizes as nodes of a graph.

Where a model has many conditions, or compares one size with another, its paths merge again, as in `control_flow`:

4. `explored_paths`: captures for sizes that take other branches, until each answer was given, and each two together.
   `joining_paths`: the graph of all, and what it demands of the sizes.
5. `path_conditions`: the conditions of one of these captures. `running_sizes`: the sizes for which each branch of their
   graph runs.

A condition one branch of which does what changes nothing on the other, as padding to a multiple does, needs no branch:

6. `continued_padding`: one capture that is valid for both answers, if those for other sizes are the same.
7. `asked_conditions`: the conditions of these captures, with their answers for many sizes.
   `same_where`: whether a capture, specialised for the sizes of another one, is that one.

Both run the model for other sizes, and compare captures with it there, by `model_runs`.
"""

from __future__ import annotations

from opbridge.capture.size_branches.capturing_branches import SizePaths, asked_zeros, capture_branches
from opbridge.capture.size_branches.continued_padding import padding_continued
from opbridge.capture.size_branches.explored_paths import SizePath

__all__ = ["SizePath", "SizePaths", "asked_zeros", "capture_branches", "padding_continued"]
