"""Private interfaces of torch about symbolic sizes: symbols, guards, ranges and forms of dynamic shapes.

Checked on torch 2.13.0 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import gc
import math
import sys
import types
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._guards import Source


@dataclasses.dataclass(frozen=True)
class _Place(Source):
    """Where a symbol comes from, as a Python expression: `x.shape[0]`."""

    place: str

    @property
    def _name_template(self) -> str:
        return self.place

    @property
    def name(self) -> str:
        return self.place


class Sizes:
    """The symbolic sizes of one capture.

    Args:
        general: Whether 0 and 1 are sizes like others; else a size of 0 or 1 in the example is fixed, and others are at
            least 2.
        dynamic: Places whose symbols are never fixed, nor is their range narrowed; each question about them becomes a
            condition.

    Attributes:
        env: What torch knows of the symbols.
    """

    def __init__(self, *, general: bool, dynamic: frozenset[str] = frozenset()) -> None:
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        self.env = ShapeEnv(tracked_fakes=[], trace_asserts=True)
        self._general = general
        self._dynamic = dynamic
        self._free: set[Any] = set()
        self._by_name: dict[str, Any] = {}
        if dynamic:
            _keep_free(self.env, self._free)

    @classmethod
    def of(cls, env: Any) -> Sizes:
        """The sizes of a capture that has been made."""
        sizes = cls.__new__(cls)
        sizes.env, sizes._general, sizes._by_name, sizes._dynamic, sizes._free = env, True, {}, frozenset(), set()
        return sizes

    def new(
        self,
        example: int,
        place: str,
        name: str | None,
        low: int | None,
        high: int | None,
        *,
        automatic: bool = False,
    ) -> Any:
        """The symbol of a size, or the size itself where that is fixed.

        Args:
            example: Its value in the example.
            place: The size as a Python expression.
            name: Its name; equal names are one symbol.
            low: Its smallest value.
            high: Its largest value.
            automatic: Whether it may be fixed where the model needs it.
        """
        from torch.fx.experimental.symbolic_shapes import DimDynamic, StrictMinMaxConstraint
        from torch.utils._sympy.numbers import int_oo
        from torch.utils._sympy.value_ranges import ValueRanges

        if name is not None and name in self._by_name:
            return self._by_name[name]
        constraint = None
        if low is not None or high is not None:
            bounds = ValueRanges(low or 0, int_oo if high is None else high)
            constraint = StrictMinMaxConstraint(vr=bounds, warn_only=False)
        source = _Place(place)
        is_free = place in self._dynamic
        symbol = self.env.create_symbol(
            example,
            source,
            DimDynamic.DYNAMIC,
            constraint,
            positive=None if is_free and example == 0 else True,  # or torch says that no size is 0
            do_not_specialize_zero_one=self._general or is_free,
        )
        if is_free:
            self._free.add(symbol)
        if not automatic:
            _asked_for.setdefault(self.env, set()).add(symbol)
        size = self.env.create_symintnode(symbol, hint=example, source=source)
        if name is not None:
            self._by_name[name] = size
        return size

    def ranges(self) -> dict[str, tuple[int, int | None]]:
        """The smallest and largest value of each symbol, by its name; None: no upper bound."""
        return {
            str(symbol): (_bound(span.lower) or 0, _bound(span.upper)) for symbol, span in self.env.var_to_range.items()
        }

    def conditions(self) -> list[tuple[str, tuple[str, ...], str, bool]]:
        """The conditions on the symbols, as `shape_guards` gives them, and whether an operator asked for them."""
        asked = _asked_by_operators.get(self.env, set())
        return [(*found, index in asked) for index, found in enumerate(_guards_in(self.env))]

    def places(self) -> dict[str, str]:
        """For each symbol, the size of the example that it was made for, as a Python expression."""
        return _sources_in(self.env)


class Learned:
    """What an environment learns of its symbols from now on, which it can forget.

    Args:
        env: The environment, or None, which learns nothing.
    """

    def __init__(self, env: Any) -> None:
        self._env = env
        if env is not None:
            self._guards = len(env.guards)
            self._replacements = dict(env.replacements)
            self._ranges = dict(env.var_to_range)
            self._axioms = dict(env.axioms)

    def fixes_a_size(self) -> bool:
        """Whether a symbol that was free is known as one number now."""
        if self._env is None:
            return False
        new = {symbol: value for symbol, value in self._env.replacements.items() if symbol not in self._replacements}
        return any(value.is_number for value in new.values())

    def forget(self) -> None:
        """Restores what was known at first."""
        env = self._env
        if env is None:
            return
        del env.guards[self._guards :]
        for kept, current in (
            (self._replacements, env.replacements),
            (self._ranges, env.var_to_range),
            (self._axioms, env.axioms),
        ):
            current.clear()
            current.update(kept)
        # What torch has found out so far no longer holds.
        for counter in ("_version_counter", "_replacements_version_counter"):  # torch 2.13 has the first only
            if hasattr(env, counter):
                setattr(env, counter, getattr(env, counter) + 1)


_asked_by_operators: weakref.WeakKeyDictionary[Any, set[int]] = weakref.WeakKeyDictionary()


_asked_for: weakref.WeakKeyDictionary[Any, set[Any]] = weakref.WeakKeyDictionary()
"""The symbols of dimensions that are to be dynamic whatever the model needs."""


def may_be_one(size: Any) -> bool:
    """Whether a size is 1 in one run and another in the next, as far as is known.

    That is so for sizes that only data decides, and for those of dimensions that are to be dynamic.
    """
    import sympy
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    if not isinstance(size, torch.SymInt) or size.node.expr.is_number:
        return False
    env = size.node.shape_env
    free = _asked_for.get(env, set()) | free_unbacked_symbols(size)
    expression = env.replace(size.node.expr)
    return expression.free_symbols <= free and env._maybe_evaluate_static(sympy.Eq(expression, 1)) is None


def is_one_in_example(size: Any) -> bool:
    """Whether a size is 1 in the example; nothing is asked about symbols, and a size that data decides is not 1."""
    if not isinstance(size, torch.SymInt):
        return bool(size == 1)
    return not unknown_symbols([size]) and example_with(size, {}) == 1


def ask_whether_one(sizes: Sequence[Any]) -> None:
    """Asks of sizes whether they are 1, which becomes a condition of the capture; not of those that data decides."""
    with guarding_small_sizes(sizes):
        for size in sizes:
            if not unknown_symbols([size]):
                bool(size == 1)


def questions(env: Any) -> int:
    """How many conditions on symbols there are so far."""
    return len(env.guards)


def note_questions_of_operator(env: Any, before: int) -> None:
    """Notes that the conditions since then were asked for to describe the result of an operator.

    Args:
        env: What torch knows of the symbols.
        before: What `questions` gave before the operator.
    """
    if len(env.guards) > before:
        _asked_by_operators.setdefault(env, set()).update(range(before, len(env.guards)))


def _keep_free(env: Any, symbols: set[Any]) -> None:
    """Makes an environment answer questions about these symbols by the example, and learn nothing from the answers."""
    replace, narrow, implied = env._set_replacement, env._update_var_to_range, env.get_implications

    def set_replacement(symbol: Any, target: Any, message: str) -> None:
        if symbol not in symbols or target.free_symbols:
            replace(symbol, target, message)

    def update_range(symbol: Any, *args: Any, **kwargs: Any) -> None:
        if symbol not in symbols:
            narrow(symbol, *args, **kwargs)

    def get_implications(expression: Any) -> Any:
        return () if symbols.intersection(expression.free_symbols) else implied(expression)

    env._set_replacement, env._update_var_to_range = set_replacement, update_range
    env.get_implications = get_implications


def forget_conditions(env: Any, dropped: Collection[str], symbols: Collection[str]) -> None:
    """Makes an environment forget conditions, and that some symbols are at least 2.

    Args:
        env: The environment of a capture that has been made.
        dropped: Conditions, as `Sizes.conditions` gives them.
        symbols: The names of the symbols.
    """
    from torch.utils._sympy.value_ranges import ValueRanges

    written = _guards_in(env)
    env.guards[:] = [
        guard for guard, (expression, _, _) in zip(env.guards, written, strict=True) if expression not in dropped
    ]
    for symbol, span in list(env.var_to_range.items()):
        if str(symbol) in symbols:
            env.var_to_range[symbol] = ValueRanges(0, span.upper)
    env.axioms.clear()
    for guard in env.guards:
        env.axioms.update(dict(env.get_implications(env.simplify(guard.expr))))
    env._version_counter += 1  # what torch has found out so far no longer holds


def logarithm2(number: Any) -> Any:
    """The logarithm of base 2 of a symbolic number, which stays symbolic."""
    return torch._sym_log2(torch.sym_float(number))


def is_symbol(size: object) -> bool:
    """Whether a size is a single symbol."""
    return isinstance(size, torch.SymInt) and bool(size.node.expr.is_symbol)


def expression(number: Any, values: Mapping[str, int]) -> str:
    """A symbolic number as an expression over symbols, of which some have values."""
    found = number.node.expr
    known = {symbol: values[str(symbol)] for symbol in found.free_symbols if str(symbol) in values}
    return str(found.subs(known) if known else found)


def example_with(size: Any, values: Mapping[str, int]) -> int:
    """The value of a size in the example, with other values for some symbols."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    expression, env = size.node.expr, size.node.shape_env
    hints = env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val
    known = {symbol: values.get(str(symbol), hints.get(symbol)) for symbol in expression.free_symbols}
    return int(expression.subs({symbol: int(value) for symbol, value in known.items()}))


