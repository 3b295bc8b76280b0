"""Files, damaged in ways that a reader may not expect: bytes of any file, and fields of an ONNX file."""

from __future__ import annotations

import random
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

__all__ = ["mutated"]

_NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    63,
    64,
    127,
    255,
    2**16,
    2**31 - 1,
    2**31,
    2**32,
    2**40,
    2**62,
    2**63 - 1,
    -(2**31),
    -(2**63),
)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 3e38, float("inf"), -float("inf"), float("nan"))
_TEXTS = (
    "",
    "x",
    "\x1b[2J\x1b]0;title\x07",
    "\x9b31m\u202egnp.exe",
    "a\nb\tc\r",
    "../../../../etc/passwd",
    "/etc/passwd",
    "/dev/zero",
    "%s%n",
    "x" * 5000,
    "Add",
    "If",
    "Loop",
    "ATen",
    "ai.onnx",
    "org.pytorch.aten",
    "opbridge_ops",
    "opbridge.kernels",
    " ".join(f"d{number}::f" for number in range(4000)),
    "location",
    "é𝄞",
)
_MOST_REPEATED = 3000


def mutated(content: bytes, random_: random.Random, *, is_model: bool) -> bytes:
    """A damaged copy.

    Args:
        content: The file.
        random_: Decides how.
        is_model: Whether it is an ONNX file, whose fields may be changed one by one.
    """
    if is_model and random_.random() < 0.7:
        try:
            return _with_other_fields(content, random_)
        except DecodeError:
            pass
    for _ in range(random_.choice((1, 1, 1, 2, 5, 20))):
        content = random_.choice(_BYTES)(content, random_)
    return content


def _flip(content: bytes, random_: random.Random) -> bytes:
    if not content:
        return content
    at = random_.randrange(len(content))
    return content[:at] + bytes([random_.randrange(256)]) + content[at + 1 :]


def _truncate(content: bytes, random_: random.Random) -> bytes:
    return content[: random_.randrange(len(content) + 1)]


def _insert(content: bytes, random_: random.Random) -> bytes:
    at = random_.randrange(len(content) + 1)
    return content[:at] + random_.randbytes(random_.choice((1, 2, 8, 100))) + content[at:]


def _repeat(content: bytes, random_: random.Random) -> bytes:
    at = random_.randrange(len(content) + 1)
    piece = content[at : at + random_.choice((1, 4, 30, 300))]
    return content[:at] + piece * random_.choice((2, 3, 100, 1000)) + content[at:]


def _remove(content: bytes, random_: random.Random) -> bytes:
    at = random_.randrange(len(content) + 1)
    return content[:at] + content[at + random_.choice((1, 4, 30, 300)) :]


def _blank(content: bytes, random_: random.Random) -> bytes:
    at, count = random_.randrange(len(content) + 1), random_.choice((1, 8, 64, 512))
    filled = random_.choice((b"\x00", b"\xff", b"\x80"))
    return content[:at] + filled * len(content[at : at + count]) + content[at + count :]


_BYTES = (_flip, _flip, _flip, _truncate, _insert, _repeat, _remove, _blank)


def _with_other_fields(content: bytes, random_: random.Random) -> bytes:
    model = onnx.ModelProto.FromString(content)
    for _ in range(random_.choice((1, 1, 1, 2, 3, 8))):
        messages = list(_messages(model))
        # The few messages of the outer levels as often as the many of the inner ones.
        kinds = sorted({type(each).__name__ for each in messages})
        kind = random_.choice(kinds)
        _change(random_.choice([each for each in messages if type(each).__name__ == kind]), messages, random_)
    return model.SerializePartialToString()


def _messages(message: Message) -> Any:
    yield message
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for each in value if field.is_repeated else [value]:
                yield from _messages(each)


def _change(message: Message, messages: list[Message], random_: random.Random) -> None:
    field = random_.choice(message.DESCRIPTOR.fields)
    if random_.random() < 0.6 and (present := message.ListFields()):
        field = random_.choice(present)[0]
    if random_.random() < 0.15:
        message.ClearField(field.name)
    elif field.is_repeated:
        _change_list(getattr(message, field.name), field, messages, random_)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        alike = [each for each in messages if each.DESCRIPTOR is field.message_type]
        if alike:
            copy = type(message)()
            copy.CopyFrom(message)
            getattr(copy, field.name).CopyFrom(random_.choice(alike))
            message.CopyFrom(copy)
        else:
            getattr(message, field.name).SetInParent()
    else:
        setattr(message, field.name, _value(field, random_))


def _change_list(values: Any, field: FieldDescriptor, messages: list[Message], random_: random.Random) -> None:
    action = random_.choice(("remove", "add", "repeat", "replace", "swap"))
    if action == "remove" and values:
        del values[random_.randrange(len(values))]
    elif action == "repeat" and values:
        one = random_.choice(values)
        values.extend([one] * random_.choice((1, 2, 50, _MOST_REPEATED)))
    elif action == "swap" and len(values) > 1:
        first, second = random_.sample(range(len(values)), 2)
        one, other = (type(values[0])() for _ in range(2)) if field.type == FieldDescriptor.TYPE_MESSAGE else (0, 0)
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            one.CopyFrom(values[first])
            other.CopyFrom(values[second])
            values[first].CopyFrom(other)
            values[second].CopyFrom(one)
        else:
            values[first], values[second] = values[second], values[first]
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        alike = [each for each in messages if each.DESCRIPTOR is field.message_type]
        if alike:
            values.extend([random_.choice(alike)])
        else:
            values.add()
    elif action == "replace" and values:
        values[random_.randrange(len(values))] = _value(field, random_)
    else:
        values.append(_value(field, random_))


def _value(field: FieldDescriptor, random_: random.Random) -> Any:
    kind = field.type
    if kind == FieldDescriptor.TYPE_STRING:
        return random_.choice(_TEXTS)
    if kind == FieldDescriptor.TYPE_BYTES:
        return random_.choice((b"", b"\x00", b"\xff" * 9, random_.randbytes(64), bytes(4000)))
    if kind in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
        return random_.choice(_FLOATS)
    if kind == FieldDescriptor.TYPE_ENUM:
        return random_.choice([each.number for each in field.enum_type.values])
    value = random_.choice(_NUMBERS)
    if kind == FieldDescriptor.TYPE_INT32:
        return max(-(2**31), min(value, 2**31 - 1)) if random_.random() < 0.5 else random_.randrange(-2, 30)
    if kind == FieldDescriptor.TYPE_UINT64:
        return value % 2**64
    return value if random_.random() < 0.7 else random_.randrange(-3, 40)
