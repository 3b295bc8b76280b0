"""The nodes of an attention without a cache, as models write them.

y = softmax(scale * q @ k.T + bias) @ v
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from opbridge.fit.fused.patterns import dims, is_same_shape, number, numbers, only_reader, producer, put, shape_of
from opbridge.fit.fused.scores import HEADS_BY_TOKENS, factored, is_zeroing
from opbridge.fit.fused.steps import Steps, joined_tokens

__all__ = ["VISIBLE_FROM", "Bias", "Given", "WholeAttention", "attentions", "known", "put_by_heads"]

_KEYS_TO_COLUMNS = [0, 1, 3, 2]
_TOKENS_TO_COLUMNS = [0, 2, 3, 1]
_BATCH_FIRST = [1, 0, 2]
VISIBLE_FROM = -1e30
"""A bias below it hides a key, as far as anything is proved: the lowest float32 is -3.4e38."""


@dataclass(frozen=True)
class Given:
    """Queries, keys or values.

    Attributes:
        sizes: [batch, heads, tokens, size].
        heads: The value of these sizes; None: there is only the next.
        tokens: The value of shape [batch, tokens, heads, size] that it is a transposition of; None: it is none.
        sequence: The value of shape [tokens, batch, heads * size] that `nn.MultiheadAttention` makes it of; None: it
            is made otherwise.
    """

    sizes: tuple[int | str, ...]
    heads: ir.Value | None
    tokens: ir.Value | None
    sequence: ir.Value | None = None

    def is_view(self) -> bool:
        """Whether `joined` is a value that is there, or one that moves whole rows of it."""
        return self.sequence is not None or self._whole() is not None

    def joined(self, steps: Steps, before: ir.Node) -> ir.Value:
        """The value of shape [batch, tokens, heads * size] that it is a view of."""
        if (whole := self._whole()) is not None:
            return whole
        assert self.sequence is not None
        made = steps.step("Transpose", [self.sequence], before, "by_batch", perm=_BATCH_FIRST)
        batch, heads, tokens, size = self.sizes
        made.type, made.shape = self.dtype(), ir.Shape([batch, tokens, known(heads) * known(size)])
        return made

    def _whole(self) -> ir.Value | None:
        return joined_tokens(self.tokens, known(self.sizes[1]) * known(self.sizes[3]))

    def dtype(self) -> ir.TypeProtocol | None:
        """The type of the values."""
        value = self.tokens if self.heads is None else self.heads
        return None if value is None else value.type


@dataclass(frozen=True)
class Bias:
    """What is added to scores.

    Attributes:
        value: A constant, or numbers that a mask chooses.
        sizes: The shape that it broadcasts to the scores in: four dimensions or fewer.
        windows: Where it is added to scores in five dimensions, [images, windows, heads, queries, keys], that shape
            with the number of heads of the bias; `sizes` are those of the first two dimensions as one.
        mask: The truth values that choose it; None: it is a constant.
    """

    value: ir.Value
    sizes: tuple[int, ...]
    windows: tuple[int, ...] = ()
    mask: ir.Value | None = None

    def elements(self) -> np.ndarray | None:
        """Its numbers; None: a mask that is no constant chooses them."""
        if self.mask is None:
            return _constant(self.value)
        shown = _constant(self.mask)
        return None if shown is None else np.where(shown, np.float32(0), np.float32(-np.inf))


@dataclass(frozen=True)
class WholeAttention:
    """One attention.

    Attributes:
        product: The node that multiplies the values.
        query: The queries.
        key: The keys.
        value: The values.
        scale: What scores are multiplied by.
        biases: What is added to them.
        zeroing: Where a mask chooses a bias, the Where that gives 0 for queries that see no key.
    """

    product: ir.Node
    query: Given
    key: Given
    value: Given
    scale: float
    biases: Sequence[Bias]
    zeroing: ir.Node | None


def put_by_heads(whole: ir.Value, found: WholeAttention, steps: Steps) -> None:
    """Puts a value of shape [batch, tokens, heads * size] in the place of what an attention gives, by heads."""
    output = found.product.outputs[0]
    batch, heads, tokens, _ = found.query.sizes
    size = known(found.value.sizes[3])
    whole.type, whole.shape = output.type, ir.Shape([batch, tokens, known(heads) * size])
    shape = steps.constant(np.array([0, 0, known(heads), size], np.int64), found.product, "heads")
    by_token = steps.step("Reshape", [whole, shape], found.product, "by_token")
    by_token.type, by_token.shape = output.type, ir.Shape([batch, tokens, heads, size])
    put(ir.node("Transpose", [by_token], {"perm": HEADS_BY_TOKENS}), [output])


def attentions(graph: ir.Graph) -> Iterator[WholeAttention]:
    """The attentions of a graph without a cache, which may be replaced while it is iterated over."""
    for node in list(graph):
        found = _matched(node) if node.op_type == "Softmax" and node.domain == "" else None
        if found is not None:
            yield found


def _matched(softmax: ir.Node) -> WholeAttention | None:
    """The attention of a softmax over keys, which nothing else reads, and of which nothing is left out."""
    shares = softmax.outputs[0]
    product = only_reader(shares)
    if product is None or product.op_type != "MatMul" or product.domain or product.inputs[0] is not shares:
        return None
    if softmax.attributes.get_int("axis", -1) not in (-1, 3) or product.inputs[1] is None:
        return None
    value = _given(product.inputs[1])
    if value is None:
        return None
    added: list[tuple[ir.Value, tuple[int, ...]]] = []
    scores = softmax.inputs[0]
    while (sum_of := _added(scores)) is not None:
        scores, bias, windows = sum_of
        added.append((bias, windows))
    scaled = factored(scores)
    scores_of = None if scaled is None else producer(scaled[0], "MatMul")
    if scaled is None or scores_of is None:
        return None
    query, key = factored(scores_of.inputs[0]), factored(scores_of.inputs[1])
    if query is None or key is None:
        return None
    queries, columns = _given(query[0]), _transposed(key[0])
    if queries is None or columns is None:
        return None
    keys, factor = columns
    (batch, heads, tokens, size), (_, groups, count, _) = queries.sizes, keys.sizes
    if keys.sizes != (batch, groups, count, size) or value.sizes[:3] != (batch, groups, count):
        return None
    if not isinstance(heads, int) or not isinstance(groups, int) or not isinstance(size, int) or heads % groups:
        return None
    scale = scaled[1] * query[1] * key[1] * factor
    if not isinstance(value.sizes[3], int) or not scale or 0 in (*queries.sizes, *keys.sizes, *value.sizes):
        return None
    biases = [_bias(each, sizes, (batch, heads, tokens, count)) for each, sizes in added]
    if None in biases:
        return None
    found = [each for each in biases if each is not None]
    zeroing: ir.Node | None = None
    if any(each.mask is not None for each in found):
        zeroing = only_reader(product.outputs[0])
        if len(found) > 1 or zeroing is None or not is_zeroing(zeroing, product.outputs[0], found[0].value):
            return None
    elif found and not _shows_each_query_a_key(found):
        return None
    return WholeAttention(product, queries, keys, value, scale, found, zeroing)


def _given(value: ir.Value) -> Given | None:
    """Queries or values, [batch, heads, tokens, size]."""
    sizes = dims(value, 4)
    if None in sizes or value.dtype != ir.DataType.FLOAT:
        return None
    named = tuple(each for each in sizes if each is not None)
    node = producer(value, "Transpose")
    is_view = node is not None and list(node.attributes.get_ints("perm", ())) == HEADS_BY_TOKENS
    return Given(named, value, node.inputs[0] if node is not None and is_view else None, _sequence(value, named))


def _sequence(value: ir.Value, sizes: tuple[int | str, ...]) -> ir.Value | None:
    """The value of shape [tokens, batch, heads * size] that `nn.MultiheadAttention` makes one of these sizes of."""
    batch, heads, tokens, size = sizes
    view = producer(value, "Reshape")
    turned = None if view is None else producer(view.inputs[0], "Transpose")
    if turned is None or not isinstance(batch, int) or not isinstance(heads, int) or not isinstance(size, int):
        return None
    first = producer(turned.inputs[0], "Reshape")
    whole = None if first is None else first.inputs[0]
    if list(turned.attributes.get_ints("perm", ())) != _BATCH_FIRST or dims(whole, 3) != (tokens, batch, heads * size):
        return None
    return whole if dims(turned.inputs[0], 3) == (tokens, batch * heads, size) else None


def _transposed(value: ir.Value) -> tuple[Given, float] | None:
    """Keys that are read as [batch, heads, size, tokens], and what they are multiplied by before."""
    node = producer(value, "Transpose")
    if node is None or node.inputs[0] is None:
        return None
    order = list(node.attributes.get_ints("perm", ()))
    if order == _KEYS_TO_COLUMNS:
        found = factored(node.inputs[0])
        keys = None if found is None else _given(found[0])
        return None if found is None or keys is None else (keys, found[1])
    tokens = node.inputs[0]
    batch, count, heads, size = dims(tokens, 4)
    if order != _TOKENS_TO_COLUMNS or batch is None or count is None or heads is None or size is None:
        return None
    return (Given((batch, heads, count, size), None, tokens), 1.0) if tokens.dtype == ir.DataType.FLOAT else None


def _added(scores: ir.Value | None) -> tuple[ir.Value, ir.Value, tuple[int, ...]] | None:
    """Scores without what is added to them last, this, and the five sizes that it is added in, if it is so."""
    windows: tuple[int, ...] = ()
    view = producer(scores, "Reshape")
    node = producer(scores if view is None else view.inputs[0], "Add")
    if node is None or scores is None:
        return None
    for plain, bias in (node.inputs, tuple(reversed(node.inputs))):
        if plain is None or bias is None:
            continue
        if view is not None:
            back, sizes = producer(plain, "Reshape"), dims(plain, 5)
            windows = tuple(each for each in sizes if isinstance(each, int))
            if back is None or len(windows) < 5 or not is_same_shape(back.inputs[0], scores):
                continue
            if (windows[0] * windows[1], *windows[2:]) != dims(scores, 4):
                continue
            plain = back.inputs[0]
        if plain is not None and producer(plain, "MatMul", "Mul", "Div", "Add", "Reshape") is not None:
            return plain, bias, windows
    return None


def _bias(value: ir.Value, windows: tuple[int, ...], scores: tuple[int | str, ...]) -> Bias | None:
    """What is added to scores of some sizes, if it is known well enough."""
    chosen = producer(value, "Where")
    mask = chosen.inputs[0] if chosen is not None else None
    if chosen is not None and (mask is None or number(chosen.inputs[1]) != 0 or number(chosen.inputs[2]) != -np.inf):
        return None
    found = _shape_of_constant(value) if chosen is None else shape_of(mask)
    sizes = tuple(each for each in found or () if isinstance(each, int))
    if found is None or len(sizes) < len(found):
        return None
    if windows:
        sizes = (1,) * (len(windows) - len(sizes)) + sizes
        if mask is not None or sizes[:2] != (1, windows[1]) or sizes[3:] != windows[3:]:
            return None
        windows = (*windows[:2], *sizes[2:])
        sizes = (windows[0] * windows[1], *windows[2:])
    if not 2 <= len(sizes) <= 4 or sizes[-2:] != scores[-2:]:
        return None
    if any(one not in (1, whole) for one, whole in zip(reversed(sizes), reversed(scores), strict=False)):
        return None
    return Bias(value, sizes, windows, mask)


def _constant(value: ir.Value | None) -> np.ndarray | None:
    """The elements of a constant, or of a triangle of one number."""
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    if tensor is not None:
        return tensor.numpy()
    triangle = _triangle(value)
    if triangle is None:
        return None
    shape, element, diagonal, is_upper = triangle
    return (np.triu if is_upper else np.tril)(np.full(shape, element, np.float32), diagonal)


def _shape_of_constant(value: ir.Value) -> tuple[int, ...] | None:
    """The shape of what `_constant` gives."""
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is not None:
        return tuple(tensor.shape.numpy())
    triangle = _triangle(value)
    return None if triangle is None else triangle[0]


def _triangle(value: ir.Value | None) -> tuple[tuple[int, ...], float, int, bool] | None:
    """The shape, the number, the diagonal and the side of a triangle, as `scaled_dot_product_attention` makes one."""
    cut = producer(value, "Trilu")
    filled = None if cut is None else producer(cut.inputs[0], "Expand")
    if cut is None or filled is None:
        return None
    element, shape = number(filled.inputs[0]), numbers(filled.inputs[1])
    diagonal = number(cut.inputs[1]) if len(cut.inputs) > 1 else 0
    if element is None or shape is None or diagonal is None:
        return None
    return tuple(int(each) for each in shape), element, int(diagonal), bool(cut.attributes.get_int("upper", 1))


def _shows_each_query_a_key(biases: Sequence[Bias]) -> bool:
    """Whether a sum of constants hides not all keys of any query."""
    shown: np.ndarray = np.array(True)
    for each in biases:
        elements = each.elements()
        assert elements is not None
        if np.isnan(elements).any() or (elements == np.inf).any():
            return False
        here = elements > VISIBLE_FROM
        if each.windows:
            here = np.broadcast_to(here, each.windows).reshape(each.sizes)
        shown = shown & here
    return bool(shown.any(-1).all())


def known(size: int | str) -> int:
    """A size that is a number."""
    assert isinstance(size, int)
    return size
