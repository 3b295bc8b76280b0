"""The shapes of the outputs of a torch.autograd.Function, where those of the example may not hold.

1. A function registered with `opbridge.shape_of` has precedence.
2. If all sizes of the inputs are static: the shapes of the example, unless they depend on values. They do where ONNX's
   shape inference fails on the nodes that `symbolic` builds, and `forward` does not run on fake tensors either; such
   sizes become unbacked symbols, like those of `nonzero`.
3. With dynamic sizes: the shapes that `forward` gives on fake tensors; where it does not run on them (a binding, NumPy,
   `.tolist()`), the shapes that ONNX infers from the nodes that `symbolic` builds; a size that ONNX cannot infer
   becomes an unbacked symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir
import torch

from opbridge.base.dtypes import onnx_dtype
from opbridge.base.sources import of_function
from opbridge.base.torch_private import torch_overrides, torch_program_shapes, torch_sizes
from opbridge.errors import CaptureError, OpbridgeError
from opbridge.graph.function_calls import FunctionCall
from opbridge.onnx.builder import Builder
from opbridge.symbolics.autograd_functions import shape_function
from opbridge.symbolics.calling import build_function

__all__ = ["Inference"]

_Shape = list[Any]


class Inference:
    """Infers the shapes of the calls of one capture.

    Args:
        forward: Runs a class's own `forward` on its arguments.
        opset: The opset that symbolic functions build for.
        use_example_sizes: Whether sizes that depend on values are fixed to the example's.
        names: The user's names of input sizes, by place (`x.shape[0]`). Sizes with the same name are equal.

    Attributes:
        unknown: Names of the classes that returned sizes which are known only at run time.
        specialized: Names of the classes with such sizes that were fixed to the example's.
    """

    def __init__(
        self,
        forward: Callable[[type, Sequence[Any]], Any],
        opset: int,
        *,
        use_example_sizes: bool,
        names: Mapping[str, str],
    ) -> None:
        self._forward = forward
        self._opset = opset
        self._use_example_sizes = use_example_sizes
        self._names = names
        self._known: dict[Any, list[_Shape | None] | None] = {}
        self.unknown: dict[str, None] = {}
        self.specialized: dict[str, None] = {}

    def shapes(self, call: FunctionCall, tensors: Sequence[torch.Tensor], sizes: Sequence[Any]) -> list[_Shape]:
        """The shapes of the tensors that a call returns.

        Args:
            call: The call.
            tensors: Its tensors, as fake ones. Called in a fake implementation, where torch allows unbacked symbols.
            sizes: Its symbolic sizes.

        Raises:
            CaptureError: They cannot be inferred, or the user's shape function raises or returns something else.
        """
        recorded = [list(record.shape) for record in call.outputs if record.shape is not None]
        rule = shape_function(call.cls)
        if rule is not None:
            return _by_rule(rule, call, tensors, sizes, recorded)
        dynamic = any(isinstance(size, torch.SymInt) for size in [*sizes, *(n for each in tensors for n in each.shape)])
        if not dynamic:
            return self._where_known(call, tensors, sizes, recorded)
        run = self._on_fakes(call, tensors, sizes)
        if run is not None:
            return run
        inferred = self._by_onnx(call, tensors, sizes)
        if inferred is None or any(shape is None for shape in inferred):
            raise CaptureError(
                f"The output shapes of {call.cls.__qualname__} cannot be inferred for dynamic shapes: its forward "
                "does not run on fake tensors, and ONNX cannot infer them from the nodes of its symbolic function. "
                f"Define them with @opbridge.shape_of({call.cls.__name__}) on a function of forward's arguments "
                "that returns the shape, or export without dynamic shapes."
            )
        return self._with_unknown(call, inferred, recorded)

    def _where_known(
        self, call: FunctionCall, tensors: Sequence[torch.Tensor], sizes: Sequence[Any], recorded: list[_Shape]
    ) -> list[_Shape]:
        key = _key(call, tensors, sizes)
        if key not in self._known:
            self._known[key] = self._by_onnx(call, tensors, sizes)
        inferred = self._known[key]
        # For an operator without shape inference, such as a user's kernel, this does not imply a dependence on values.
        if inferred is None or not any(shape is not None and None in shape for shape in inferred):
            return recorded
        run = self._on_fakes(call, tensors, sizes)
        if run is not None and all(isinstance(size, int) for shape in run for size in shape):
            return recorded
        return self._with_unknown(call, inferred, recorded)

    def _with_unknown(
        self, call: FunctionCall, inferred: Sequence[_Shape | None], recorded: list[_Shape]
    ) -> list[_Shape]:
        if self._use_example_sizes:
            self.specialized[call.cls.__qualname__] = None
            return [
                [size if given is None else given for given, size in zip(shape or known, known, strict=True)]
                for shape, known in zip(inferred, recorded, strict=True)
            ]
        shapes = []
        for shape, known in zip(inferred, recorded, strict=True):
            shape = known if shape is None or len(shape) != len(known) else shape
            if None in shape:
                self.unknown[call.cls.__qualname__] = None
            shapes.append([torch.library.get_ctx().new_dynamic_size() if size is None else size for size in shape])
        return shapes

    def _on_fakes(
        self, call: FunctionCall, tensors: Sequence[torch.Tensor], sizes: Sequence[Any]
    ) -> list[_Shape] | None:
        """The shapes that `forward` gives on fake tensors, or None where it does not run on them."""
        env = next((mode.shape_env for each in tensors if (mode := getattr(each, "fake_mode", None))), None)
        try:
            with torch.no_grad(), torch_sizes.ignoring_fresh_symbols(env):
                returned = self._forward(call.cls, call.arguments(tensors, sizes))
        except Exception:
            return None
        values = [returned] if call.single else list(returned)
        found = [value for value in values if isinstance(value, torch.Tensor)]
        if len(found) != sum(record.shape is not None for record in call.outputs):
            return None
        known = torch_sizes.unknown_symbols([*tensors, *sizes])
        if any(torch_sizes.unknown_symbols([value]) - known for value in found):
            return None  # Sizes depend on values.
        return [list(value.shape) for value in found]

    def _by_onnx(
        self, call: FunctionCall, tensors: Sequence[torch.Tensor], sizes: Sequence[Any]
    ) -> list[_Shape | None] | None:
        """The shapes that ONNX infers for the nodes that `symbolic` builds; None for what it cannot infer."""
        builder = Builder(self._opset)
        named: dict[str, Any] = {}

        def dim(size: Any) -> int | str:
            if isinstance(size, int):
                return size
            name = self._names.get(torch_program_shapes.place_of_size(size) or "", str(size))
            first = named.setdefault(name, size)
            if first is not size:
                torch._check(first == size)
            return name

        inputs = [
            builder.value(f"x{index}", onnx_dtype(each.dtype), [dim(size) for size in each.shape])
            for index, each in enumerate(tensors)
        ]
        numbers = [
            builder.value(f"n{index}", ir.DataType.INT64, []) if isinstance(size, torch.SymInt) else size
            for index, size in enumerate(sizes)
        ]
        outputs = [(onnx_dtype(record.dtype), None) for record in call.outputs if record.dtype is not None]
        try:
            with builder.translating(), torch_overrides.without_modes():
                results = build_function(builder, call, inputs, numbers, outputs, [True] * len(outputs))
        except OpbridgeError:
            return None  # Reported when the model is built, with everything else that is missing.
        given = [result for result in results if result is not None]
        if len(given) < len(results):
            return None
        read = [*inputs, *(number for number in numbers if isinstance(number, ir.Value))]
        graph = builder.graph(read, given, name="function")
        for node in graph.all_nodes():
            for output in node.outputs:
                output.shape = None
        model = ir.Model(graph, ir_version=10, functions=list(builder.functions.values()))
        try:
            with torch_overrides.without_modes():
                inferred = onnx.shape_inference.infer_shapes(ir.to_proto(model), data_prop=True)
        except Exception:
            return None
        found: list[_Shape | None] = []
        for output in inferred.graph.output:
            shape = output.type.tensor_type
            found.append([_size(each, named) for each in shape.shape.dim] if shape.HasField("shape") else None)
        return found


def _size(dim: Any, named: dict[str, Any]) -> Any:
    if dim.HasField("dim_value"):
        return dim.dim_value
    return named.get(dim.dim_param) if dim.HasField("dim_param") else None


def _by_rule(
    rule: Callable[..., Any],
    call: FunctionCall,
    tensors: Sequence[torch.Tensor],
    sizes: Sequence[Any],
    recorded: list[_Shape],
) -> list[_Shape]:
    try:
        given = rule(*call.arguments(tensors, sizes))
        shapes = (
            [list(given)] if len(recorded) == 1 and not _is_list_of_shapes(given) else [list(each) for each in given]
        )
    except Exception as error:
        raise CaptureError(
            f"The shape function {of_function(rule)} of {call.cls.__qualname__} raised {type(error).__name__}: "
            f"{error}. It receives the arguments of forward after ctx, as fake tensors."
        ) from error
    if [len(shape) for shape in shapes] != [len(shape) for shape in recorded]:
        raise CaptureError(
            f"The shape function {of_function(rule)} returns {shapes} for {call.cls.__qualname__}, whose forward "
            f"returns shapes such as {recorded}. Return one shape of the same rank for each output."
        )
    return shapes


def _is_list_of_shapes(given: Any) -> bool:
    return any(isinstance(each, (list, tuple, torch.Size)) for each in given)


def _key(call: FunctionCall, tensors: Sequence[torch.Tensor], sizes: Sequence[Any]) -> Any:
    described = tuple((each.dtype, tuple(each.shape)) for each in tensors)
    return call.cls, repr(call.args), described, tuple(map(int, sizes))
