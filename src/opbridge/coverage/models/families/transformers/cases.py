"""The case of a transformers model: inputs that it runs on, and the sizes of them that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from opbridge.coverage.models.entries import Case, Inputs
from opbridge.coverage.models.families.transformers import pictures
from opbridge.coverage.models.families.transformers.draws import DRAWS, SIZES, fixed_image, sizes_of
from opbridge.coverage.models.families.transformers.facts import Facts
from opbridge.coverage.models.varying import Size, runs, vary

__all__ = ["case"]

_CHOICES = 2
"""How many texts models that choose one get for each question."""


def case(model: Any) -> Case:
    """Of the ways to draw inputs the first that the model runs on, with the sizes that it can run on others of."""
    facts = Facts(model)
    ways = [*pictures.ways(facts), *_ways(facts)]
    for draw, sizes in ways:
        if runs(model, draw(**_examples(sizes))):
            return vary(model, draw, _taken(model, draw, sizes))
    draw, sizes = ways[0]  # its error says why the model is left out
    return vary(model, draw, sizes)


def _ways(facts: Facts) -> Iterator[tuple[Callable[..., Inputs], dict[str, Size]]]:
    names = _names(facts)
    missing = [name for name in names if name not in DRAWS]
    if missing:
        raise NotImplementedError(f"no rule for the parameters {', '.join(missing)}")
    for i in range(max(len(DRAWS[name]) for name in names)):
        draws = {name: DRAWS[name][min(i, len(DRAWS[name]) - 1)] for name in names}
        wanted = {size for draw in draws.values() for size in sizes_of(draw)}
        sizes = {name: size for name, size in SIZES.items() if name in wanted}
        fixed = fixed_image(facts)
        if fixed and "height" in sizes:
            sizes |= {"height": Size(fixed[0], (fixed[0] + 32,)), "width": Size(fixed[1], (fixed[1] + 64,))}
        yield _draw(facts, draws), sizes


def _names(facts: Facts) -> list[str]:
    names = [*facts.main, *(name for name in facts.required if name not in facts.main)]
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
