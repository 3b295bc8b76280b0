"""Conditions made of others, and whether several hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from opbridge.capture.guards.decisions import decided, implied
from opbridge.capture.guards.expressions import holds_at
from opbridge.capture.guards.samples import Range
from opbridge.graph.captured_graph import SizeCondition

__all__ = ["Conditions", "hold", "is_trivial", "negated", "of_one_region", "only_where", "unnegated"]

Conditions = tuple[SizeCondition, ...]
"""What all has to hold of the sizes."""

_NOT, _END = "not (", ")"


def hold(conditions: Iterable[SizeCondition], sizes: Mapping[str, int]) -> bool:
    """Whether all conditions hold for sizes; one on a symbol that has no size does."""
    return all(holds_at(each.expression, sizes) for each in conditions if sizes.keys() >= set(each.symbols))


def is_trivial(condition: SizeCondition, ranges: Mapping[str, Range]) -> bool:
    """Whether a condition holds for all sizes that a graph is asked for, as far as is known."""
    return decided(condition.expression, ranges).holds


def of_one_region(regions: Sequence[Conditions]) -> tuple[str, tuple[str, ...]]:
    """The condition that sizes are of one of several regions, as a Python expression, and its symbols."""
    expressions = [{each.expression for each in region} for region in regions]
    regions = [
        region
        for number, region in enumerate(regions)
        if not any(  # which is within another one
            other < expressions[number] or (other == expressions[number] and position < number)
            for position, other in enumerate(expressions)
        )
    ]
    told = [
        region[0].expression if len(region) == 1 else " and ".join(f"({each.expression})" for each in region) or "True"
        for region in regions
    ]
    expression = " or ".join(f"({each})" for each in told) if len(told) > 1 else told[0]
    symbols = {symbol for region in regions for each in region for symbol in each.symbols}
    return expression, tuple(sorted(symbols))


def only_where(
    before: Sequence[SizeCondition], condition: SizeCondition, ranges: Mapping[str, Range]
) -> SizeCondition | None:
    """A condition that has to hold only where others do; None where it does so anyway, as far as is known."""
    if implied(condition.expression, [each.expression for each in before], ranges).holds:
        return None
    if not before:
        return condition
    text = " or ".join((*(f"(not ({each.expression}))" for each in before), f"({condition.expression})"))
    symbols = sorted({symbol for each in (*before, condition) for symbol in each.symbols})
    return dataclasses.replace(condition, expression=text, symbols=tuple(symbols))


def negated(condition: SizeCondition) -> SizeCondition:
    """The opposite of a condition."""
    return dataclasses.replace(condition, expression=f"{_NOT}{condition.expression}{_END}")


def unnegated(condition: SizeCondition) -> str:
    """The expression of a condition, or that of which it is the opposite."""
    text = condition.expression
    return text.removeprefix(_NOT).removesuffix(_END) if text.startswith(_NOT) and text.endswith(_END) else text
