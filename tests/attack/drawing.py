"""Arguments of every kind, drawn from an operator's schema.

Half of what is drawn fits: tensors of one shape and dtype, dimensions within the rank, the words that an argument of
that name takes. The other half does not: other shapes, empty tensors, numbers that are not finite, integers at the ends
of their range. A call that ran is kept, and later calls are made from it by one to three changes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch

__all__ = ["Drawer"]

Call = tuple[list[Any], dict[str, Any]]

_INTEGERS = (-1, -2, -3, -7, 5, 7, 8, 16, 31, 64, 100, 127, 128, 255, 1000, 4097)
_EXTREMES = (
    2**15,
    2**16 + 1,
    2**20,
    2**31 - 1,
    2**31,
    2**32 + 1,
    2**40,
    2**62,
    2**63 - 1,
    -(2**31),
    -(2**40),
    -(2**63),
    -(2**63) + 1,
)
_NUMBERS = (0.0, 1.0, 0.5, -1.0, 2.0, 1.5, -0.0, 3.7, 1e-5, 0.1)
_WILD_NUMBERS = (math.inf, -math.inf, math.nan, 1e-300, 1e300, 1e18, -1e18, 1e9, -1e9, 2.0**31, 2.0**63, -3.0, 1e-45)
_FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_INTEGRAL = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_COMPLEX = (torch.complex64, torch.complex128)
_RARE = (torch.bool, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2)
_ALL_DTYPES = (*_FLOATING, *_INTEGRAL, *_COMPLEX, *_RARE)
_SIZES = (1, 2, 3, 4, 5, 2, 3, 4)
_INDEX_NAMES = ("index", "indices", "target", "labels", "offsets", "lengths", "batch_sizes", "input_lengths", "repeats")
_DIMENSION_NAMES = ("dim", "dims", "axis", "dim0", "dim1", "dim2", "start_dim", "end_dim", "source", "destination")
_WORDS = {
    "reduction": ("mean", "sum", "none", "prod", "amax", "amin"),
    "reduce": ("sum", "mean", "prod", "amax", "amin", "max", "min"),
    "rounding_mode": ("trunc", "floor"),
    "mode": ("constant", "reflect", "replicate", "circular", "reduced", "complete", "r"),
    "padding": ("same", "valid"),
    "indexing": ("ij", "xy"),
    "norm": ("backward", "ortho", "forward"),
    "ord": ("fro", "nuc"),
    "approximate": ("none", "tanh"),
    "side": ("left", "right"),
    "interpolation": ("linear", "lower", "higher", "midpoint", "nearest"),
    "UPLO": ("L", "U"),
    "driver": ("gels", "gelsy", "gelsd", "gelss"),
    "equation": ("ij,jk->ik", "i,i->", "ij->ji", "...i,...i", "ii->i", "b...->...b"),
}
_ODD_WORDS = ("", "x", "mean", "\x00", "ij,jk", "->", "i" * 300, "sum", "none", "bilinear", "é")
_POOL = 4096

Draw = Callable[[], Any]


def _pools() -> dict[torch.dtype, dict[str, torch.Tensor]]:
    """Numbers of each dtype, of which tensors are made: usual ones, small ones as indices have, and wild ones."""
    generator = torch.Generator().manual_seed(7)
    pools: dict[torch.dtype, dict[str, torch.Tensor]] = {}
    for dtype in _ALL_DTYPES:
        small = torch.randint(0, 4, (_POOL,), generator=generator)
        if dtype.is_floating_point or dtype.is_complex:
            usual = torch.randn(_POOL, generator=generator, dtype=torch.float64)
            wild = usual.clone()
            draw = random.Random(3)
            for at in range(_POOL):
                if draw.random() < 0.5:
                    wild[at] = draw.choice(_WILD_NUMBERS)
            made = {"usual": usual, "small": small, "wild": wild}
        else:
            limits = torch.iinfo(dtype) if dtype is not torch.bool else None
            low, high = (limits.min, limits.max) if limits else (0, 1)
            draw = random.Random(5)
            choices = [
                each for each in (*_INTEGERS, *_EXTREMES, low, high, low + 1, high - 1, 0, 1) if low <= each <= high
            ]
            wild = [draw.choice(choices) for _ in range(_POOL)]
            wild_bits = torch.tensor([each - 2**64 if each >= 2**63 else each for each in wild], dtype=torch.int64)
            made = {"usual": torch.randint(0, 10, (_POOL,), generator=generator), "small": small, "wild": wild_bits}
        pools[dtype] = {kind: values.to(dtype) for kind, values in made.items()}
    return pools


class Drawer:
    """Draws calls of one operator.

    Args:
        target: The operator.
        seed: What they are drawn from.
        samples: Calls to begin with, beside those drawn from the schema.
    """

    _shared_pools: ClassVar[dict[torch.dtype, dict[str, torch.Tensor]]] = {}

    def __init__(self, target: Any, seed: str, samples: Sequence[Call] = ()) -> None:
        if not Drawer._shared_pools:
            Drawer._shared_pools.update(_pools())
        self._draw = random.Random(seed)
        self._arguments = [_Argument(each) for each in target._schema.arguments]
        self._samples = list(samples)
        self._ran: list[Call] = []
        self._shape: tuple[int, ...] = ()
        self._dtype = torch.float32
        self._values = "usual"
        self._hostile = 0.0

    def call(self) -> Call:
        """The next call."""
        draw = self._draw
        self._mood()
        chance = draw.random()
        if self._samples and chance < 0.4:
            return self._changed(draw.choice(self._samples))
        if self._ran and chance < 0.7:
            return self._changed(draw.choice(self._ran))
        return self._fresh()

    def keep(self, call: Call) -> None:
        """Takes a call that ran into those that others are made of."""
        if len(self._ran) < 40:
            self._ran.append(call)
        elif self._draw.random() < 0.1:
            self._ran[self._draw.randrange(40)] = call

    # -- what the arguments of a call have in common

    def _mood(self) -> None:
        draw = self._draw
        rank = draw.choice((0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5))
        if draw.random() < 0.4:
            self._shape = (draw.choice(_SIZES),) * rank
        else:
            self._shape = tuple(draw.choice(_SIZES) for _ in range(rank))
        if rank and draw.random() < 0.1:
            self._shape = self._with(self._shape, 0)
        elif rank and draw.random() < 0.05:
            self._shape = self._with(self._shape, draw.choice((16, 33, 64, 130)))
        chance = draw.random()
        family = (
            _FLOATING[:2] if chance < 0.5 else _INTEGRAL if chance < 0.7 else _COMPLEX if chance < 0.8 else _ALL_DTYPES
        )
        self._dtype = draw.choice(family)
        self._values = draw.choice(("usual", "usual", "small", "wild"))
        self._hostile = draw.choice((0.0, 0.1, 0.1, 0.3))

    def _with(self, shape: Sequence[int], size: int) -> tuple[int, ...]:
        sizes = list(shape)
        sizes[self._draw.randrange(len(sizes))] = size
        return tuple(sizes)

    def _is_hostile(self) -> bool:
        return self._draw.random() < self._hostile

    # -- calls

    def _fresh(self) -> Call:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for argument in self._arguments:
            as_declared = argument.has_default and self._draw.random() < 0.4
            value = argument.default if as_declared else self._value(argument)
            if argument.keyword_only:
                kwargs[argument.name] = value
            else:
                args.append(value)
        return args, kwargs

    def _changed(self, call: Call) -> Call:
        args, kwargs = list(call[0]), dict(call[1])
        for argument in self._arguments[len(args) :]:
            if not argument.keyword_only and argument.has_default and self._draw.random() < 0.3:
                args.append(argument.default)
            else:
                break
        for _ in range(self._draw.choice((0, 1, 1, 1, 2, 2, 3))):
            if not self._arguments:
                break
            at = self._draw.randrange(len(self._arguments))
            argument = self._arguments[at]
            if argument.keyword_only:
                kwargs[argument.name] = self._other(argument, kwargs.get(argument.name, argument.default))
            elif at < len(args):
                args[at] = self._other(argument, args[at])
        return args, kwargs

    def _other(self, argument: _Argument, value: Any) -> Any:
        """A value in the place of another one."""
        draw = self._draw
        if isinstance(value, torch.Tensor) and draw.random() < 0.8:
            return self._other_tensor(value)
        if isinstance(value, (list, tuple)) and value and draw.random() < 0.8:
            return self._other_list(argument, list(value))
        if isinstance(value, int) and not isinstance(value, bool) and draw.random() < 0.4:
            return max(min(value + draw.choice((-1, 1, 2, -2)), 2**63 - 1), -(2**63))
        return self._value(argument)

    def _other_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        draw = self._draw
        shape, dtype = tuple(tensor.shape), tensor.dtype
        how = draw.randrange(8)
        if dtype not in Drawer._shared_pools:
            dtype = torch.float32
        if how == 0:
            return self._filled(shape, draw.choice(_ALL_DTYPES), "usual")
        if how == 1 and shape:
            at = draw.randrange(len(shape))
            size = shape[at]
            return self._filled(
                self._sized(shape, at, draw.choice((0, 1, size + 1, max(size - 1, 0), size * 2, size + 40))), dtype
            )
        if how == 2:
            return self._filled(self._shape, dtype)
        if how == 3:
            return self._filled(shape, dtype, "wild")
        if how == 4 and tensor.numel():
            changed = tensor.clone().reshape(-1)
            for _ in range(draw.choice((1, 1, 2, 5))):
                pool = Drawer._shared_pools[dtype][draw.choice(("wild", "wild", "small"))]
                changed[draw.randrange(changed.numel())] = pool[draw.randrange(_POOL)].to(tensor.dtype)
            return changed.reshape(shape)
        if how == 5 and shape:
            return self._filled((*shape[:-1], shape[-1], 1) if draw.random() < 0.5 else shape[1:], dtype)
        if how == 6:
            return self._filled((1, *shape), dtype)
        return self._filled(shape, dtype, draw.choice(("usual", "small", "wild")))

    def _sized(self, shape: Sequence[int], at: int, size: int) -> tuple[int, ...]:
        sizes = list(shape)
        sizes[at] = min(size, 300)
        return tuple(sizes)

    def _other_list(self, argument: _Argument, values: list[Any]) -> Any:
        draw = self._draw
        at = draw.randrange(len(values))
        how = draw.randrange(5)
        if how == 0:
            del values[at]
        elif how == 1:
            values.insert(at, values[at])
        elif how == 2 and argument.item != "Tensor":
            return [self._value_of(argument.item, argument.name) for _ in values]
        else:
            values[at] = self._other(_Argument.of(argument.item, argument.name), values[at])
        return values

    # -- values

    def _value(self, argument: _Argument) -> Any:
        draw = self._draw
        if argument.optional and draw.random() < 0.3:
            return None
        if not argument.is_list:
            return self._value_of(argument.item, argument.name)
        if argument.item == "Tensor":
            count = draw.choice((0, 1, 2, 2, 3, 3, 6)) if draw.random() < 0.3 else draw.choice((1, 2, 3))
            return [
                None if argument.optional_items and draw.random() < 0.3 else self._tensor(argument.name)
                for _ in range(count)
            ]
        count = argument.length or len(self._shape)
        if draw.random() < 0.3:
            count = draw.choice((0, 1, 2, 3, 4, 5, 6, 8, 65))
        if argument.item == "int" and draw.random() < 0.4 and not self._is_hostile():
            if argument.name in _DIMENSION_NAMES or argument.name == "permutation":
                return draw.sample(range(len(self._shape)), min(count, len(self._shape)))
            if "size" in argument.name or "shape" in argument.name:
                return list(self._shape)
            return [draw.choice((1, 1, 2, 3, 0))] * count
        return [self._value_of(argument.item, argument.name) for _ in range(count)]

    def _value_of(self, kind: str, name: str) -> Any:
        draw = self._draw
        if kind == "Tensor":
            return self._tensor(name)
        if kind == "int":
            return self._integer(name)
        if kind == "float":
            return draw.choice(_WILD_NUMBERS if self._is_hostile() else _NUMBERS)
        if kind == "bool":
            return draw.random() < 0.5
        if kind == "Scalar":
            return self._scalar()
        if kind == "str":
            return draw.choice(_ODD_WORDS if self._is_hostile() else _WORDS.get(name, _ODD_WORDS))
        if kind == "ScalarType":
            return draw.choice(_ALL_DTYPES if draw.random() < 0.5 else (*_FLOATING, *_INTEGRAL))
        if kind == "Layout":
            return None if draw.random() < 0.1 else torch.strided
        if kind == "Device":
            return torch.device("meta" if draw.random() < 0.03 else "cpu")
        if kind == "MemoryFormat":
            return draw.choice(
                (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)
            )
        return None

    def _integer(self, name: str) -> int:
        draw = self._draw
        if self._is_hostile():
            return draw.choice(_EXTREMES if draw.random() < 0.6 else _INTEGERS)
        rank = len(self._shape)
        if name in _DIMENSION_NAMES and draw.random() < 0.8:
            return draw.randrange(-rank, rank) if rank else draw.choice((0, -1))
        if draw.random() < 0.05:
            return draw.choice(_INTEGERS)
        return draw.choice((0, 1, 1, 2, 2, 3, 4, 6))

    def _scalar(self) -> Any:
        draw = self._draw
        chance = draw.random()
        if chance < 0.4:
            return draw.choice(_EXTREMES) if self._is_hostile() else draw.choice((0, 1, 2, 3, -1))
        if chance < 0.8:
            return draw.choice(_WILD_NUMBERS if self._is_hostile() else _NUMBERS)
        if chance < 0.9:
            return draw.random() < 0.5
        return complex(draw.choice(_NUMBERS), draw.choice(_WILD_NUMBERS if self._is_hostile() else _NUMBERS))

    def _tensor(self, name: str) -> torch.Tensor:
        draw = self._draw
        shape, dtype, values = self._shape, self._dtype, self._values
        chance = draw.random()
        if chance > 0.7 and shape:
            how = draw.randrange(6)
            at = draw.randrange(len(shape))
            if how == 0:
                shape = self._sized(shape, at, 1)
            elif how == 1:
                shape = self._sized(shape, at, draw.choice((0, shape[at] + 1, 2 * shape[at], 7)))
            elif how == 2:
                shape = shape[at:]
            elif how == 3:
                shape = tuple(reversed(shape))
            elif how == 4:
                shape = (shape[at],)
            else:
                shape = tuple(draw.choice((0, 1, 2, 3, 5)) for _ in range(draw.randrange(5)))
        elif chance > 0.67:
            shape = ()
        if name in _INDEX_NAMES and draw.random() < 0.85:
            dtype, values = draw.choice((torch.int64, torch.int64, torch.int32)), "small"
        elif "mask" in name and draw.random() < 0.6:
            dtype = torch.bool
        elif draw.random() < 0.1:
            dtype = draw.choice(_ALL_DTYPES)
        if self._is_hostile():
            values = "wild"
        return self._filled(shape, dtype, values)

    def _filled(self, shape: Sequence[int], dtype: torch.dtype, values: str | None = None) -> torch.Tensor:
        count = math.prod(shape)
        pool = Drawer._shared_pools[dtype][values or self._values]
        if count <= _POOL // 2:
            start = self._draw.randrange(_POOL // 2)
            return pool[start : start + count].view(shape)
        return pool.repeat(-(-count // _POOL))[:count].view(shape)


class _Argument:
    """An argument of a schema: its type taken apart."""

    def __init__(self, argument: Any) -> None:
        words = str(argument.real_type)
        self._set(words, argument.name)
        self.keyword_only = argument.kwarg_only
        self.has_default = argument.has_default_value()
        self.default = argument.default_value if self.has_default else None
        self.length = argument.N
        if self.item == "ScalarType" and isinstance(self.default, int):
            self.has_default = False

    def _set(self, words: str, name: str) -> None:
        self.name = name
        self.optional = words.startswith("Optional[") or words.endswith("?")
        words = words.removeprefix("Optional[").removesuffix("]") if words.startswith("Optional[") else words
        words = words.removesuffix("?")
        self.is_list = words.startswith("List[") or words.endswith("[]")
        if self.is_list:
            words = words[5:-1] if words.startswith("List[") else words[:-2]
        self.optional_items = words.startswith("Optional[") or words.endswith("?")
        words = words[9:-1] if words.startswith("Optional[") else words.removesuffix("?")
        self.item = {"SymInt": "int", "number": "Scalar", "SymFloat": "float", "SymBool": "bool"}.get(words, words)

    @classmethod
    def of(cls, item: str, name: str) -> _Argument:
        made = cls.__new__(cls)
        made._set(item, name)
        made.keyword_only = made.has_default = False
        made.default = made.length = None
        return made
