"""Which values of a PyTorch model are the inputs and outputs of its ONNX file."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.wording import counted, listed, sentence
from opbridge.capture import capture as capture_model
from opbridge.errors import CaptureError, UsageError
from opbridge.graph.open_lists import METADATA, ROWS, Form
from opbridge.graph.precision import coarsest, precisions
from opbridge.graph.values import as_tensor
from opbridge.verification import dynamic_sizes, exchange
from opbridge.verification.compare import dtype_name

if TYPE_CHECKING:
    from opbridge.capture import Capture
    from opbridge.graph.captured_graph import Leaf
    from opbridge.verification.dynamic_sizes import DynamicSizes

__all__ = ["Correspondence", "OtherOutputs"]


class OtherOutputs(UsageError):
    """The model gives another number of outputs than the file has.

    Attributes:
        given: How many it gives.
    """

    def __init__(self, message: str, given: int) -> None:
        super().__init__(message)
        self.given = given


def _read_inputs(metadata: Mapping[str, str]) -> frozenset[str]:
    """The inputs whose values the file holds as constants, by its metadata; none where these are not of opbridge."""
    try:
        found = json.loads(metadata.get("opbridge.read_inputs", "[]"))
    except (ValueError, RecursionError):
        return frozenset()
    return frozenset(name for name in found if isinstance(name, str)) if isinstance(found, list) else frozenset()


def _open_lists(metadata: Mapping[str, str]) -> dict[str, Form]:
    """The outputs that are lists in the model, by a file's metadata; none where these are not of opbridge."""
    try:
        found = json.loads(metadata.get(METADATA, "{}"))
    except (ValueError, RecursionError):
        return {}
    known = found.items() if isinstance(found, dict) else ()
    return {name: dim for name, dim in known if dim in (None, ROWS) or (type(dim) is int and dim >= 0)}


