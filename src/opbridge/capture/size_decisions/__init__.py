"""Decisions that depend on sizes: `if x.shape[0] == 1`. A capture for each kind of sizes, and one graph of all.

1. `regions`: a capture is the model where its conditions on sizes hold: a region. Sizes at which one condition does not
   hold are those of another region.
2. `capturing_sides`: the model is captured for sizes of each region that is found so, if it runs there at all.
3. `sharing`: what is the same in several captures.
4. `joining`: what is common to all captures, and then an operator `cond` on the sizes with the rest of each.
5. `size_numbers`: conditions on sizes as nodes of a graph.

Of many questions, and where one size is compared with another, the ways join again, as those of `decisions` do:

6. `joining_ways`: captures for sizes that take other sides, until each answer was given, and each two together.
7. `questions`: the questions of one of these captures. `running_sizes`: the sizes for which each side of their graph
   runs.

Of questions whose one side does what is nothing on the other one, as padding to a multiple is, there is no side to
decide on:

8. `filling`: one capture that is the model for both answers, if those for other sizes are the same.
9. `asked_questions`: the questions of these captures, with their answers for many sizes. `same_in_region`: whether two
   captures are the same for the sizes of one.
"""

from __future__ import annotations

from opbridge.capture.size_decisions.capturing_sides import WaysOfSizes, asked_zeros, capture_sides
from opbridge.capture.size_decisions.filling import filled
from opbridge.capture.size_decisions.joining import is_same
from opbridge.capture.size_decisions.joining_ways import WayOfSizes

__all__ = ["WayOfSizes", "WaysOfSizes", "asked_zeros", "capture_sides", "filled", "is_same"]
