"""Rotary positions of text with images in it and grids of images to come, compared with transformers' own function."""

from __future__ import annotations

import copy
import functools
import random
import types

import pytest
import torch
from helpers.rotary import Positions, assert_same_or_refused, known_class

import opbridge
from opbridge.errors import OpbridgeError
from opbridge.model_support import applying

_START, _END, _IMAGE = 20, 21, 11


def _model():
    """A model without weights."""
    kind = known_class("glm_image", "GlmImageModel")
    model = kind.__new__(kind)
    vars(model)["config"] = types.SimpleNamespace(image_start_token_id=_START, image_end_token_id=_END)
    return model


def _batch(rng, count, *, pad="right", frames=1):
    """Texts of a batch with images in them and two grids more each, at least."""
    rows, grids, counts = [], [], []
    for _ in range(count):
        row = [rng.randint(1, 9) for _ in range(rng.randint(0, 3))]
        own = [[rng.randint(1, frames), rng.randint(1, 4), rng.randint(1, 4)] for _ in range(rng.randint(0, 3))]
        for time, height, width in own:
            row += [_START, *[_IMAGE] * (time * height * width), _END]
            row += [rng.randint(1, 9) for _ in range(rng.randint(0, 3))]
        to_come = [[1, rng.randint(1, 4), rng.randint(1, 4)] for _ in range(rng.randint(0, 2))]
        rows.append([*row, _START])
        grids += own + to_come
        counts.append(len(own + to_come))
    length = max(map(len, rows))
    ids, mask = torch.full((count, length), _END), torch.zeros(count, length, dtype=torch.int64)
    for index, row in enumerate(rows):
        spare = length - len(row)
        places = {"left": range(spare, length), "right": range(len(row))}.get(pad)
        places = sorted(rng.sample(range(length), len(row))) if places is None else places
        ids[index, list(places)] = torch.tensor(row)
        mask[index, list(places)] = 1
    return {
        "input_ids": ids,
        "image_grid_thw": torch.tensor(grids, dtype=torch.int64).reshape(-1, 3),
        "images_per_sample": torch.tensor(counts),
        "attention_mask": mask,
    }


def _expected(model, given):
    return model.get_rope_index(**copy.deepcopy(given))


def _found(model, given):
    given = copy.deepcopy(given)
    with applying.applied(types.SimpleNamespace(modules=lambda: iter([model]))):
        return model.get_rope_index(**given)


def _check(model, given):
    for one, other in zip(_expected(model, given), _found(model, given), strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(other, one, rtol=0, atol=0)


@pytest.mark.parametrize("pad", ["left", "right", "between"])
@pytest.mark.parametrize("frames", [1, 3])
def test_positions_are_those_of_the_original(pad, frames):
    model, rng = _model(), random.Random(f"{pad} {frames}")
    for _ in range(40):
        _check(model, _batch(rng, rng.randint(1, 4), pad=pad, frames=frames))


def test_one_text_takes_all_grids():
    model, rng = _model(), random.Random(1)
    for number in range(30):
        given = _batch(rng, 1) | {"images_per_sample": None}
        if number % 2:
            given |= {"attention_mask": None, "input_ids": given["input_ids"].int()}
        _check(model, given)


def test_texts_take_the_same_grids_where_nothing_says_how_many():
    model = _model()
    row = [5, _START, *[_IMAGE] * 6, _END, 7, _START]
    given = {"input_ids": torch.tensor([row, [*row[1:], 8]]), "image_grid_thw": torch.tensor([[1, 2, 3], [1, 4, 4]])}
    _check(model, given | {"images_per_sample": None, "attention_mask": None})


def test_a_row_without_tokens_has_no_positions():
    given = _batch(random.Random(2), 2)
    given["attention_mask"] = torch.cat([given["attention_mask"][:1], torch.zeros_like(given["attention_mask"][:1])])
    _check(_model(), given)


def _spoilt_batches(rng):
    """Batches of which some do not fit: other tokens, grids and numbers of images."""
    for _ in range(400):
        given = _batch(rng, rng.randint(1, 2), pad=rng.choice(["left", "right"]))
        match rng.randint(0, 3):
            case 0 | 1:
                ids = given["input_ids"]
                row, column = rng.randrange(ids.shape[0]), rng.randrange(ids.shape[1])
                ids[row, column] = rng.choice([5, _START, _END, _IMAGE])
            case 2 if len(given["image_grid_thw"]):
                grids = given["image_grid_thw"]
                grids[rng.randrange(len(grids)), rng.randrange(3)] += rng.choice([-2, -1, 1, 2])
            case 3:
                counts = given["images_per_sample"]
                counts[rng.randrange(len(counts))] += rng.choice([-1, 1])
        yield given


@pytest.mark.slow
def test_what_does_not_fit_is_an_error_or_gives_what_the_original_gives():
    model, rng = _model(), random.Random(3)
    assert_same_or_refused(_spoilt_batches(rng), functools.partial(_expected, model), functools.partial(_found, model))


@pytest.mark.slow
def test_the_file_takes_batches_of_any_size():
    model, rng = Positions(_model()).eval(), random.Random(3)
    names = {"input_ids": {0: "batch", 1: "sequence"}, "attention_mask": {0: "batch", 1: "sequence"}}
    names |= {"image_grid_thw": {0: "images"}, "images_per_sample": {0: "batch"}}
    others = [_batch(rng, count, pad="left") for count in (1, 1, 2, 5)]
    program = opbridge.export(model, kwargs=_batch(rng, 3), dynamic_shapes=names, inputs=others)
    assert program.verification.ok and len(program.verification.runs) == 5


class Decoding(Positions):
    """Takes a position that the model keeps for later calls."""

    def forward(self, **given):
        return super().forward(**given)[0] + self.of._cached_decode_position_ids[0, 0, 0]


@pytest.mark.slow
def test_positions_for_later_calls_are_no_part_of_a_capture():
    model = _model()
    with pytest.raises(OpbridgeError, match="not captured"):
        opbridge.export(Decoding(model).eval(), kwargs=_batch(random.Random(4), 2))