class Correspondence:
    """The leaves of a model's inputs and outputs that are the inputs and outputs of an ONNX file.

    Leaves are those of torch's pytrees: of `(args, kwargs)`, and of what the model returns.

    Attributes:
        leaves: The leaves of the example inputs.
        names: The names of the file's inputs.
        positions: For each input of the file, the position of its leaf.
        fixed: The positions of leaves whose values the model turns into Python numbers: all runs have the example's.
        output_names: The names of the file's outputs.
        lists: The lists in the model's result that the file has joined; see `opbridge.graph.open_lists`.
        always_empty: The positions of outputs that have no element on any inputs.
    """

    def __init__(
        self,
        name: str,
        session: Any,
        model: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        capture: Capture | None,
    ) -> None:
        """Matches the example inputs with the inputs of the file.

        Args:
            name: The file's name in messages.
            session: A session with the file.
            model: A module, a function or an ExportedProgram.
            args: The positional example inputs.
            kwargs: The keyword example inputs, in the order of the file's inputs.
            capture: The capture that the file was made from, where it is known.

        Raises:
            UsageError: The example inputs do not fit the file, or an output of the file is no tensor of PyTorch's.
        """
        self._name, self._model, self._args, self._kwargs, self._capture = name, model, args, kwargs, capture
        # It tells which outputs of the model are constants, which a file does not always tell.
        self._graph = None if capture is None else capture.graph
        self._inputs = session.get_inputs()
        self.leaves = pytree.tree_leaves((args, kwargs))
        self.names = [each.name for each in self._inputs]
        self.output_names = [output.name for output in session.get_outputs()]
        self.positions = self._matched_inputs()
        metadata = session.get_modelmeta().custom_metadata_map
        fixed = _read_inputs(metadata)
        self.lists = _open_lists(metadata)
        self.fixed = {position for name, position in zip(self.names, self.positions, strict=True) if name in fixed}
        self._check_outputs(session)
        self.always_empty = {at for at, each in enumerate(session.get_outputs()) if 0 in (each.shape or ())}
        self._output_dtypes = [exchange.dtype_of(output.type) for output in session.get_outputs()]
        self._outputs: Sequence[Leaf] | None = None

    def feeds(self, leaves: Sequence[Any]) -> dict[str, torch.Tensor]:
        """The tensors for the file's inputs, by name, from the leaves of `(args, kwargs)`."""
        return {name: as_tensor(leaves[position]) for name, position in zip(self.names, self.positions, strict=True)}

    def _matched_inputs(self) -> list[int]:
        """The position of the leaf for each input of the file."""
        tensors = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        numbers = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor) or type(leaf) is int]
        positions = numbers if len(numbers) == len(self._inputs) else tensors
        if self._graph is not None:
            inputs = self._graph.inputs
            if len(inputs) != len(self.leaves):
                raise UsageError(
                    "The example inputs do not match the capture of the model: it was captured with "
                    f"{counted(len(inputs), 'input')}, but the example has {len(self.leaves)}. Give inputs with "
                    "the same structure, or leave them out if a Program is given."
                )
            positions = [i for i, leaf in enumerate(inputs) if not leaf.is_frozen]
        if len(positions) != len(self._inputs):
            names = f" ({listed(self.names, 6)})" if self.names else ""
            raise UsageError(
                f"The example inputs do not match {self._name}: it has "
                f"{counted(len(self._inputs), 'input')}{names}, but the example has "
                f"{counted(len(positions), 'tensor')}. Give the inputs that the file was exported with, in the "
                "same order."
            )
        for wanted, position in zip(self._inputs, positions, strict=True):
            self._check_input(wanted, as_tensor(self.leaves[position]))
        return positions

    def described(self) -> list[str]:
        """The file's inputs with their dtypes and shapes: "x (float32 [n, 3])"."""
        return [f"{each.name} ({self._described(each)})" for each in self._inputs]

    def check_given(self, number: int, tensor: torch.Tensor, label: str) -> None:
        """Checks that a tensor that the user gives fits an input of the file.

        Args:
            number: The number of the input.
            tensor: The tensor.
            label: What it is from.

        Raises:
            UsageError: Its dtype or its shape is another.
        """
        wanted = self._inputs[number]
        given = self._unlike(wanted, tensor)
        if given:
            raise UsageError(
                f"{label} does not match {self._name}: its input '{wanted.name}' is {self._described(wanted)}, but "
                f"{given} was given."
            )

    def _check_input(self, wanted: Any, leaf: torch.Tensor) -> None:
        """Checks that a tensor has the dtype and the static sizes of an input of the file."""
        given = self._unlike(wanted, leaf)
        if given:
            raise UsageError(
                f"The example inputs do not match {self._name}: its input '{wanted.name}' is "
                f"{self._described(wanted)}, but the example has {given}. Give the inputs that the file was "
                "exported with, in the same order."
            )

    @staticmethod
    def _described(wanted: Any) -> str:
        dtype = exchange.dtype_of(wanted.type)
        return f"{dtype_name(dtype) if dtype else wanted.type} [{', '.join(map(str, wanted.shape))}]"

    @staticmethod
    def _unlike(wanted: Any, leaf: torch.Tensor) -> str:
        """What a tensor is that has not the dtype and the static sizes of an input of the file; "" for one that has."""
        form = exchange.runtime_form(leaf)
        dtype, shape = exchange.dtype_of(wanted.type), list(wanted.shape)
        same_sizes = len(shape) == form.dim() and all(
            size == given for size, given in zip(shape, form.shape, strict=True) if isinstance(size, int)
        )
        if dtype == form.dtype and same_sizes:
            return ""
        given = f"{dtype_name(leaf.dtype)} {list(leaf.shape)}"
        if leaf.is_complex():
            given += f", which enters as {dtype_name(form.dtype)} {list(form.shape)}"
        return given

    def _check_outputs(self, session: Any) -> None:
        for output in session.get_outputs():
            if exchange.dtype_of(output.type) is None:
                raise UsageError(
                    f"Output '{output.name}' of {self._name} has type {output.type}, which cannot be compared with "
                    "PyTorch. Give a file whose outputs are all tensors."
                )

    def expected(self, leaves: Sequence[Any]) -> list[torch.Tensor]:
        """The tensors that the file's outputs have to equal, from the leaves of the model's output.

        Raises:
            OtherOutputs: The model gives another number of outputs than the file has.
        """
        kept = [leaves[position] for position in self.returned(leaves)]
        return [as_tensor(leaf, dtype) for leaf, dtype in zip(kept, self._output_dtypes, strict=True)]

    def returned(self, leaves: Sequence[Any]) -> list[int]:
        """For each output of the file, the position of its leaf in what the model returns.

        Args:
            leaves: The leaves of the model's output.

        Raises:
            UsageError: The model has another number of outputs than the file.
        """
        count = len(self.output_names)
        numbers = [at for at, leaf in enumerate(leaves) if isinstance(leaf, (torch.Tensor, int, float, complex))]
        kept = [at for at in numbers if isinstance(leaves[at], torch.Tensor)]
        self._outputs = None
        if self._graph is None and len(kept) != count:
            kept = numbers
            if len(kept) != count:
                # Another exporter's file has no constants among its outputs; a capture tells which these are.
                with contextlib.suppress(CaptureError):
                    self._graph = capture_model(self._model, self._args, self._kwargs).graph
        if self._graph is not None and len(self._graph.outputs) == len(leaves):
            found = [(at, leaf) for at, leaf in enumerate(self._graph.outputs) if leaf.is_returned]
            if len(found) != count:
                found = [(at, leaf) for at, leaf in found if not leaf.is_frozen]
            kept, self._outputs = [at for at, _ in found], [leaf for _, leaf in found]
        if len(kept) != count:
            raise OtherOutputs(
                f"{sentence(self._name)} has {counted(len(self.output_names), 'output')} "
                f"({listed(self.output_names, 6)}), but the model returns {len(kept)} outputs that can be compared "
                "with them. Pass the model that the file was exported from.",
                len(kept),
            )
        return kept

    def is_constant_number(self, position: int) -> bool:
        """Whether an output is a number that the model returns whatever its inputs are."""
        return self._outputs is not None and self._outputs[position].is_frozen

    def precisions(self, expected: Sequence[torch.Tensor]) -> list[torch.dtype | None]:
        """For each output, the dtype of the lowest precision that it was computed in; None where that is not known."""
        if self._graph is not None and self._outputs is not None:
            found = precisions(self._graph)
            return [None if leaf.node is None else found.get(leaf.node.name) for leaf in self._outputs]
        tensors = [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]
        if isinstance(self._model, torch.nn.Module):
            tensors += [*self._model.parameters(), *self._model.buffers()]
        return [coarsest(tensor.dtype for tensor in tensors)] * len(expected)

    def dynamic_sizes(self) -> DynamicSizes:
        """The dimensions that may vary, by the capture where there is one, and else by the file."""
        if self._capture is not None:
            return dynamic_sizes.from_capture(self._capture, self.leaves)
        dims: dict[int, tuple[int | str, ...]] = {}
        for wanted, position in zip(self._inputs, self.positions, strict=True):
            leaf = self.leaves[position]
            if isinstance(leaf, torch.Tensor):
                # A complex tensor has one more dimension in the file. A dimension without a name gets its own symbol.
                dims[position] = tuple(
                    size if isinstance(size, (int, str)) else f"{wanted.name}.{dim}"
                    for dim, size in enumerate(wanted.shape[: leaf.dim()])
                )
        return dynamic_sizes.from_shapes(dims, self.leaves)
