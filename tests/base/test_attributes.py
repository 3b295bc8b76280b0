"""What an object holds, in its dictionary and in slots."""

from __future__ import annotations

from opbridge.base.python_private.attributes import attributes, is_of_python


class Slots:
    __slots__ = ("x", "y")


class Both(Slots):
    def __init__(self) -> None:
        self.x, self.z = 1, 3


def test_attributes_are_those_that_have_a_value() -> None:
    assert dict(attributes(Both())) == {"x": 1, "z": 3}
    assert not dict(attributes(Slots())) and not dict(attributes(3))


def test_classes_of_class_statements() -> None:
    assert is_of_python(Both) and is_of_python(Slots)
    assert not is_of_python(int) and not is_of_python(dict)
