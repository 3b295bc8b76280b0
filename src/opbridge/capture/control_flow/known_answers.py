"""Questions whose answers one execution path knows, where other paths are asked for them at the same place.

    boxes = boxes * 2 if len(boxes) == 1 else boxes[:100]
    for _ in range(n):
        boxes = refine(boxes)
    if len(boxes) > 0:

After the first answer True, the last line asks nothing: a number that is 1 is above 0. The same holds of a size that is
a dynamic dimension, whose answer is that of the example. In the other paths data decide it, and paths that are the same
at the loop would differ after it. When the model is executed again, such a question is an event like the others, with
the answer that the path knows. Whether what the other paths compute for it gives that answer is checked where the paths
are merged; see `known_numbers`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

__all__ = ["AskedPlaces"]


class AskedPlaces:
    """The places at which earlier runs were asked for an answer.

    Args:
        places: The places, as branch events have them.
    """

    def __init__(self, places: Collection[Any]) -> None:
        self._places = frozenset(places)
        self._at: frozenset[Hashable] = frozenset(at for (at, _), _ in places)

    def has_at(self, at: Hashable) -> bool:
        """Whether there is one where Python is, whatever its variables hold."""
        return at in self._at

    def __contains__(self, place: Hashable) -> bool:
        return place in self._places
