"""Which tensors a kernel writes to, found in Triton's own form of it (TTIR)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

__all__ = ["written_parameters"]

_FUNCTION = re.compile(r"tt\.func\s+(?:public|private)?\s*@(?P<name>[\w.$\"<>,-]+)\((?P<parameters>.*)")
_PARAMETER = re.compile(r"(%[\w$.-]+):\s*(!?[\w.]+)")
_NAME = re.compile(r"%[\w$.-]+(?:#\d+)?")
_RESULT = re.compile(r"^\s*(?P<name>%[\w$.-]+)(?::(?P<count>\d+))?\s*=\s*(?P<rest>.*)$")
_BLOCK = re.compile(r"^\s*\^\w+\((?P<arguments>.*)\):")
_CALL = re.compile(r"tt\.call\s+@(?P<name>[\w.$\"<>,-]+)\((?P<arguments>[^)]*)\)")
_WORD = re.compile(r"^\"?(?P<word>[\w.]+)")

# Operations of which nobody says here what they do with an address.
_OPAQUE = frozenset({"tt.elementwise_inline_asm", "tt.extern_elementwise"})


def written_parameters(ttir: str, kernel: str) -> tuple[int, ...]:
    """The numbers of the parameters that are addresses of memory which a kernel writes to.

    1. The address of each store is followed back through the operations that it was computed by, up to the parameters.
       A value that was loaded is no address.
    2. What a loop carries is followed to what it begins with and to what a turn gives; a call of another function, to
       the parameters that this one writes to.

    An address that may be one of several counts as each of them.

    Args:
        ttir: The module, as text.
        kernel: The name of its function.
    """
    functions = {each.name: each for each in _functions(ttir)}
    found = functions.get(kernel) or next(iter(functions.values()))
    return tuple(sorted(found.written(functions, ())))


def _functions(ttir: str) -> Iterator[_Function]:
    function: _Function | None = None
    for line in ttir.splitlines():
        begins = _FUNCTION.search(line)
        if begins is not None:
            if function is not None:
                yield function
            function = _Function(begins["name"], begins["parameters"])
        elif function is not None:
            function.read(line)
    if function is not None:
        yield function


class _Function:
    """A function: its parameters, what each value is computed from, and the addresses of its stores."""

    def __init__(self, name: str, parameters: str) -> None:
        self.name = name
        listed = [(match[1], match[2]) for match in _PARAMETER.finditer(parameters)]
        self.numbers = {parameter: number for number, (parameter, _) in enumerate(listed)}
        self.addresses = {parameter for parameter, type_ in listed if type_.startswith("!tt.ptr")}
        self.sources: defaultdict[str, set[str]] = defaultdict(set)
        self.stores: set[str] = set()
        self.calls: list[tuple[str, list[str]]] = []
        self._open: list[_Region | None] = []
        self._jumps: set[str] = set()
        self._blocks: set[str] = set()

    def read(self, line: str) -> None:
        """Reads one line of the function."""
        line = line.partition(" loc(")[0]
        block = _BLOCK.match(line)
        if block is not None:
            names = _NAME.findall(block["arguments"])
            region = next((each for each in reversed(self._open) if each is not None and each.is_while), None)
            if region is not None:
                region.carried.extend(names)
                for name in names:  # what the condition gives comes before
                    self.sources[name].update(region.values)
            else:
                self._blocks.update(names)
            return
        stripped = line.strip()
        for _ in range(stripped.count("}") - _balanced(stripped)):
            if stripped.startswith("}") and self._open:
                closed = self._open.pop()
                if stripped.endswith("{"):  # else, do
                    self._open.append(closed)
                    return
        result = _RESULT.match(line)
        rest = result["rest"] if result is not None else stripped
        word = _WORD.match(rest)
        if word is None:
            return
        self._operation(word["word"], rest, _results(result))
        if stripped.endswith("{"):
            self._open.append(self._region(word["word"], rest, _results(result)))

    def _operation(self, word: str, rest: str, results: Sequence[str]) -> None:
        operands = _NAME.findall(rest)
        if word in ("scf.yield", "scf.condition"):
            region = next((each for each in reversed(self._open) if each is not None), None)
            if region is not None:
                self._carry(region, operands)
        elif word.startswith("cf."):
            self._jumps.update(operands)
        elif word == "tt.call":
            call = _CALL.search(rest)
            if call is not None:
                self.calls.append((call["name"], _NAME.findall(call["arguments"])))
            for each in results:
                self.sources[each].update(operands)
        elif "store" in word or "atomic" in word or word.endswith("_reduce") or word in _OPAQUE:
            self.stores.update(operands if word in _OPAQUE else operands[:1])
        elif word != "tt.load":
            for each in results:
                self.sources[each].update(operands)

    def _region(self, word: str, rest: str, results: Sequence[str]) -> _Region | None:
        if word not in ("scf.for", "scf.while", "scf.if"):
            return None
        pairs = re.findall(rf"({_NAME.pattern})\s*=\s*({_NAME.pattern})", rest)
        if word == "scf.for":
            pairs = pairs[1:]  # the first one is the counter
        for carried, begin in pairs:
            self.sources[carried].add(begin)
        return _Region(list(results), [carried for carried, _ in pairs], word == "scf.while")

    def _carry(self, region: _Region, values: Sequence[str]) -> None:
        region.values.update(values)
        if region.is_while:  # what it tests and what it carries may stand in another order
            for each in (*region.results, *region.carried):
                self.sources[each].update(values)
            return
        for names in (region.results, region.carried):
            for name, value in zip(names, values, strict=False):
                self.sources[name].add(value)

    def written(self, functions: dict[str, _Function], inside: tuple[str, ...]) -> set[int]:
        """The numbers of the parameters that it writes to."""
        for each in self._blocks:
            self.sources[each].update(self._jumps)
        begin = set(self.stores)
        for name, arguments in self.calls:
            called = functions.get(name)
            if called is None or name in inside:
                begin.update(arguments)
                continue
            numbers = called.written(functions, (*inside, self.name))
            begin.update(argument for number, argument in enumerate(arguments) if number in numbers)
        seen: set[str] = set()
        waiting = list(begin)
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            waiting.extend(self.sources.get(name, ()))
            base = name.partition("#")[0]
            if base != name:
                waiting.extend(self.sources.get(base, ()))
        return {self.numbers[name] for name in seen & self.addresses}


class _Region:
    def __init__(self, results: list[str], carried: list[str], is_while: bool) -> None:
        self.results, self.carried, self.is_while = results, carried, is_while
        self.values: set[str] = set()


def _results(found: re.Match[str] | None) -> list[str]:
    if found is None:
        return []
    if found["count"] is None:
        return [found["name"]]
    return [f"{found['name']}#{number}" for number in range(int(found["count"]))]


def _balanced(line: str) -> int:
    """How many closing braces of a line close what it opens itself, as the attributes of an operation do."""
    opened = closed = 0
    for character in line:
        if character == "{":
            opened += 1
        elif character == "}" and opened > closed:
            closed += 1
    return closed
