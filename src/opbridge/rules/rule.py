"""What a rule is: a class that looks at a model for a target, and the list of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import onnx_ir as ir

from opbridge.rules.looking import Looked
from opbridge.targets.facts import Fact

__all__ = ["FactRule", "Hit", "ModelRule", "NodeRule", "Rule"]


@dataclass(frozen=True)
class Hit:
    """One place that a rule found.

    Attributes:
        message: What is so, in one sentence.
        node: The node; None: the whole model.
        remedy: What to do, where that is not what the rule says of all places.
        severity: Where it is not what the fact or the rule says.
        source: Where it is known from, where no fact says so.
    """

    message: str
    node: ir.Node | None = None
    remedy: str = ""
    severity: str = ""
    source: str = ""


class Rule:
    """A rule.

    Attributes:
        identifier: Its name, by which people select and ignore it.
        title: What it finds, in a few words.
        why: Why that is a problem: one or two sentences.
        remedy: What to do about it: one sentence.
        severity: Of what it finds, where no fact says otherwise.
        always: Whether it applies whatever the target, by the specification of ONNX.
        asked: Whether it applies only where it is selected: what it finds is no fault of the model.
        of_malformed: Whether it looks at nodes too that are not as their operator's schema has them.
    """

    identifier: ClassVar[str] = ""
    title: ClassVar[str] = ""
    why: ClassVar[str] = ""
    remedy: ClassVar[str] = ""
    severity: ClassVar[str] = "error"
    always: ClassVar[bool] = False
    asked: ClassVar[bool] = False
    of_malformed: ClassVar[bool] = False


class FactRule(Rule):
    """A rule that reads facts of one kind, and looks at one node at a time."""

    kind: ClassVar[type[Fact]]

    def hits(self, node: ir.Node, fact: Any, looked: Looked) -> Iterator[Hit]:
        """What it finds at a node of the fact's operators; the fact is one of its kind."""
        raise NotImplementedError


class NodeRule(Rule):
    """A rule that looks at one node at a time, with what is around it.

    Attributes:
        operators: The operators that it looks at; none: all.
    """

    operators: ClassVar[frozenset[str]] = frozenset()

    def hits(self, node: ir.Node, looked: Looked) -> Iterator[Hit]:
        """What it finds at a node."""
        raise NotImplementedError


class ModelRule(Rule):
    """A rule that looks at the whole model."""

    def hits(self, looked: Looked) -> Iterator[Hit]:
        """What it finds."""
        raise NotImplementedError