def _bound(bound: Any) -> int | None:
    try:
        return int(bound)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None


def note_unknown_symbols(node: torch.fx.Node, env: Any, result: Any) -> None:
    """Notes which symbols came into being with the result of a node: sizes that only data decides."""
    from torch.fx.experimental.symbolic_shapes import compute_unbacked_bindings

    if env.pending_fresh_unbacked_symbols and (bindings := compute_unbacked_bindings(env, result)):
        node.meta["unbacked_bindings"] = bindings


def keep_unknown_symbols(node: torch.fx.Node, result: Any) -> None:
    """Gives the symbols in a new result of a node the names, and what is known of them, that they had in the first."""
    from torch.fx.experimental.symbolic_shapes import rebind_unbacked

    if "unbacked_bindings" in node.meta:
        values = torch.utils._pytree.tree_leaves(node.meta.get("val"))
        envs = (getattr(getattr(value, "fake_mode", None), "shape_env", None) for value in values)
        numbers = (
            value.node.shape_env for value in values if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)
        )
        env = next((env for env in (*envs, *numbers) if env is not None), None)
        rebind_unbacked(env, node, result)


def is_same_view(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors that share memory are the same part of it in the same form, whatever the sizes are."""
    return left.dtype == right.dtype and _geometry(left) == _geometry(right)


def has_same_strides(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors have the same strides, whatever the sizes are."""
    return len(left.stride()) == len(right.stride()) and all(map(is_equal, left.stride(), right.stride()))


def is_equal(left: Any, right: Any) -> bool:
    """Whether two sizes are the same number or the same expression; nothing is asked about the symbols."""
    if type(left) is int or type(right) is int:
        return type(left) is type(right) and bool(left == right)
    return bool(left.node.expr == right.node.expr)


def _geometry(tensor: torch.Tensor) -> list[Any]:
    if tensor.layout != torch.strided:
        return [id(tensor)]
    sizes = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    return [tensor.dim(), *(size.node.expr if isinstance(size, torch.SymInt) else size for size in sizes)]


def unknown_symbols(values: Sequence[Any]) -> set[Any]:
    """The unbacked symbols in symbolic values: sizes that depend on data."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return {symbol for value in values for symbol in free_unbacked_symbols(value)}


@contextlib.contextmanager
def ignoring_fresh_symbols(shape_env: Any) -> Iterator[None]:
    """Within this context, new unbacked symbols need not appear in the captured graph."""
    if shape_env is None:
        yield
        return
    with shape_env.ignore_fresh_unbacked_symbols():
        yield


def unknown_size(like: torch.Tensor) -> torch.SymInt:
    """A new unbacked symbol, for a size of an operator's fake result that depends on data.

    Args:
        like: One of the operator's arguments.
    """
    from torch._guards import detect_fake_mode

    env = detect_fake_mode([like]).shape_env
    create = getattr(env, "new_dynamic_size", None) or env.create_unbacked_symint
    size = create()
    torch._check(size >= 0)
    return size


@contextlib.contextmanager
def refusing_questions(numbers: Sequence[Any]) -> Iterator[None]:
    """Within this context, a question about the symbols of symbolic numbers whose answer is not known is an error.

    Raises:
        RuntimeError: such a question is asked.
    """
    symbolic = [each for each in numbers if isinstance(each, torch.SymInt | torch.SymFloat | torch.SymBool)]
    symbols = {symbol for each in symbolic for symbol in each.node.expr.free_symbols}
    if not symbols:
        yield
        return
    env = symbolic[0].node.shape_env
    evaluate = env.evaluate_expr

    def evaluate_if_known(expression: Any, *args: Any, **kwargs: Any) -> Any:
        if symbols.intersection(expression.free_symbols) and env._maybe_evaluate_static(expression) is None:
            raise RuntimeError(f"The answer to {expression} is known only when the model runs.")
        return evaluate(expression, *args, **kwargs)

    env.evaluate_expr = evaluate_if_known
    try:
        yield
    finally:
        del env.evaluate_expr


@contextlib.contextmanager
def guarding_small_sizes(sizes: Sequence[Any]) -> Iterator[None]:
    """Within this context, a comparison of one of these sizes with 0 or 1 becomes a guard of the capture."""
    from torch.fx.experimental import _config

    for size in sizes:
        if isinstance(size, torch.SymInt):  # A size marked as size-like is never replaced by 1.
            size.node.shape_env.size_like -= size.node.expr.free_symbols
    with _config.patch(backed_size_oblivious=False):
        yield


@contextlib.contextmanager
def small_sizes_dynamic(enabled: bool) -> Iterator[None]:
    """Within this context, a dynamic dimension of size 0 or 1 in the example stays dynamic, and 0 and 1 are allowed.

    The exception is squeeze, where the rank of the result depends on whether a size is 1: the capture is valid for the
    rank that the example gives.
    """
    from torch._decomp import decomposition_table
    from torch.fx.experimental import _config

    if not enabled:
        yield
        return
    aten = torch.ops.aten
    originals = {
        each: decomposition_table[each] for each in (aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
    }

    def squeeze_with_guards(decomposition: Callable[..., Any], x: torch.Tensor, *dims: Any) -> Any:
        with guarding_small_sizes(x.shape):
            return decomposition(x, *dims)

    try:
        # On fake tensors, squeeze runs these decompositions.
        decomposition_table.update(
            {each: functools.partial(squeeze_with_guards, original) for each, original in originals.items()}
        )
        with _config.patch(backed_size_oblivious=True):
            yield
    finally:
        decomposition_table.update(originals)


_MOST_KEYS = 256


@contextlib.contextmanager
def taken_by_python(hashed: bool) -> Iterator[None]:
    """Within this context, Python takes symbolic sizes where torch has it refuse them.

    1. They can be formatted as numbers (`f"{n:d}"`), which gives the text of their expression.
    2. `torch.Size.numel` is a symbolic number.
    3. They can be hashed, if that is asked for: equal expressions of one capture are equal. No symbolic size equals a
       number, so that a table of sizes that was filled before is not used. einops keeps no sizes that have no hash.

    Args:
        hashed: Whether they can be hashed.
    """
    kind: Any = torch.SymInt
    kept_hash = kind.__hash__

    def hash_of(size: torch.SymInt) -> int:
        if size.node.is_nested_int() or _is_of(sys._getframe(1), "torch", "einops"):
            return int(kept_hash(size))
        _ask_about_keys(size, sys._getframe(1))
        return hash((id(size.node.shape_env), size.node.expr))

    def formatted(number: Any, specification: str) -> str:
        return str(number)

    kinds: tuple[Any, ...] = (torch.SymInt, torch.SymFloat)
    for each in kinds:
        each.__format__ = formatted
    if hashed:
        kind.__hash__ = hash_of
    try:
        with _counting_elements():
            yield
    finally:
        kind.__hash__ = kept_hash
        for each in kinds:
            del each.__format__


def _is_of(frame: types.FrameType, *packages: str) -> bool:
    """Whether a frame runs code of one of these packages."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in packages


def _ask_about_keys(size: torch.SymInt, frame: types.FrameType) -> None:
    """Makes a condition of each number that a function which hashes a size may look it up among.

    These are the integers in its sets, as in `n in {7, 9}`, and the keys of its dicts, as in `table.get(n, 0)`: of its
    constants, its variables, the globals that it names, and the attributes that it names of its variables. A dict of
    tensors is taken for what was computed for earlier sizes, which is computed again in the graph.
    """
    seen = set()
    for value in _named_values(frame):
        if not isinstance(value, (dict, set, frozenset)) or id(value) in seen or len(value) > _MOST_KEYS:
            continue
        seen.add(id(value))
        if isinstance(value, dict) and any(isinstance(each, torch.Tensor) for each in value.values()):
            continue
        for key in list(value):
            if type(key) is int:
                bool(size == key)


def _named_values(frame: types.FrameType) -> Iterator[Any]:
    """The values that the code of a frame can name."""
    code, variables = frame.f_code, frame.f_locals
    yield from code.co_consts
    yield from variables.values()
    for name in code.co_names:
        if name in frame.f_globals:
            yield frame.f_globals[name]
        for value in variables.values():
            for place in (value, type(value)):
                with contextlib.suppress(TypeError):  # an object without attributes of its own
                    if name in vars(place):
                        yield vars(place)[name]


@contextlib.contextmanager
def _counting_elements() -> Iterator[None]:
    """Within this context, `torch.Size.numel` gives the product of the sizes, which may be symbolic.

    torch.Size is a class of C, whose methods can be replaced in its table alone.
    """
    (table,) = gc.get_referents(torch.Size.__dict__)
    original = table["numel"]

    @functools.wraps(original)
    def numel(shape: torch.Size) -> Any:
        return math.prod(shape)

    def put(method: Any) -> None:
        table["numel"] = method
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(torch.Size))

    put(numel)
    try:
        yield
    finally:
        put(original)


