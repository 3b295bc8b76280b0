"""Lists that loops fill, and the sequences that they become: each operation beside that of a list of Python's."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.utils import _pytree as pytree

from opbridge.capture.tracer.derived_sequences import Zipped
from opbridge.capture.tracer.symbolic_list import Forms, SymbolicList, chained, forming, plain, sequence_of
from opbridge.capture.tracer.tensor_sequences import Numbers, Parts, Rows
from opbridge.errors import CaptureError

_ROWS = torch.arange(10.0).view(5, 2)
_SIZES = torch.tensor([2, 0, 1, 2])


def _forms():
    return {
        "rows": Rows(_ROWS),
        "numbers": Numbers(torch.tensor([4, 1, 3, 1])),
        "parts": Parts.of_list(_ROWS, _SIZES, 0),
        "pairs": Zipped((Rows(_ROWS), Rows(_ROWS + 1))),
    }


def _elements(form):
    """The elements, one by one."""
    return [form.at(index) for index in range(form.length)]


@pytest.fixture
def become():
    """Makes lists that are sequences; what they become is noted as a capture notes it."""
    known = {}

    def note(values, form):
        known[id(values)] = form

    def made(form):
        values = SymbolicList(_elements(form))
        note(values, form)
        return values

    with forming(Forms(lambda values: known.get(id(values)), note, lambda values: None, lambda values, index: None)):
        yield made


def _same(found, expected):
    torch.testing.assert_close(list(found), list(expected), rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["rows", "numbers", "parts", "pairs"])
@pytest.mark.parametrize(
    "index",
    [
        slice(1, None),
        slice(None, -1),
        slice(None, None, -1),
        slice(None, None, 2),
        slice(3, 0, -2),
        slice(-2, None),
        slice(7),
    ],
    ids=str,
)
def test_a_slice_is_that_of_the_elements(kind, index, become):
    values = become(_forms()[kind])
    expected = list.__getitem__(values, index)
    found = values[index]
    assert type(found) is SymbolicList
    _same(_elements(found.form), expected)
    _same(list.__iter__(found), expected)


@pytest.mark.parametrize("kind", ["rows", "numbers", "parts", "pairs"])
def test_elements_are_those_of_the_form(kind, become):
    values = become(_forms()[kind])
    for index in (0, 1, -1, -2):
        _same([values[index]], [list.__getitem__(values, index)])
    with pytest.raises(IndexError):
        values[9]
    assert values and not values[9:]


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values.pop(3),
        lambda values: values.pop(),
        lambda values: values.__setitem__(2, torch.zeros(2)),
        lambda values: values.__delitem__(1),
    ],
)
def test_a_change_where_an_execution_has_held_no_element(change, become):
    values, expected = become(_forms()["rows"]), _elements(_forms()["rows"])
    list.clear(values)
    change(values)
    change(expected)
    _same(_elements(values.form), expected)


@pytest.mark.parametrize("kind", ["rows", "numbers", "parts"])
@pytest.mark.parametrize(
    "change",
    [
        lambda values, other: values.pop(),
        lambda values, other: values.pop(0),
        lambda values, other: values.pop(1),
        lambda values, other: values.insert(0, other),
        lambda values, other: values.insert(2, other),
        lambda values, other: values.__setitem__(0, other),
        lambda values, other: values.__setitem__(-1, other),
        lambda values, other: values.__delitem__(2),
        lambda values, other: values.reverse(),
    ],
)
def test_a_change_is_that_of_a_list(kind, change, become):
    values = become(_forms()[kind])
    expected = list(list.__iter__(values))
    other = 7 if kind == "numbers" else torch.full((2,), 7.0) if kind == "rows" else torch.full((3, 2), 7.0)
    change(values, other)
    change(expected, other)
    _same(list.__iter__(values), expected)
    _same(_elements(values.form), expected)


def test_sums_of_lists(become):
    rows, parts = become(Rows(_ROWS)), become(Parts.of_list(_ROWS, _SIZES, 0))
    one = torch.full((2,), 7.0)
    ones, wholes = [one], [_ROWS]
    _same(_elements((rows + ones).form), [*_ROWS, one])
    _same(_elements((ones + rows).form), [one, *_ROWS])
    _same(_elements((rows + rows).form), [*_ROWS, *_ROWS])
    _same(_elements((parts + wholes).form), [*_ROWS.split([2, 0, 1, 2]), _ROWS])
    whole = become(Rows(torch.ones(3, 1, 2)))
    _same(_elements((parts + whole).form), [*_ROWS.split([2, 0, 1, 2]), *torch.ones(3, 1, 2)])
    _same(_elements(chained([], rows, []).form), _ROWS)


def test_a_sum_of_other_kinds_is_not_known(become):
    rows, others, numbers = become(Rows(_ROWS)), [torch.ones(3, 4)], [1]
    assert (rows + others).form is None
    assert (rows + numbers).form is None


def test_joined_stacked_and_padded():
    parts = Parts.of_list(_ROWS, _SIZES, 0)
    torch.testing.assert_close(parts.joined(0), _ROWS)
    expected = torch.nn.utils.rnn.pad_sequence(_ROWS.split(_SIZES.tolist()), True, -1.0)
    torch.testing.assert_close(parts.padded(True, -1.0, "right"), expected)
    rows = Rows(_ROWS.view(5, 2, 1))
    torch.testing.assert_close(rows.stacked(1), torch.stack(list(_ROWS.view(5, 2, 1)), 1))
    torch.testing.assert_close(
        rows.padded(False, 0.0, "right"), torch.nn.utils.rnn.pad_sequence(list(_ROWS.view(5, 2, 1)))
    )


def test_it_is_a_list_where_no_loop_has_filled_it():
    values = SymbolicList([1, 2, 3])
    assert values == [1, 2, 3] and isinstance(values, list) and sequence_of(values) is None
    assert values[1:] == [2, 3] and values + [4] == [1, 2, 3, 4] and [0] + values == [0, 1, 2, 3]  # noqa: RUF005
    values += [4]
    values.extend(iter([5]))
    values.insert(0, 0)
    assert values.pop() == 5 and values == [0, 1, 2, 3, 4] and values * 2 == [*values, *values]
    assert list(reversed(values)) == [4, 3, 2, 1, 0] and copy.copy(values) == values
    assert type(values.copy()) is SymbolicList and sorted(values) == values


def test_a_tree_without_them():
    tree = {"a": SymbolicList([1, (SymbolicList([2]), 3)]), "b": [4]}
    found = plain(tree)
    assert found == {"a": [1, ([2], 3)], "b": [4]}
    assert type(found["a"]) is list and type(found["a"][1][0]) is list
    assert plain([1, {"x": 2}]) == [1, {"x": 2}]
    assert pytree.tree_map(lambda each: each + 1, SymbolicList([1])) == [2]


@pytest.mark.parametrize("kind", ["rows", "numbers", "parts", "pairs"])
def test_a_sequence_is_modified_where_it_is_a_list_of_its_own(kind):
    """`list(sequence)`, modified as a list of Python's is; the sequence itself stays."""
    form = _forms()[kind]
    own, expected = form.copied(), _elements(form)
    before = _elements(form)
    for change in (
        lambda held: held.insert(0, held[1]),
        lambda held: held.append(held[-2]),
        lambda held: held.pop(0),
        lambda held: held.__setitem__(-1, held[0]),
        lambda held: held.__delitem__(1),
        lambda held: held.reverse(),
        lambda held: held.extend(held[:1]),
    ):
        change(own)
        change(expected)
        _same([own[index] for index in range(int(own.length))], expected)
    _same(_elements(form), before)


@pytest.mark.parametrize("change", [lambda held: held.append(1), lambda held: held.pop(), lambda held: held.reverse()])
def test_a_sequence_that_is_no_list_is_not_modified(change):
    with pytest.raises(CaptureError, match="Make a list of it by a comprehension"):
        change(Numbers(torch.tensor([1, 2])))


@pytest.mark.parametrize("change", [lambda held: held.sort(), lambda held: held.remove(1), lambda held: held.clear()])
def test_changes_that_need_the_elements_are_refused(change):
    with pytest.raises(CaptureError, match="Make a list of it by a comprehension"):
        change(Numbers(torch.tensor([1, 2])).copied())
