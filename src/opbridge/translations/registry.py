"""The registry of translations: the user's, opbridge's and torchlib's, in that order of preference."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from opbridge.errors import UsageError
from opbridge.onnx.opsets import OLDEST, WRITTEN_FOR

__all__ = [
    "Registry",
    "Translation",
    "add_kernel",
    "add_launch",
    "builtin",
    "operator_called",
    "override",
    "registered",
    "translation",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_OPERATOR = re.compile(r"[A-Za-z_]\w*::\w+(\.\w+)?")

ORDER = {"user": 0, "kernel": 1, "opbridge": 2, "torchlib": 3}


@dataclass(frozen=True)
class Translation:
    """A Python function that builds the ONNX nodes for one operator.

    Attributes:
        operator: The operator, `namespace::name` or `namespace::name.overload`; the default overload has no suffix.
        function: Called with the operator's arguments in its schema's order: tensors as values of the graph, the rest
            as Python values, dtypes as ONNX element types (-1 for None).
        opset: The opset that it is written for; `since` is the first that it is used with.
        origin: Whose it is: "user", "opbridge" or "torchlib"; "kernel" for the node of a library's operator.
        complex: Whether it is for complex inputs, which arrive as real tensors with a trailing dimension of 2.
        route: "standard" where the nodes are built in place, "function" where a call to an ONNX function is, "kernel"
            where it is one node that a kernel runs.
        form: "translation", or "symbolic" for a symbolic function, which is called with a graph of torch's and stands
            for every overload of the operator.
        strict: Whether a user has given the opset explicitly.
        ambiguous: What of the results PyTorch leaves open, so that its own are others ("singular vectors up to their
            signs"); "" where there is nothing.
    """

    operator: str
    function: Callable[..., Any]
    opset: int
    origin: str
    complex: bool = False
    route: str = "standard"
    form: str = "translation"
    strict: bool = False
    ambiguous: str = ""

    @property
    def since(self) -> int:
        """The first opset that it is used with.

        For models of older opsets, calls in the form of opset 18 are rewritten (see `opbridge.onnx.downgrade`). So a
        translation for opset 18 is used there too, unless a user has given that opset explicitly.
        """
        rewritten = self.opset == WRITTEN_FOR and self.form == "translation" and not self.strict
        return OLDEST if rewritten else self.opset

    def describe(self) -> str:
        """A short description, for the plan."""
        if self.origin == "kernel":
            return "kernel"
        what = "translation" if self.form == "translation" else "symbolic function"
        return f"{self.origin} {what}" + (f", opset {self.opset}" if self.opset > 1 else "")


@dataclass
class Registry:
    """Translations by operator.

    Attributes:
        entries: The translations of each operator, of every opset and origin, without torchlib's.
        torchlib: Returns torchlib's by operator. It is called when an operator has no other one: loading them takes
            half a second, and few models need any.
    """

    entries: dict[str, list[Translation]] = field(default_factory=dict)
    torchlib: Callable[[], Mapping[str, Sequence[Translation]]] = dict

    def add(self, entry: Translation) -> None:
        """Adds a translation; a newer one replaces the older one of the same origin, opset and kind."""
        known = self.entries.setdefault(entry.operator, [])
        key = (entry.opset, entry.origin, entry.complex, entry.form)
        known[:] = [other for other in known if (other.opset, other.origin, other.complex, other.form) != key]
        known.append(entry)

    def find(self, operator: str, opset: int, *, complex: bool = False, torchlib: bool = True) -> Translation | None:
        """The translation to use: the user's before opbridge's before torchlib's, of these the newest one.

        Args:
            operator: The operator's name.
            opset: The opset of the model.
            complex: Whether its inputs are complex.
            torchlib: Whether to load torchlib's where there is no other one. It has none for operators that write in
                place, nor for functions of Python.
        """

        def fits(entry: Translation) -> bool:
            return entry.since <= opset and entry.complex == complex

        def preference(entry: Translation) -> tuple[int, bool, int, bool]:
            return ORDER[entry.origin], entry.opset > opset, -entry.opset, entry.form == "symbolic"

        found = min(filter(fits, self._candidates(operator)), key=preference, default=None)
        if found is None and torchlib:
            found = min(filter(fits, self.torchlib().get(operator, ())), key=preference, default=None)
        return found

    def of(self, operator: str) -> list[Translation]:
        """All translations of an operator."""
        return [*self.torchlib().get(operator, ()), *self.entries.get(operator, ())]

    def all_entries(self) -> dict[str, list[Translation]]:
        """All translations of each operator."""
        return {operator: self.of(operator) for operator in {**self.torchlib(), **self.entries}}

    def copy(self) -> Registry:
        """A registry of the same translations, to which others can be added."""
        return Registry({operator: list(entries) for operator, entries in self.entries.items()}, self.torchlib)

    def _candidates(self, operator: str) -> Iterator[Translation]:
        """The translations of an operator, and the symbolic functions that stand for all of its overloads."""
        yield from self.entries.get(operator, ())
        if operator in _launches:
            yield _launches[operator]
        base = operator.partition(".")[0]
        if base != operator:
            yield from (entry for entry in self.entries.get(base, ()) if entry.form == "symbolic")

    def with_user_table(self, table: Mapping[Any, Any] | None) -> Registry:
        """This registry with a user's `custom_translation_table`, which has precedence.

        Args:
            table: From an operator (a `torch._ops.OpOverload` or its name) to a translation or a list of them, as
                torch.onnx.export accepts it.

        Raises:
            UsageError: a key that is no operator, or a value that is no function.
        """
        if not table:
            return self
        merged = self.copy()
        for target, functions in table.items():
            for function in functions if isinstance(functions, Sequence) else (functions,):
                if not callable(function):
                    raise UsageError(
                        f"custom_translation_table maps {target} to {function!r}, which is not a function."
                    )
                merged.add(_entry(operator_called(target), function, opset=1, origin="user"))
        return merged

    def near_misses(self, operator: str, opset: int, *, complex: bool) -> list[str]:
        """What almost fits an operator that has no translation: another opset, kind of inputs or overload."""
        said = []
        entries = self.all_entries()
        later = [entry.since for entry in entries.get(operator, ()) if entry.since > opset]
        if later:
            said.append(f"translated from opset {min(later)}")
        kinds = {entry.complex for entry in entries.get(operator, ())}
        if kinds and complex not in kinds:
            said.append("translated for real inputs only" if complex else "translated for complex inputs only")
        base = operator.partition(".")[0]
        overloads = sorted(other for other in entries if other.partition(".")[0] == base and other != operator)
        if overloads:
            said.append(f"translated for the overload{'s' * (len(overloads) > 1)} {', '.join(overloads)}")
        users = [name for name, found in self.entries.items() if any(each.origin == "user" for each in found)]
        said += [
            f"a translation is registered for '{name}'"
            for name in difflib.get_close_matches(operator, users, n=1, cutoff=0.8)
            if name not in (operator, *overloads)
        ]
        return said


def _entry(
    operator: str, function: Any, *, opset: int, origin: str, complex: bool = False, strict: bool = False
) -> Translation:
    from opbridge.onnx import onnxscript_private

    own = onnxscript_private.is_onnx_function(function) and not onnxscript_private.is_torchlib(function)
    route = "function" if own else "standard"
    return Translation(operator, function, opset, origin, complex, route, strict=strict)


def operator_called(target: Any) -> str:
    """An operator's name, from the name or from torch's object for it."""
    if isinstance(target, str):
        given = target.removesuffix(".default")
        if _OPERATOR.fullmatch(given):
            return given
        raise UsageError(
            f"'{target}' is not the name of an operator; expected namespace::name or namespace::name.overload."
        )
    from opbridge.base.torch_private import torch_operators

    name = torch_operators.operator_name(target)
    if name is None:
        raise UsageError(
            f"{target!r} is not a single operator; give an overload such as torch.ops.aten.add.Tensor, or its name."
        )
    return name


_registered = Registry()
"""Filled by `builtin` (opbridge's families), `translation` (users) and `add_kernel` (libraries of kernels)."""

_launches: dict[str, Translation] = {}
"""Filled by `add_launch`."""

_generation = itertools.count(1)
_current = 0


def registered() -> tuple[Registry, int]:
    """The registrations of this process, and a generation number that changes with each of them."""
    return _registered, _current


@contextlib.contextmanager
def override() -> Iterator[Registry]:
    """A scope whose registrations of translations and kernels end with it; see `opbridge.override`."""
    before = {operator: list(entries) for operator, entries in _registered.entries.items()}
    try:
        yield _registered
    finally:
        _registered.entries.clear()
        _registered.entries.update(before)
        _changed()


def _changed() -> None:
    global _current
    _current = next(_generation)


def translation(*operators: str, opset: int | None = None, complex: bool = False) -> Callable[[_Function], _Function]:
    """Registers a translation for one or several operators.

    The function takes the operator's arguments in the order and by the names of its schema, and builds nodes with
    onnxscript's operators; parameters need no annotations. It may leave out `signature.IGNORED_ARGUMENTS` (device,
    layout, memory_format, pin_memory, generator, non_blocking, ...).

    Args:
        *operators: `namespace::name`, with `.overload` for any but the default overload.
        opset: The first opset that the function is for. Several functions may be registered for one operator; the
            newest one not above the requested opset is used. None: its nodes are those of opset 18, and are rewritten
            for older ones.
        complex: Whether the function is for complex inputs, which arrive as real tensors with a trailing dimension
            of 2.

    Raises:
        UsageError: a name that is no operator's.

    Example:
        >>> from onnxscript import opset18 as op
        >>> @opbridge.translation("mylib::foo")
        ... def foo(x, y, alpha: float = 1.0):
        ...     return op.Add(x, op.Mul(y, alpha))
    """
    if not operators:
        raise UsageError("translation() requires the name of an operator, such as 'mylib::foo'.")
    names = [operator_called(operator) for operator in operators]
    written = WRITTEN_FOR if opset is None else opset

    def register(function: _Function) -> _Function:
        for name in names:
            entry = _entry(name, function, opset=written, origin="user", complex=complex, strict=opset is not None)
            _registered.add(entry)
        _changed()
        return function

    return register


def builtin(
    *operators: str, opset: int = WRITTEN_FOR, complex: bool = False, ambiguous: str = ""
) -> Callable[[_Function], _Function]:
    """Registers a translation of opbridge's own; the other arguments are those of `translation`.

    Args:
        *operators: As for `translation`.
        opset: As for `translation`.
        complex: As for `translation`.
        ambiguous: What of the results PyTorch leaves open; the route `aten`, where it is allowed, is then taken first.

    Raises:
        UsageError: opbridge already has a translation of the operator for the same opset and kind of inputs.
    """

    def register(function: _Function) -> _Function:
        for name in operators:
            if any(
                (entry.opset, entry.origin, entry.complex) == (opset, "opbridge", complex)
                for entry in _registered.entries.get(name, ())
            ):
                raise UsageError(
                    f"{name} has two translations for opset {opset}; the second is {function.__name__}. Remove "
                    "one of them."
                )
            entry = _entry(name, function, opset=opset, origin="opbridge", complex=complex)
            _registered.add(dataclasses.replace(entry, ambiguous=ambiguous))
        _changed()
        return function

    return register


def add_launch(operator: str, function: Callable[..., Any]) -> None:
    """Registers the translation of an operator that the launch of a kernel became while a model was captured.

    Registries that were made before have it too.

    Args:
        operator: The operator.
        function: Builds the node, as a translation does.
    """
    _launches[operator] = Translation(operator, function, 1, "kernel", route="kernel")


def add_kernel(operator: str, function: Callable[..., Any]) -> None:
    """Registers the translation of an operator of a library of kernels into one node.

    Args:
        operator: The operator.
        function: Builds the node, as a translation does.
    """
    _registered.add(Translation(operator, function, 1, "kernel", route="kernel"))
    _changed()