def hint_kind(value: object) -> str | None:
    """AUTO, DYNAMIC or STATIC for `torch.export.Dim.AUTO` and its siblings, None for anything else."""
    return value.type.name if isinstance(value, type(torch.export.Dim.AUTO)) else None


def is_shapes_spec(value: object) -> bool:
    """Whether this is a ShapesSpec or ParamsSpec, a form of dynamic shapes that torch 2.15 accepts."""
    return type(value).__module__ == "torch.fx.experimental.dynamic_spec"


def supports_shapes_specs() -> bool:
    """Whether torch.export accepts a ShapesSpec; torch 2.13 has the classes for torch.compile only."""
    import torch.export._trace as trace

    return hasattr(trace, "ShapesSpec")


def map_shapes(
    function: Callable[[str, Any, Any], Any], arguments: Mapping[str, Any], shapes: Mapping[str, Any]
) -> dict[str, Any]:
    """Maps a function over the leaves of the arguments and their dynamic shapes.

    Args:
        function: Called with the path of a leaf (`x`, `batch['ids'][0]`), the leaf, and its entry in `shapes`.
        arguments: By parameter name, as `inspect.Signature.bind` gives them.
        shapes: In the same structure, down to the leaves.

    Raises:
        ValueError: The two structures differ.
    """
    from torch._dynamo.exc import UserError
    from torch.export.dynamic_shapes import _tree_map_with_path
    from torch.utils import _pytree

    def at(path: Any, leaf: Any, shape: Any) -> Any:
        # Inside of a class that is registered with pytree, the path starts again and consists of indices.
        named = bool(path) and isinstance(path[0], _pytree.MappingKey)
        place = f"{path[0].key}{_pytree.keystr(path[1:])}" if named else f"input{_pytree.keystr(path)}"
        return function(place, leaf, shape)

    try:
        return _tree_map_with_path(at, dict(arguments), dict(shapes), tree_name="inputs")
    except UserError as error:
        raise ValueError(str(error)) from error


