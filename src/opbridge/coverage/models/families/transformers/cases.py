"""The case of a transformers model: inputs that it runs on, and the sizes of them that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, product
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, Inputs
from opbridge.coverage.models.families.transformers import pictures, recordings
from opbridge.coverage.models.families.transformers.draws import DRAWS, SIZES, sizes_of
from opbridge.coverage.models.families.transformers.draws_of_images import fixed_image
from opbridge.coverage.models.families.transformers.facts import Facts
from opbridge.coverage.models.varying import Size, runs, vary

__all__ = ["TextAloneError", "case"]

_CHOICES = 2
"""How many texts models that choose one get for each question."""

_MOST_WAYS = 30
"""How many combinations of draws are tried for one set of parameters."""
_LAST = {"inputs_embeds", "hidden_states", "query_embeds", "latents", "inputs"}
"""Parameters that stand for others, which a model is given where it asks for them only."""


class TextAloneError(ValueError):
    """A model that reads pictures or sounds in a text runs on none that there are rules for."""


def case(model: Any, *, with_parts: bool = False) -> Case:
    """Of the ways to draw inputs the first that the model runs on, with the sizes that it can run on others of.

    Args:
        model: The model.
        with_parts: Whether a text alone is not enough for a model that reads pictures or sounds in it.

    Raises:
        TextAloneError: `with_parts`, and no way to give a picture or a sound fits.
        Exception: What the model raises on the first way, where it runs on none.
    """
    facts = Facts(model)
    first: Exception | None = None
    alone = with_parts and (pictures.reads(facts) or recordings.reads(facts))
    others = () if alone else _ways(facts)
    for draw, sizes in chain(pictures.ways(facts), recordings.ways(facts), others):
        try:
            with torch.no_grad():
                for batch in _batches(sizes):
                    inputs = draw(**_examples(sizes) | batch)
                    model(*inputs.args, **inputs.kwargs)
        except Exception as error:  # whatever it is, these inputs are not for this model
            if first is None:
                first = error
            else:
                first.add_note(f"another way: {type(error).__name__}: {error}")
            continue
        return vary(model, draw, _taken(model, draw, sizes))
    if alone:
        raise TextAloneError("no image or audio input fits the model") from first
    raise first or NotImplementedError("no inputs could be generated")


def _ways(facts: Facts) -> Iterator[tuple[Callable[..., Inputs], dict[str, Size]]]:
    for names in _sets(facts):
        ways = [DRAWS[name] for name in names]
        chosen = sorted(product(*(range(len(way)) for way in ways)), key=_distance)
        for each in chosen[:_MOST_WAYS]:
            draws = {name: way[i] for name, way, i in zip(names, ways, each, strict=True)}
            wanted = {size for draw in draws.values() for size in sizes_of(draw)}
            yield _draw(facts, draws), {name: size for name, size in _sizes(facts).items() if name in wanted}


def _distance(chosen: Sequence[int]) -> tuple[int, int]:
    """Ways in which few parameters are drawn by other than their first come first."""
    return sum(i > 0 for i in chosen), sum(chosen)


def _sizes(facts: Facts) -> dict[str, Size]:
    sizes = dict(SIZES)
    fixed = fixed_image(facts)
    if fixed:
        sizes |= {"height": Size(fixed[0], (fixed[0] + 32,)), "width": Size(fixed[1], (fixed[1] + 64,))}
    windows = facts.value("num_windows_side", "num_windows")
    if isinstance(windows, int):  # an image is divided into as many windows of patches
        unit = windows * facts.value("patch_size", default=16)
        sizes |= {"height": Size(2 * unit, (3 * unit, unit)), "width": Size(3 * unit, (4 * unit, unit))}
    window = facts.value("n_window", part="audio")
    if isinstance(window, int):  # frames come in pairs of windows
        sizes["frames"] = Size(4 * window, (6 * window, 2 * window))
    return sizes


def _sets(facts: Facts) -> Iterator[list[str]]:
    """Sets of parameters to give: those that are asked for, then those with others for which there are rules."""
    names = _names(facts)
    missing = [name for name in names if name not in DRAWS]
    if missing:
        raise NotImplementedError(f"no rule for the parameters {', '.join(missing)}")
    if not names:
        raise NotImplementedError("the model defines no example inputs")
    yield names
    others = [name for name in facts.parameters if name in DRAWS and name not in names and name not in _LAST]
    for other in others:
        yield [*names, other]
    if len(others) > 1:
        yield [*names, *others]
    if "decoder_input_ids" in names:
        yield [name for name in names if name != "decoder_input_ids"]
    if "pixel_values" in names and "input_ids" in facts.parameters and "pixel_values" not in facts.required:
        text = [name for name in ("input_ids", "attention_mask") if name in facts.parameters]
        yield list(dict.fromkeys([*text, *(name for name in names if not name.startswith("pixel"))]))


def _names(facts: Facts) -> list[str]:
    names = [*facts.main, *(name for name in facts.required if name not in facts.main)]
    names = names or [name for name in facts.parameters if name in DRAWS][:1]
    if "input_ids" in names:
        text = ["attention_mask", "bbox", "pixel_values"]
        if hasattr(facts.config, "vision_config") and facts.value("image_token_id", "image_token_index") is not None:
            text.remove("pixel_values")  # a picture needs its tokens in the text
        names += [name for name in text if name in facts.parameters]
    if "pixel_values" in names and "spatial_shapes" in facts.parameters:
        names += ["pixel_attention_mask", "spatial_shapes"]
    if "input_features" in names and "input_features_mask" in facts.parameters:
        names.append("input_features_mask")
    if "decoder_input_values" in facts.parameters:
        names.append("decoder_input_values")
    elif "decoder_input_ids" in facts.parameters and (
        facts.config.is_encoder_decoder or "Answering" in type(facts.model).__name__
    ):
        names.append("decoder_input_ids")
    return list(dict.fromkeys(names))


def _draw(facts: Facts, draws: dict[str, Any]) -> Callable[..., Inputs]:
    choices = _CHOICES if type(facts.model).__name__.endswith("ForMultipleChoice") else 1

    def value(one: Any, sizes: dict[str, int]) -> Any:
        given = {size: sizes[size] for size in sizes_of(one)}
        if choices == 1:
            return one(facts, **given)
        return one(facts, **given | {"batch": choices * given["batch"]}).unflatten(0, (given["batch"], choices))

    def draw(**sizes: int) -> Inputs:
        return Inputs((), {name: value(one, sizes) for name, one in draws.items()})

    return draw


def _batches(sizes: dict[str, Size]) -> list[dict[str, int]]:
    """The size of the batch to run on first, and one other, since some inputs fit by chance."""
    if "batch" not in sizes:
        return [{}]
    return [{"batch": sizes["batch"].example}, {"batch": sizes["batch"].others[0]}]


def _examples(sizes: dict[str, Size]) -> dict[str, int]:
    return {name: size.example for name, size in sizes.items()}


def _taken(model: Any, draw: Callable[..., Inputs], sizes: dict[str, Size]) -> dict[str, Size]:
    """The sizes that the model runs on others of: an image of patches in a fixed grid, for one, has none."""
    example = _examples(sizes)
    taken = dict(sizes)
    for names in (("height", "width"), ("samples",), ("frames",), ("sequence",), ("decoder_sequence",)):
        changed = {name: sizes[name].others[0] for name in names if name in sizes}
        if changed and not runs(model, draw(**example | changed)):
            taken = {name: Size(size.example, ()) if name in names else size for name, size in taken.items()}
    return taken
