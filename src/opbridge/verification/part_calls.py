"""A file in the place of the model that it was exported from: called with the model's inputs, in the model's forms."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from opbridge.base.wording import listed
from opbridge.capture.model_inputs import register_containers
from opbridge.capture.model_module import as_module
from opbridge.capture.named_leaves import named_leaves
from opbridge.errors import UsageError
from opbridge.graph.open_lists import as_lists
from opbridge.graph.values import as_tensor
from opbridge.verification import exchange
from opbridge.verification.correspondence import Correspondence
from opbridge.verification.eager import Eager, explain
from opbridge.verification.runtime_failure import RuntimeFailure, locate_failure

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["PartCall", "PartCalls", "PartFailure"]


class PartFailure(Exception):
    """The runtime raised when a part was called.

    Attributes:
        part: The name of the part.
        failure: The error.
    """

    def __init__(self, part: str, failure: RuntimeFailure) -> None:
        super().__init__(f"part '{part}': {failure}")
        self.part, self.failure = part, failure


class PartCalls(Mapping[str, Callable[..., Any]]):
    """The parts as a `run` function is given them: `.encoder(ids)`, or `["text-encoder"](ids)` for other names."""

    def __init__(self, calls: Mapping[str, Callable[..., Any]]) -> None:
        self._calls = dict(calls)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self._calls[name]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            return self.__dict__["_calls"][name]
        except KeyError:
            raise AttributeError(f"unknown part '{name}'; the parts are {', '.join(self)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)


class PartCall:
    """A session that is called as its model is, with positional and keyword inputs in any mix.

    1. The inputs are matched with those of the example by their names. What the example holds and the call leaves out
       has to be a default, and so has to be what only the call holds.
    2. Numbers, booleans and strings have to be those of the example where the file has no input for them.
    3. The result has the structure of the model's, with the file's values; what is constant in it is the example's.
    """

    def __init__(
        self,
        part: str,
        session: Any,
        model: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        capture: Capture | None,
        load: Callable[[], ir.Model],
        seed: int = 0,
    ) -> None:
        """Matches the example with the file, and runs the model on it for the structure of its result.

        Args:
            part: The name of the part, for messages.
            session: A session with the file.
            model: A module, a function or an ExportedProgram.
            args: The positional example inputs.
            kwargs: The keyword example inputs.
            capture: The capture that the file was made from, where it is known.
            load: Loads the ONNX model.
            seed: The seed for torch's generators.

        Raises:
            UsageError: The example inputs do not fit the file, or the model raises on them.
        """
        if capture is not None and set(capture.kwargs) == set(kwargs):
            kwargs = {key: kwargs[key] for key in capture.kwargs}  # the order of the file's inputs
        self._part, self._session, self._load = part, session, load
        self._matching = Correspondence(f"part '{part}'", session, model, args, kwargs, capture)
        module = model.module() if isinstance(model, ExportedProgram) else as_module(model, args, kwargs)
        self._signature = inspect.signature(module.forward)
        self._example = named_leaves(self._signature, args, kwargs)
        eager = Eager(model, self._matching.lists)
        try:
            self._results = eager.run(args, kwargs, seed)
        except Exception as error:  # the model raises anything
            raise UsageError(
                f"Part '{part}' fails on its own example inputs: {explain(error)}. Correct the example inputs or "
                "the model."
            ) from error
        self._structure = eager.structure
        self._returned = self._matching.returned(self._results)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the file.

        Raises:
            UsageError: The inputs are not as the part was exported with.
            PartFailure: The runtime raises.
        """
        feeds = self._matching.feeds(self._arranged(args, kwargs))
        try:
            outputs = exchange.run(self._session, feeds)
        except Exception as error:  # the runtime's errors have no other common base class
            raise PartFailure(self._part, locate_failure(str(error), self._readable())) from error
        results = list(self._results)
        for position, tensor in zip(self._returned, outputs, strict=True):
            results[position] = _as_returned(tensor, results[position])
        return as_lists(pytree.tree_unflatten(results, self._structure))

    def _readable(self) -> ir.Model | None:
        try:
            return self._load()
        except Exception:  # the message then lacks the name of the operator
            return None

    def _arranged(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """The leaves of a call in the order of the example's."""
        register_containers((args, kwargs))
        try:
            given = dict(named_leaves(self._signature, args, kwargs))
        except TypeError as error:
            raise UsageError(
                f"run= calls part '{self._part}' with inputs that do not match its model: {error}."
            ) from None
        for name, value in given.items():
            if name not in dict(self._example) and value is not None and not self._is_default(name, value):
                names = listed([name for name, _ in self._example], 8)
                raise UsageError(
                    f"run= passes '{name}' to part '{self._part}', which was exported without it; its example "
                    f"inputs are {names}. Add it to them, or leave it out in run=."
                )
        leaves = []
        numbers = {position: number for number, position in enumerate(self._matching.positions)}
        for position, (name, example) in enumerate(self._example):
            if name not in given and not self._is_default(name, example):
                raise UsageError(
                    f"run= calls part '{self._part}' without '{name}', which is one of its example inputs. Pass it "
                    "in run=, or leave it out of the example inputs."
                )
            leaf = given.get(name, example)
            if position in numbers:
                self._check_input(name, numbers[position], position, leaf, example)
            elif not _is_same(leaf, example):
                raise UsageError(
                    f"run= passes {leaf!r} as '{name}' to part '{self._part}', which was exported with "
                    f"{example!r}; the file is valid only for that value. Pass the same value, make it a tensor, "
                    "or add a part for the other value."
                )
            leaves.append(leaf)
        return leaves

    def _check_input(self, name: str, number: int, position: int, leaf: Any, example: Any) -> None:
        what = f"the argument of part '{self._part}' in run="
        if not isinstance(leaf, (torch.Tensor, int, float, complex)):
            raise UsageError(f"{what[:1].upper()}{what[1:]} as '{name}' is a {type(leaf).__name__}; expected a tensor.")
        try:
            self._matching.check_given(number, as_tensor(leaf), what)
        except UsageError as error:
            raise UsageError(
                f"{error} Make the sizes that vary in run= dynamic in the part's dynamic_shapes."
            ) from None
        if position in self._matching.fixed and not torch.equal(as_tensor(leaf), as_tensor(example)):
            raise UsageError(
                f"Part '{self._part}' converts the values of '{name}' to Python numbers, so its file is valid only "
                "for the values of the example, but run= passes different ones."
            )

    def _is_default(self, name: str, value: Any) -> bool:
        parameter = self._signature.parameters.get(name)
        return parameter is not None and _is_same(value, parameter.default)


def _is_same(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor) or isinstance(right, torch.Tensor):
        return left is right
    if left is right:
        return True
    try:
        return type(left) is type(right) and bool(left == right)
    except Exception:  # an object of the user's that cannot be compared
        return False


def _as_returned(tensor: torch.Tensor, example: Any) -> Any:
    """An output of the file in the form that the model returns it in."""
    if isinstance(example, torch.Tensor):
        return (torch.view_as_complex(tensor) if example.is_complex() else tensor).to(example.device)
    if isinstance(example, complex):
        return complex(*tensor.tolist())
    return type(example)(tensor.item())