def known_size(size: Any) -> Any:
    """A size as an int where its symbol was specialised to one value; any other size unchanged."""
    known = size.node.maybe_as_int() if isinstance(size, torch.SymInt) else None
    return size if known is None else known


def symbols(size: object) -> tuple[str, ...]:
    """The symbols in a SymInt, sorted by name; none for a plain int."""
    return tuple(sorted(map(str, size.node.expr.free_symbols))) if isinstance(size, torch.SymInt) else ()


def shape_sources(program: torch.export.ExportedProgram) -> dict[str, str]:
    """For each symbol of a capture, the input size that it was created for, as a Python expression: `x.shape[0]`."""
    return _sources_in(_shape_env(program))


def place_of_size(size: object) -> str | None:
    """The input size of a SymInt that is a single symbol, as in `shape_sources`; None for any other size."""
    if not isinstance(size, torch.SymInt) or not size.node.expr.is_symbol:
        return None
    return _sources_in(size.node.shape_env).get(str(size.node.expr))


def _sources_in(env: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for symbol, sources in env.var_to_sources.items() if env is not None else ():
        if sources:
            name = sources[0].name
            found[str(symbol)] = _readable_source(name if isinstance(name, str) else name())
    return found


def shape_guards(program: torch.export.ExportedProgram) -> list[tuple[str, tuple[str, ...], str]]:
    """The conditions on sizes under which a capture holds.

    Returns:
        For each one a Python expression over symbols (`(s77 % 2) == 0`), its symbols, and the stack of the line that
        caused it (empty outside of `recording_guard_stacks`).
    """
    env = _shape_env(program)
    return [] if env is None else _guards_in(env)


def _guards_in(env: Any) -> list[tuple[str, tuple[str, ...], str]]:
    from torch.utils._sympy.printers import PythonPrinter

    printer = PythonPrinter()
    found = []
    for guard in env.guards:
        # In terms of the remaining symbols. A guard that specialised a symbol is now true, and is kept as it was.
        expression = env.replace(guard.expr)
        expression = expression if expression.free_symbols else guard.expr
        symbols = tuple(sorted(map(str, expression.free_symbols)))
        found.append((printer.doprint(expression), symbols, guard.sloc.maybe_user_loc or ""))
    return found


def narrow_range(program: torch.export.ExportedProgram, symbol: str, low: int | None, high: int | None) -> None:
    """Narrows the range of a symbol; None leaves a bound as it is."""
    from torch.utils._sympy.value_ranges import ValueRanges

    ranges = program.range_constraints
    for key, found in list(ranges.items()):
        if str(key) == symbol:
            ranges[key] = ValueRanges(
                found.lower if low is None else max(found.lower, low),
                found.upper if high is None else min(found.upper, high),
            )


@contextlib.contextmanager
def recording_guard_stacks(stack: Callable[[], str]) -> Iterator[None]:
    """Within this context, every guard on sizes records the result of `stack()` at the point that causes it."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    original = ShapeEnv._get_sloc

    def located(self: Any, *args: Any, **kwargs: Any) -> Any:
        return dataclasses.replace(original(self, *args, **kwargs), maybe_user_loc=stack())

    ShapeEnv._get_sloc = located
    try:
        yield
    finally:
        ShapeEnv._get_sloc = original


def _shape_env(program: torch.export.ExportedProgram) -> Any:
    for node in program.graph.nodes:
        if node.op != "placeholder":
            return None
        env = getattr(getattr(node.meta.get("val"), "fake_mode", None), "shape_env", None)
        if env is not None:
            return env
    return None


def _readable_source(name: str) -> str:
    """`L['x'].size()[0]` as `x.shape[0]`."""
    head, _, rest = name.removeprefix("L['").partition("']")
    return (head + rest).replace(".size()[", ".shape[")
