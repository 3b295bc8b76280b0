"""A value of the ONNX graph, as translations are given it, and what builds nodes from it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import onnx_ir as ir

from opbridge.errors import TranslationError
from opbridge.onnx import shapes

__all__ = ["FLOATS", "NodeBuilder", "Tensor"]


class NodeBuilder(Protocol):
    """What adds nodes to a graph: `opbridge.onnx.builder.Builder`.

    Attributes:
        opset: The version of the standard operator set that nodes are built for.
        domains: The domains used beside the standard one, with their versions.
    """

    opset: int
    domains: dict[str, int]

    def emit(self, op_type: str, inputs: Sequence[Any], attributes: Mapping[str, Any] | None = None) -> Tensor:
        """Builds a call of a standard operator, in the form of the opset that translations are written for."""

    def call(
        self, op_type: str, inputs: Sequence[Any], attributes: Mapping[str, Any], *, version: int
    ) -> tuple[Tensor, ...]:
        """Builds a call in the form of the opset `version`, and returns all of its outputs."""

    def node(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        attributes: Mapping[str, Any],
        dtypes: Sequence[ir.DataType | ir.TypeProtocol | None],
        shapes: Sequence[ir.Shape | None] = (),
        *,
        domain: str = "",
    ) -> tuple[Tensor, ...]:
        """Builds a node of any domain as it is given."""

    def constant(self, value: Any, dtype: ir.DataType | None = None) -> Tensor:
        """A constant of the graph."""

    def loop(self, count: int | Tensor, value: Tensor, turn: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Builds a Loop that a value passes through a number of times."""


class _Unasked(enum.Enum):
    """The mark of a value whose shape nobody has asked for."""

    UNASKED = enum.auto()


_UNASKED = _Unasked.UNASKED

FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


class Tensor(ir.Value):
    """A value of the graph that Python operators can be applied to, as translations do.

    `==` and `!=` are the exception: they say whether two values are the same one, here as for every `ir.Value`, which
    onnx_ir keeps in sets and looks for in lists. Elements are compared by `op.Equal`. Comparing a value with a number,
    which could only be meant for its elements, is refused.

    Attributes:
        dtype: Always known of what an operator of ONNX gives.
        shape: As it was set, as that of a value of the capture is; else as the inputs of the value's node tell, and
            None where they do not. It is inferred when it is first asked for, and only until the node is part of a
            graph: files hold no more than what was set.
        rank: The number of dimensions; None where the shape is.
        builder: What built it.
    """

    __slots__ = ("_inferred", "builder")
    builder: NodeBuilder
    _inferred: ir.Shape | _Unasked | None

    def __init__(
        self,
        builder: NodeBuilder,
        *,
        name: str,
        shape: ir.Shape | None = None,
        type: ir.TypeProtocol | None = None,
    ) -> None:
        super().__init__(name=name, shape=shape, type=type)
        self.builder = builder
        self._inferred = _UNASKED

    @property  # type: ignore[override]
    def shape(self) -> ir.Shape | None:
        if self._shape is not None:
            return self._shape
        producer = self._producer
        if producer is None or producer.graph is not None:
            return None
        if self._inferred is _UNASKED:
            _infer(self)
        return self._inferred  # type: ignore[return-value]

    @shape.setter
    def shape(self, value: ir.Shape | None) -> None:
        ir.Value.shape.fset(self, value)  # type: ignore[attr-defined]

    def _is_open(self) -> bool:
        """Whether the shape can be inferred and has not been."""
        if self._shape is not None or self._inferred is not _UNASKED:
            return False
        return self._producer is not None and self._producer.graph is None

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    def _binary(self, op_type: str, left: Any, right: Any) -> Tensor:
        return self.builder.emit(op_type, (left, right))

    def __add__(self, other: Any) -> Tensor:
        return self._binary("Add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return self._binary("Add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return self._binary("Sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return self._binary("Sub", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return self._binary("Mul", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return self._binary("Mul", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return self._binary("Div", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return self._binary("Div", other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return self._binary("MatMul", self, other)

    def __pow__(self, other: Any) -> Tensor:
        return self._binary("Pow", self, other)

    def __mod__(self, other: Any) -> Tensor:
        return self.builder.emit("Mod", (self, other), {"fmod": 1} if self.dtype in FLOATS else {})

    def __neg__(self) -> Tensor:
        return self.builder.emit("Neg", (self,))

    def __lt__(self, other: Any) -> Tensor:
        return self._binary("Less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return self._binary("LessOrEqual", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return self._binary("Greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return self._binary("GreaterOrEqual", self, other)

    def __eq__(self, other: object) -> bool:
        _refuse_number(self, other)
        return self is other

    def __ne__(self, other: object) -> bool:
        _refuse_number(self, other)
        return self is not other

    def __and__(self, other: Any) -> Tensor:
        return self._binary("And" if self.dtype == ir.DataType.BOOL else "BitwiseAnd", self, other)

    def __or__(self, other: Any) -> Tensor:
        return self._binary("Or" if self.dtype == ir.DataType.BOOL else "BitwiseOr", self, other)

    def __xor__(self, other: Any) -> Tensor:
        return self._binary("Xor" if self.dtype == ir.DataType.BOOL else "BitwiseXor", self, other)

    def __invert__(self) -> Tensor:
        return self.builder.emit("Not" if self.dtype == ir.DataType.BOOL else "BitwiseNot", (self,))

    def __bool__(self) -> bool:
        raise TranslationError(
            f"The value of the tensor '{self.name}' is known only at run time, so it cannot be used as a Python "
            "condition. Use Where or If in the translation."
        )

    __hash__ = object.__hash__


def _infer(value: Tensor) -> None:
    """Infers a value's shape and, before it, those of the values it is computed from.

    Without recursion: a translation may build longer chains of nodes than Python's stack is deep.
    """
    waiting = [value]
    while waiting:
        node = waiting[-1].producer()
        if node is None or not waiting[-1]._is_open():
            waiting.pop()
            continue
        unknown = [each for each in node.inputs if isinstance(each, Tensor) and each._is_open()]
        if unknown:
            waiting.extend(unknown)
            continue
        waiting.pop()
        for output, sizes in zip(node.outputs, shapes.infer(node, value.builder.opset), strict=True):
            if isinstance(output, Tensor):
                output._inferred = None if sizes is None else ir.Shape(sizes)


def _refuse_number(value: Tensor, other: object) -> None:
    """Raises TranslationError where `other` is a Python number."""
    if isinstance(other, (int, float, complex)):
        raise TranslationError(
            f"The tensor '{value.name}' is compared with {other} by == or !=, which do not compare the elements of "
            f"a tensor. Use op.Equal(value, {other})."
        )
