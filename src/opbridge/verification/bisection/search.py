"""The search for the first value that differs, in few runs that fetch few values each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Probe", "Search", "Values", "search"]

_MOST_CUTS = 15
"""So many cuts are fetched in one run, if they are small."""

_FEW_VALUES = 64
"""So many values are fetched all at once, if they are small."""

_MOST_ATTEMPTS = 12
"""So many cuts are tried where a cut changes the results."""


@dataclass(frozen=True)
class Values:
    """The values of a graph that can be compared.

    Attributes:
        order: Their names, each after those that it depends on.
        parents: For each, the nearest ones that it depends on.
        sizes: Their sizes in bytes.
    """

    order: Sequence[str]
    parents: Mapping[str, Sequence[str]]
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Probe:
    """What a run that fetched values has shown.

    Attributes:
        differing: Those that differ.
        undisturbed: Whether the value that the search is for still differs in that run. If it does not, and no other
            does, a runtime computes otherwise when these values are fetched.
    """

    differing: frozenset[str]
    undisturbed: bool = True


@dataclass
class Search:
    """The result of a search.

    Attributes:
        value: The first value that differs: those that it depends on agree.
        region: The values among which the difference arises, the last of which is `value`. More than one if fetching
            them removes the difference.
        agreeing: The values that were found to agree.
        differing: The values that were found to differ.
        disturbing: The values that, when fetched, removed the difference.
    """

    value: str
    region: list[str]
    agreeing: set[str] = field(default_factory=set)
    differing: set[str] = field(default_factory=set)
    disturbing: list[str] = field(default_factory=list)


def search(values: Values, wrong: str, probe: Callable[[Sequence[str]], Probe], budget: int) -> Search:
    """Finds a value that differs and that depends on none that do.

    The region is a set of values: the last one differs, and what the others depend on outside of the region agrees. A
    run fetches cuts of the region, each a set of values that separates what is before it from what is behind. If one of
    them differs, it and what it depends on are the new region; else what is behind the cut is. So a difference that
    later operators cancel or hide does not mislead the search. Each run leaves half of the region or less.

    Args:
        values: The values of the graph.
        wrong: A value that differs.
        probe: Fetches values on both sides and compares them.
        budget: The bytes that a run may fetch in addition to one cut.
    """
    place = {name: at for at, name in enumerate(values.order)}
    found = Search(wrong, [], differing={wrong})
    tried: set[frozenset[str]] = set()
    attempts = 0

    def narrow() -> None:
        found.region = _region(values, found.value, found.agreeing, place)

    narrow()
    while len(found.region) > 1:
        names = _chosen(values, found.region, budget, bool(attempts))
        if attempts:  # fetching has changed the results: one cut after the other
            cut = next((each for each in _single_cuts(values, found.region) if each not in tried), None)
            if cut is None or attempts > _MOST_ATTEMPTS:
                break
            names = sorted(cut, key=place.__getitem__)
        tried.add(frozenset(names))
        shown = probe(names)
        differing = [name for name in names if name in shown.differing]
        if not differing and not shown.undisturbed:
            attempts += 1
            found.disturbing.extend(name for name in names if name not in found.disturbing)
            continue
        found.differing.update(differing)
        if shown.undisturbed:
            found.agreeing.update(name for name in names if name not in shown.differing)
        else:  # what agrees may do so only in this run
            first = differing[0]
            found.agreeing.update(name for name in names if place[name] < place[first])
        if differing:
            found.value = differing[0]
        narrow()
    return found


def _region(values: Values, last: str, agreeing: set[str], place: Mapping[str, int]) -> list[str]:
    """A value and what it depends on, back to values that agree, in order."""
    seen = {last}
    pending = [last]
    while pending:
        for parent in values.parents[pending.pop()]:
            if parent not in seen and parent not in agreeing:
                seen.add(parent)
                pending.append(parent)
    return sorted(seen, key=place.__getitem__)


def _chosen(values: Values, region: Sequence[str], budget: int, single: bool) -> list[str]:
    """The values to fetch next: all of a small region, or as many cuts as the budget allows."""
    inner = region[:-1]
    if len(inner) <= _FEW_VALUES and sum(values.sizes[name] for name in inner) <= budget:
        return list(inner)
    sizes, members = _cuts(values, region)
    count = len(region) - 1
    for cuts in range(_MOST_CUTS, 0, -2):
        window = max(1, count // (cuts + 1) // 8)
        middles = [count * (number + 1) // (cuts + 1) for number in range(cuts)]
        # Near the middle, the smallest cut.
        places = {
            min(
                range(max(0, middle - window), min(count, middle + window + 1)),
                key=lambda at: (sizes[at], abs(at - middle)),
            )
            for middle in middles
        }
        names = {name for at in places for name in members(at)}
        if cuts == 1 or sum(values.sizes[name] for name in names) <= budget:
            return [name for name in region if name in names]
    raise AssertionError("one cut is always taken")


def _cuts(values: Values, region: Sequence[str]) -> tuple[list[int], Callable[[int], list[str]]]:
    """For each place of a region, the bytes of the cut behind it; and what gives the values of that cut."""
    place = {name: at for at, name in enumerate(region)}
    last = list(range(len(region)))
    for at, name in enumerate(region):
        for parent in values.parents[name]:
            if parent in place:
                last[place[parent]] = at
    change = [0] * (len(region) + 1)
    for at, name in enumerate(region):
        change[at] += values.sizes[name]
        change[last[at]] -= values.sizes[name]
    sizes, total = [], 0
    for each in change[:-1]:
        total += each
        sizes.append(total)
    return sizes, lambda at: [name for number, name in enumerate(region[: at + 1]) if last[number] > at]


def _single_cuts(values: Values, region: Sequence[str]) -> Iterator[frozenset[str]]:
    """Cuts of a region, those in its middle first."""
    _, members = _cuts(values, region)
    count = len(region) - 1
    parts = 2
    seen: set[int] = set()
    while len(seen) < count:
        for number in range(1, parts):
            at = min(count * number // parts, count - 1)
            if at not in seen:
                seen.add(at)
                yield frozenset(members(at))
        parts *= 2
