"""Rotary positions of text with images on canvases in it, compared with transformers' own function."""

from __future__ import annotations

import copy
import functools
import random
import types

import pytest
import torch
from helpers.rotary import Positions, assert_same_or_refused, known_class

import opbridge
from opbridge.model_support import applying
from opbridge.model_support.transformers import rotary_canvases

_IMAGE, _IMAGE_END, _SLICE, _SLICE_END, _LINE, _PATCH = 20, 21, 22, 23, 24, 11


def _config():
    return types.SimpleNamespace(
        image_start_id=_IMAGE,
        image_end_id=_IMAGE_END,
        slice_start_id=_SLICE,
        slice_end_id=_SLICE_END,
        newline_id=_LINE,
        downsample_mode="16x",
    )


def _model():
    """A model without weights."""
    kind = known_class("minicpmv4_7", "MiniCPMV4_7Model")
    model = kind.__new__(kind)
    vars(model)["config"] = _config()
    return model


def _batch(rng, count, *, pad="", videos=True, merged=4):
    """Texts of a batch with images and videos in them, some of them in slices."""
    rows, row_kinds, targets = [], [], {1: [], 2: []}

    for _ in range(count):
        row, kinds = [], []

        def put(*tokens, kind=0, row=row, kinds=kinds):
            row.extend(tokens)
            kinds.extend([kind] * len(tokens))

        def text(least=0, put=put):
            put(*(rng.randint(1, 9) for _ in range(rng.randint(least, 3))))

        def image(kind, start, end, height, width, put=put):
            targets[kind].append([height * merged + rng.randint(0, merged - 1), width * merged])
            put(*start)
            put(*[_PATCH] * (height * width), kind=kind)
            put(*end)

        for _ in range(rng.randint(0, 3)):
            text()
            for _ in range(rng.choice([1, 1, 2])):
                kind = rng.choice([1, 2]) if videos else 1
                start = rng.choice([[_IMAGE], [_IMAGE], [_LINE, _IMAGE]])
                end = rng.choice([[_IMAGE_END], [_IMAGE_END], [_IMAGE_END, _LINE], []])
                image(kind, start, end, rng.randint(1, 3), rng.randint(1, 3))
                lines, columns = rng.choice([(0, 0), (1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2)])
                height, width = rng.randint(1, 3), rng.randint(1, 3)
                for line in range(lines):
                    for column in range(columns - (lines > 1 and line == lines - 1 and rng.random() < 0.2)):
                        new_line = [_LINE] * rng.choice([1, 1, 2]) if line and not column else []
                        start = [*new_line, _SLICE]
                        image(kind, start, rng.choice([[_SLICE_END]] * 4 + [[]]), height, width)
                if rng.random() < 0.3:
                    put(_LINE)
        text(1)
        rows.append(row)
        row_kinds.append(kinds)
    length = max(map(len, rows))
    ids, types_ = torch.full((count, length), 5), torch.zeros(count, length, dtype=torch.int32)
    mask = torch.zeros(count, length, dtype=torch.int64)
    if pad:
        ids[:], types_[:] = _PATCH, 1
    for index, (row, kinds) in enumerate(zip(rows, row_kinds, strict=True)):
        spare = length - len(row)
        places = {"left": range(spare, length), "right": range(len(row)), "": range(len(row))}.get(pad)
        places = sorted(rng.sample(range(length), len(row))) if places is None else places
        ids[index, list(places)] = torch.tensor(row)
        types_[index, list(places)] = torch.tensor(kinds, dtype=torch.int32)
        mask[index, list(places)] = 1
    found = {kind: torch.tensor(given) if given else None for kind, given in targets.items()}
    return {
        "input_ids": ids,
        "mm_token_type_ids": types_,
        "target_sizes": found[1],
        "target_sizes_videos": found[2],
        "attention_mask": mask if pad else None,
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


@pytest.mark.slow
@pytest.mark.parametrize("pad", ["", "left", "right", "between"])
def test_positions_are_those_of_the_original(pad):
    model, rng = _model(), random.Random(f"canvases {pad}")
    for number in range(75):
        mode = [None, "16x", "4x"][number % 3]
        given = _batch(rng, rng.randint(1, 4), pad=pad, merged=2 if mode == "4x" else 4)
        _check(model, given | {"downsample_mode": mode})


def test_a_row_without_tokens_has_no_positions():
    given = _batch(random.Random(2), 2, pad="left")
    given["attention_mask"] = torch.cat([given["attention_mask"][:1], torch.zeros_like(given["attention_mask"][:1])])
    _check(_model(), given)


def test_sizes_of_thumbnails_that_are_no_part_of_the_canvas():
    """Rounding at halves is that of torch's own."""
    for size in range(1, 20):
        for canvas in range(1, 90):
            expected = torch.linspace(0, canvas - 1, size).round().long()
            given = torch.full((size,), size), torch.full((size,), canvas)
            assert torch.equal(rotary_canvases._stretched(torch.arange(size), *given), expected), (size, canvas)


def _spoilt_batches(rng):
    """Batches of which some do not fit: other tokens, types and sizes."""
    for _ in range(500):
        given = _batch(rng, rng.randint(1, 2), pad=rng.choice(["", "left", "right"]))
        ids, kinds = given["input_ids"], given["mm_token_type_ids"]
        for _ in range(rng.randint(1, 2)):
            row, column = rng.randrange(ids.shape[0]), rng.randrange(ids.shape[1])
            match rng.randint(0, 4):
                case 0 | 1 | 2:
                    ids[row, column] = rng.choice([5, _IMAGE, _IMAGE_END, _SLICE, _SLICE_END, _LINE])
                case 3:
                    kinds[row, column] = rng.choice([0, 1, 2, 3])
                case 4 if given["target_sizes"] is not None:
                    given["target_sizes"][rng.randrange(len(given["target_sizes"])), rng.randrange(2)] += 4
        yield given


@pytest.mark.slow
def test_what_does_not_fit_is_an_error_or_gives_what_the_original_gives():
    model, rng = _model(), random.Random(3)
    assert_same_or_refused(_spoilt_batches(rng), functools.partial(_expected, model), functools.partial(_found, model))


@pytest.mark.slow
def test_the_file_takes_batches_of_any_size():
    model, rng = Positions(_model()).eval(), random.Random(3)

    def given(count):
        while True:
            found = _batch(rng, count, pad=rng.choice(["left", "right"]))
            if all(each is not None for each in found.values()):
                return found

    names = {name: {0: "batch", 1: "sequence"} for name in ("input_ids", "mm_token_type_ids", "attention_mask")}
    names |= {"target_sizes": {0: "images"}, "target_sizes_videos": {0: "frames"}}
    others = [given(count) for count in (1, 1, 2, 5)]
    program = opbridge.export(model, kwargs=given(3), dynamic_shapes=names, inputs=others)
    assert program.verification.ok and len(program.verification.runs) == 5

    # What does not fit is an error when the file runs.
    wrong = others[2] | {"target_sizes": others[2]["target_sizes"] + 4}
    feeds = {each.name: wrong[each.name].numpy() for each in program.session().get_inputs()}
    with pytest.raises(Exception, match=r"Gather|indices"):
        program.session().run(None, feeds)
