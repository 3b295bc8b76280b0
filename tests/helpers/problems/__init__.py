"""Problems that people reported of targets (`T3` and the like: the list in targets.md), each as a tiny model.

Beside each is a model of the same operators that the target takes. `LEFT_OUT` says which reports have no model here,
and why.
"""

from __future__ import annotations

from collections import Counter

from helpers.problems.left_out import LEFT_OUT
from helpers.problems.of_onnxruntime import PROBLEMS as OF_ONNXRUNTIME
from helpers.problems.of_others import PROBLEMS as OF_OTHERS
from helpers.problems.of_tensorrt import PROBLEMS as OF_TENSORRT
from helpers.problems.problem import Problem

__all__ = ["LEFT_OUT", "PROBLEMS", "Problem", "counts"]

PROBLEMS: tuple[Problem, ...] = (*OF_TENSORRT, *OF_ONNXRUNTIME, *OF_OTHERS)
"""All of them."""


def counts() -> dict[str, int]:
    """How many reports there are as models, how many of these are repairable, and how many were left out, by kind."""
    found = Counter(each.kind for each in PROBLEMS)
    return {
        "problems": len(PROBLEMS),
        **{f"of a {kind}": number for kind, number in sorted(found.items())},
        "repairable": sum(each.repairable for each in PROBLEMS),
        "clean models": sum(len(each.clean) for each in PROBLEMS),
        "left out": len(LEFT_OUT),
    }
