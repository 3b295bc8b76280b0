"""kornia's modules and functions that take an image and give the same for the same image."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, Inputs, ModelEntry
from opbridge.coverage.models.varying import Size, runs, vary

__all__ = ["PACKAGES", "entries"]

PACKAGES = ("kornia",)

_AREAS = (
    "filters",
    "color",
    "enhance",
    "geometry.transform",
    "geometry.depth",
    "morphology",
    "feature",
    "contrib",
    "metrics",
    "losses",
)
_SIZES = {"batch": Size(2, (1, 3)), "height": Size(32, (40, 48)), "width": Size(48, (32, 64))}
_CHANNELS = (3, 1, 4, 2)
"""Numbers of channels of images; the first that a module takes is its own."""
_PATCHES = ((1, 32), (1, 41), (3, 224), (6, 32))
"""Numbers of channels and sides of images of which a module takes no other size."""
_IMAGES = ("input", "image", "img", "x", "tensor", "data", "imgs", "images", "src", "rgb", "patch")
"""Names of parameters that are an image, where nothing says that a function is given one."""

_ARGUMENTS: dict[str, Any] = {
    "kernel_size": (3, 3),
    "sigma": (1.0, 1.0),
    "sigma_color": 0.1,
    "sigma_space": (1.5, 1.5),
    "kernel": lambda: torch.ones(3, 3),
    "angle": lambda: torch.tensor(30.0),
    "direction": lambda: torch.tensor(0.5),
    "factor": 0.7,
    "size": (24, 24),
    "dsize": (24, 24),
    "output_size": (24, 24),
    "scale_factor": lambda: torch.tensor([[1.5, 1.5]]),
    "shear": lambda: torch.tensor([[0.2, 0.1]]),
    "translation": lambda: torch.tensor([[2.0, 3.0]]),
    "scale": lambda: torch.tensor([[1.2, 1.2]]),
    "mean": lambda: torch.tensor([0.4, 0.5, 0.3]),
    "std": lambda: torch.tensor([0.2, 0.3, 0.25]),
    "brightness": 0.2,
    "contrast": 0.8,
    "gamma": 1.3,
    "gain": 1.0,
    "hue": 0.3,
    "saturation": 0.7,
    "saturation_factor": 0.7,
    "contrast_factor": 0.8,
    "brightness_factor": 0.2,
    "hue_factor": 0.3,
    "thresholds": 0.3,
    "bits": lambda: torch.tensor(3),
    "additions": lambda: torch.tensor(0.1),
    "padding": (2, 2, 2, 2),
    "window_size": 5,
    "patch_size": 16,
    "eps": 1e-3,
    "box_size": 5,
    "dim": 1,
}
"""Arguments by the parameter's name, for parameters without a default."""
_OF_VOLUMES = ("filter3d", "convolve3d", "correlate3d")
_OWN_ARGUMENTS: dict[str, dict[str, Any]] = {
    "kornia.filters.filter": {"kernel": lambda: torch.full((1, 3, 3), 1 / 9)},
    "kornia.filters.fft": {"kernel": lambda: torch.full((1, 3, 3), 1 / 9)},
    "kornia.filters.motion": {"kernel_size": 3},
    **{f"kornia.filters.filter.{name}": {"kernel": lambda: torch.full((1, 3, 3, 3), 1 / 27)} for name in _OF_VOLUMES},
    "kornia.filters.motion.MotionBlur3D": {"angle": (10.0, 20.0, 30.0), "direction": 0.5},
    "kornia.filters.motion.motion_blur3d": {"angle": (10.0, 20.0, 30.0), "direction": 0.5},
    "kornia.geometry.transform.crop3d": {"size": (4, 24, 24)},
    "kornia.geometry.transform.affwarp.Affine": {"angle": lambda: torch.tensor([30.0])},
}
"""Arguments of some functions and classes, by the beginning of their names; they may have defaults too."""


class _Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any], arguments: dict[str, Any]):
        super().__init__()
        self.function = function
        self.arguments = arguments

    def forward(self, image: torch.Tensor) -> Any:
        return self.function(image, **self.arguments)


