"""All operators of ONNX against the targets: which takes which, and how that is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from opbridge.targets import facts, measured
from opbridge.targets.reading import find_target, names
from opbridge.targets.target import Target

__all__ = ["compared", "markdown", "rows"]

_LEFT_OUT = ("onnx",)


def compared() -> list[Target]:
    """The targets that operators are compared with."""
    return [find_target(each) for each in names() if each not in _LEFT_OUT]


def markdown() -> str:
    """The page: a table with a row for each operator, and a column for each target."""
    targets = compared()
    header = ["operator", *(f"{each.name} {each.version}" for each in targets)]
    lines = [f"| {' | '.join(header)} |", f"| {' | '.join('---' for _ in header)} |"]
    lines += [f"| {' | '.join(row)} |" for row in rows(targets)]
    return "\n".join([_INTRODUCTION, *lines, ""])


_INTRODUCTION = """# Operators and targets

The newest version of each target with known facts. **yes**: the target supports the operator. **partly**: it does
in some forms, types or opsets only; `opbridge targets NAME` lists which. **no**: it does not have it. A cell is empty
where nothing is known. The letter is the source: m measured with ONNX's node tests, p published, a read from the
installed package. [Where a file runs](targets.md) has the details, and [this page](sweeps/targets.html) shows the same
table with search and filters.
"""


def rows(targets: Sequence[Target]) -> Iterator[tuple[str, ...]]:
    """The operators of ONNX's own domain, each with what each target makes of it."""
    import onnx

    every = sorted({each.name for each in onnx.defs.get_all_schemas() if each.domain == "" and not each.deprecated})
    columns = [_column(each) for each in targets]
    for operator in every:
        yield operator, *(column(operator) for column in columns)


class _column:
    """What one target makes of operators."""

    def __init__(self, target: Target) -> None:
        self._name = target.name
        self._by_operator: dict[str, list[facts.Fact]] = defaultdict(list)
        for fact in target.facts:
            for operator in fact.operators:
                self._by_operator[operator].append(fact)
        self._lists = target.of_kind(facts.Only)
        self._taken = measured.taken(target.name)

    def __call__(self, operator: str) -> str:
        if self._name == "onnxruntime":
            return _asked(operator)
        found = self._by_operator.get(operator, [])
        missing = [each for each in found if isinstance(each, facts.Missing) and not each.when]
        if missing:
            return f"no {_how(missing)}"
        limits = [each for each in found if not isinstance(each, facts.Only)]
        if limits:
            return f"partly {_how(limits)}"
        if operator in self._taken:
            return "yes m"
        if any(isinstance(each, facts.Only) for each in found):
            return f"yes {_how(found)}"
        return f"no {_how(self._lists)}" if self._lists else ""


def _asked(operator: str) -> str:
    from opbridge.runtimes import onnxruntime

    return "yes a" if onnxruntime.cpu_kernels().get(operator) else "no a"


def _how(found: Sequence[facts.Fact]) -> str:
    """The first letters of where facts are known from."""
    return "".join(sorted({each.source[:1] for each in found}))
