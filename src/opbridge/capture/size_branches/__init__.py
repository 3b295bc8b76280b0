"""Branches that depend on sizes: `if x.shape[0] == 1`. A capture for each region of sizes, and one graph of all.

1. `regions`: a captured graph is valid for the sizes at which its guards hold: a region. Sizes at which one guard does
   not hold are those of another region.
2. `capturing_branches`: the model is captured for sizes of each region that is found so, if it runs there at all.
3. `joining`: what is common to all captures (`capture.value_numbers`), and then an operator `cond` on the sizes with
   the rest of each.
4. `size_numbers`: conditions on sizes as nodes of a graph.

Where a model asks many questions, or compares one size with another, its paths merge again, as in `control_flow`:

5. `joining_paths`: captures for sizes that take other branches, until each answer was given, and each two together.
6. `questions`: the questions of one of these captures. `running_sizes`: the sizes for which each branch of their graph
   runs.

A question of which one branch does what changes nothing on the other, as padding to a multiple does, needs no branch:

7. `filling`: one capture that is valid for both answers, if those for other sizes are the same.
8. `asked_questions`: the questions of these captures, with their answers for many sizes. `same_in_region`: whether two
   captures are the same for the sizes of one.
"""

from __future__ import annotations

from opbridge.capture.size_branches.capturing_branches import SizePaths, asked_zeros, capture_branches
from opbridge.capture.size_branches.filling import filled
from opbridge.capture.size_branches.joining_paths import SizePath

__all__ = ["SizePath", "SizePaths", "asked_zeros", "capture_branches", "filled"]