def entries() -> Iterator[ModelEntry]:
    """The classes and functions of the areas for which arguments are known."""
    found: dict[str, ModelEntry] = {}
    for area in _AREAS:
        module = importlib.import_module(f"kornia.{area}")
        for name in sorted(vars(module)):
            thing: Any = getattr(module, name)
            if name.startswith("_") or not getattr(thing, "__module__", "").startswith("kornia."):
                continue
            cls: Any = thing
            if inspect.isclass(thing) and issubclass(thing, torch.nn.Module) and _is_known(thing.__init__, 1):
                if len(_required(cls.forward)) == 2:
                    found.setdefault(name, ModelEntry(name, partial(_make_class, thing)))
            elif inspect.isfunction(thing) and _takes_image(thing) and _is_known(thing, 1):
                found.setdefault(name, ModelEntry(name, partial(_make_function, thing)))
    yield from found.values()


def _required(function: Any) -> list[inspect.Parameter]:
    parameters = inspect.signature(function).parameters.values()
    return [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _is_known(function: Any, skipped: int) -> bool:
    return all(p.name in _ARGUMENTS for p in _required(function)[skipped:])


def _takes_image(function: Any) -> bool:
    required = _required(function)
    return bool(required) and required[0].name in _IMAGES


def _arguments(function: Any) -> dict[str, Any]:
    own: dict[str, Any] = {}
    for name, values in _OWN_ARGUMENTS.items():
        if f"{function.__module__}.{function.__qualname__}".startswith(name):
            own |= values
    parameters = inspect.signature(function).parameters
    known = _ARGUMENTS | own
    values = {p.name: known[p.name] for p in _required(function)[1:]} | {n: own[n] for n in own if n in parameters}
    if "pretrained" in parameters:
        values.setdefault("pretrained", False)
    return {name: value() if inspect.isfunction(value) else value for name, value in values.items()}


def _make_class(cls: Any) -> Case:
    return _case(cls(**_arguments(cls.__init__)))


def _make_function(function: Any) -> Case:
    return _case(_Function(function, _arguments(function)))


def _case(module: torch.nn.Module) -> Case:
    """Of the kinds of images the first that the module runs on."""
    module = module.eval()
    draws: list[Callable[..., Inputs]] = [
        *(partial(_images, channels) for channels in _CHANNELS),
        _volumes,
        *(partial(_patches, *form) for form in _PATCHES),
        *(partial(_single, channels) for channels in _CHANNELS[:2]),
    ]
    example = {name: size.example for name, size in _SIZES.items()}
    draw = next((one for one in draws if runs(module, one(**example))), draws[0])
    inputs = draw(**example)
    if runs(module, inputs) and not _is_same(module(*inputs.args), module(*inputs.args)):
        raise NotImplementedError("it returns different values at each call")
    sizes = dict(_SIZES)
    if not runs(module, draw(**example | {"height": 40, "width": 64})):
        sizes |= {name: Size(sizes[name].example, ()) for name in ("height", "width")}
    if draw(**example | {"batch": 3}).args[0].shape == inputs.args[0].shape:
        sizes["batch"] = Size(sizes["batch"].example, ())
    return vary(module, draw, sizes)


def _is_same(first: Any, second: Any) -> bool:
    leaves, others = (torch.utils._pytree.tree_leaves(value) for value in (first, second))
    pairs = zip(leaves, others, strict=True)
    return all(torch.equal(a, b) for a, b in pairs if isinstance(a, torch.Tensor) and not a.isnan().any())


def _images(channels: int, batch: int, height: int, width: int) -> Inputs:
    return Inputs((torch.rand(batch, channels, height, width),))


def _patches(channels: int, side: int, batch: int, height: int, width: int) -> Inputs:
    """Images of one size."""
    return Inputs((torch.rand(batch, channels, side, side),))


def _single(channels: int, batch: int, height: int, width: int) -> Inputs:
    """One image."""
    return Inputs((torch.rand(1, channels, height, width),))


def _volumes(batch: int, height: int, width: int) -> Inputs:
    return Inputs((torch.rand(batch, 2, 6, height, width),))
