"""All strategies in order, and what runs them."""

from __future__ import annotations

import dataclasses

from opbridge.capture.advice import advise_shapes, reason
from opbridge.capture.assumptions import Assumptions
from opbridge.capture.captured import Captured, Failed, Outcome, SizesContradicted
from opbridge.capture.control_flow import PathsRefused
from opbridge.capture.limits import OutOfTime
from opbridge.capture.related_sizes import Relation, relation_of, restated
from opbridge.capture.session import CaptureSession
from opbridge.capture.strategies.direct import DIRECT, LARGER_EXAMPLE, SYMBOLIC_CALLS
from opbridge.capture.strategies.paths import PATHS
from opbridge.capture.strategies.sizes import LOOPS, OTHER_BRANCH, PADDING, SIZE_BRANCHES
from opbridge.capture.strategies.strategy import NoImprovement, Progress, Strategy, demands_of
from opbridge.capture.strategies.torch_export import STRICT, TORCH_EXPORT, dimensions
from opbridge.errors import CaptureError, OpbridgeError
from opbridge.graph.tried_strategies import CAPTURED, Tried

__all__ = ["STRATEGIES", "run_strategies"]

STRATEGIES = (
    DIRECT,
    PADDING,
    SYMBOLIC_CALLS,
    LARGER_EXAMPLE,
    LOOPS,
    OTHER_BRANCH,
    PATHS,
    SIZE_BRANCHES,
    TORCH_EXPORT,
    STRICT,
)
"""Each is tried once, where its condition holds for what those before it have given."""


def run_strategies(session: CaptureSession) -> tuple[Captured, tuple[Tried, ...]]:
    """The best capture that the strategies give, and what was tried.

    Where the capture requires a relation between dynamic dimensions that the example fulfils, the relation is taken as
    stated in the dynamic shapes, and a note says so; see `related_sizes`. In a strict capture it is an error.

    Raises:
        CaptureError: None gives one; the message is advice.
        UsageError: The model fails by itself, or the inputs or dynamic shapes are of a wrong kind.
    """
    tried: list[Tried] = []
    assumptions = Assumptions.first(session.call.shapes)
    outcome, notes = _outcome(session, assumptions, tried), []
    while assumptions.shapes.axes and not session.config.by_torch_export:
        relation = _relation(session, assumptions, outcome)
        if relation is None:
            break
        if session.config.strict:
            refused = SizesContradicted([(relation.condition, relation.source)])
            said = advise_shapes(refused, refused.conditions, dimensions(assumptions.shapes))
            raise CaptureError(said) from refused
        assumptions = Assumptions.first(restated(assumptions.shapes, relation))
        again = _outcome(session, assumptions, tried)
        if isinstance(again, Failed):
            break
        outcome = again
        notes.append(relation.note())
    if isinstance(outcome, Failed):
        raise outcome.error
    return dataclasses.replace(outcome, notes=(*notes, *outcome.notes)), tuple(tried)


def _outcome(session: CaptureSession, assumptions: Assumptions, tried: list[Tried]) -> Outcome:
    """What the strategies give.

    They are run again where they have found out that copies of tensors matter, which those before that have taken.
    """
    could_copy = session.copying.is_on
    try:
        return _run(Progress(session, assumptions), tried)
    except Exception as error:
        if not could_copy or session.copying.is_on:
            if isinstance(error, CaptureError):
                return Failed(error, assumptions)
            raise
    return _outcome(session, assumptions, tried)


def _run(progress: Progress, tried: list[Tried]) -> Captured:
    """Runs each strategy whose condition holds."""
    for strategy in STRATEGIES:
        if strategy.applies(progress):
            found = _noted(strategy, progress, tried)
            progress = progress if isinstance(found, NoImprovement) else dataclasses.replace(progress, outcome=found)
    assert progress.captured is not None  # the last strategy raises where there is none
    return progress.captured


def _noted(strategy: Strategy, progress: Progress, tried: list[Tried]) -> Outcome | NoImprovement:
    """What a strategy gives, with a note of it."""
    limits = progress.session.limits
    before = limits.executions

    def note(result: str) -> None:
        tried.append(Tried(strategy.name, result, limits.executions - before))

    try:
        found = strategy.run(progress)
    except Exception as error:
        note(_said(error))
        raise
    if isinstance(found, Failed):
        note(_said(found.error))
    elif isinstance(found, NoImprovement):
        note("no improvement" + (f": {_said(found.error)}" if found.error is not None else ""))
    else:
        is_same = progress.captured is not None and found.graph is progress.captured.graph
        note("no improvement" if is_same else CAPTURED)
    return found


_OURS = (OpbridgeError, SizesContradicted, PathsRefused, OutOfTime)


def _said(error: Exception) -> str:
    """An error as the result of a strategy."""
    return str(error).partition("\n")[0] if isinstance(error, _OURS) else reason(error)


def _relation(session: CaptureSession, assumptions: Assumptions, outcome: Outcome) -> Relation | None:
    """A relation between dimensions that the strategies require, and that can be stated; None where there is none."""
    if isinstance(outcome, Failed):
        cause = outcome.error.__cause__
        needed = cause.conditions if isinstance(cause, SizesContradicted) else []
        of_operators = cause.of_operators if isinstance(cause, SizesContradicted) else frozenset()
    else:
        needed = demands_of(session, outcome)
        asked = tuple(each for each in outcome.graph.conditions if each.by_operator)
        by_operators = dataclasses.replace(outcome, graph=dataclasses.replace(outcome.graph, conditions=asked))
        of_operators = frozenset(text for text, _ in demands_of(session, by_operators)) if needed else frozenset()
    return relation_of(needed, of_operators, assumptions.shapes) if needed else None
