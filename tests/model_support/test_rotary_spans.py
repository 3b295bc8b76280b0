"""Rotary positions of text with images, videos and audio in it, compared with transformers' own functions."""

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

_MODELS = {"Qwen2_5OmniThinkerModel": "qwen2_5_omni", "Qwen3OmniMoeThinkerModel": "qwen3_omni_moe"}
_TOKENS = {"image": 11, "video": 12, "audio": 13}
_STARTS, _ENDS = {"image": 20, "video": 20, "audio": 30}, {"image": 21, "video": 21, "audio": 31}
_MERGE, _WINDOW = 2, 5


def _model(name):
    """A model without weights."""
    kind = known_class(_MODELS[name], name)
    model = kind.__new__(kind)
    vars(model)["spatial_merge_size"] = _MERGE
    vars(model)["config"] = types.SimpleNamespace(
        **{f"{each}_token_id": token for each, token in _TOKENS.items()},
        vision_start_token_id=_STARTS["image"],
        audio_start_token_id=_STARTS["audio"],
        position_id_per_seconds=3,
        seconds_per_chunk=2,
        audio_config=types.SimpleNamespace(n_window=_WINDOW),
    )
    return model


def _audio_length(name, frames):
    if name.startswith("Qwen2"):
        return ((frames - 1) // 2 + 1 - 2) // 2 + 1
    rest, chunks = frames % (2 * _WINDOW), frames // (2 * _WINDOW)
    for _ in range(3):
        rest = (rest - 1) // 2 + 1
    return rest + 13 * chunks


def _batch(name, rng, count, *, pad="", kinds=("image", "video", "audio"), seconds=(0.5, 1.0, 1.25)):
    """Texts of a batch with images, videos and audio in them, of other lengths each."""
    rows, grids, audio = [], {"image": [], "video": []}, []

    def text(least=0):
        return [rng.randint(1, 9) for _ in range(rng.randint(least, 3))]

    for _ in range(count):
        row = text(1)
        for kind in rng.choices(kinds, k=rng.randint(0, 4)):
            if kind == "audio":
                frames = rng.randint(3, 14)
                audio.append(frames)
                length = _audio_length(name, frames)
            else:
                time = rng.randint(1, 3)
                height, width = rng.randint(1, 3), rng.randint(1, 3)
                grids[kind].append([time, height * _MERGE, width * _MERGE])
                length = time * height * width
            row += [_STARTS[kind], *[_TOKENS[kind]] * length, _ENDS[kind], *text()]
        rows.append(row + text())
    length = max(map(len, rows))
    ids, mask = torch.full((count, length), _TOKENS["image"]), torch.zeros(count, length, dtype=torch.int64)
    for index, row in enumerate(rows):
        if pad:
            spare = length - len(row)
            places = {"left": range(spare, length), "right": range(len(row))}.get(pad)
            places = sorted(rng.sample(range(length), len(row))) if places is None else places
        else:
            row = row + [5] * (length - len(row))
            places = range(length)
        ids[index, list(places)] = torch.tensor(row)
        mask[index, list(places)] = 1
    videos = len(grids["video"])
    return {
        "input_ids": ids,
        "image_grid_thw": torch.tensor(grids["image"], dtype=torch.int64).reshape(-1, 3),
        "video_grid_thw": torch.tensor(grids["video"], dtype=torch.int64).reshape(-1, 3) if videos else None,
        "attention_mask": mask,
        "audio_seqlens": torch.tensor(audio) if audio else None,
        "second_per_grids": torch.tensor([rng.choice(seconds) for _ in range(videos)]) if videos else None,
    }


def _found(model, given):
    given = copy.deepcopy(given)
    with applying.applied(types.SimpleNamespace(modules=lambda: iter([model]))):
        return model.get_rope_index(**given)


def _expected(model, given):
    return model.get_rope_index(**copy.deepcopy(given))


def _check(model, given, *, last_bits=0):
    expected = _expected(model, given)
    close = last_bits * 2.0**-24 * float(expected[0].max())
    for one, other in zip(expected, _found(model, given), strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(other, one, rtol=0, atol=close)


@pytest.mark.parametrize("name", _MODELS)
@pytest.mark.parametrize("pad", ["", "left", "right", "between"])
def test_positions_are_those_of_the_original(name, pad):
    model, rng = _model(name), random.Random(f"{name} {pad}")
    for number in range(36):
        given = _batch(name, rng, rng.randint(1, 4), pad=pad)
        if name.startswith("Qwen2") and not pad and number % 3 == 0:
            given["attention_mask"] = None
        if number % 4 == 0 and (name.startswith("Qwen3") or given["attention_mask"] is None):
            # With a mask, Qwen2.5 takes no others than int64.
            given["input_ids"] = given["input_ids"].int()
        _check(model, given)


@pytest.mark.parametrize("name", _MODELS)
def test_seconds_that_have_no_exact_number_in_binary(name):
    """Those of Qwen2.5 are rounded down; of Qwen3, sums of float32, whose last bit depends on their order."""
    model, rng = _model(name), random.Random(name)
    for _ in range(36):
        given = _batch(name, rng, rng.randint(1, 3), seconds=(0.1, 0.7, 1.001, 1.9))
        _check(model, given, last_bits=0 if name.startswith("Qwen2") else 8)


def _spoilt_batches(name, rng):
    """Batches of which some do not fit: other tokens, grids and lengths."""
    for _ in range(400):
        given = _batch(name, rng, rng.randint(1, 2), pad=rng.choice(["left", "right"]))
        for _ in range(rng.randint(1, 2)):
            match rng.randint(0, 5):
                case 0 | 1 | 2:
                    ids = given["input_ids"]
                    row, column = rng.randrange(ids.shape[0]), rng.randrange(ids.shape[1])
                    ids[row, column] = rng.choice([5, 11, 12, 13, 20, 21, 30, 31])
                case 3 if len(given["image_grid_thw"]):
                    grids = given["image_grid_thw"]
                    grids[rng.randrange(len(grids)), rng.randrange(3)] += rng.choice([-2, -1, 1, 2])
                case 4 if given["audio_seqlens"] is not None:
                    given["audio_seqlens"][rng.randrange(len(given["audio_seqlens"]))] += rng.choice([-4, -2, 2, 4])
                case 5:
                    given["image_grid_thw"] = given["image_grid_thw"].flip(0)
        yield given


@pytest.mark.slow
@pytest.mark.parametrize("name", _MODELS)
def test_what_does_not_fit_is_an_error_or_gives_what_the_original_gives(name):
    model, rng = _model(name), random.Random(name)
    # More is an error where there is another token among those of an image, which transformers passes over.
    assert_same_or_refused(
        _spoilt_batches(name, rng), functools.partial(_expected, model), functools.partial(_found, model)
    )


def _with_tokens(*tokens, images=(), videos=(), **others):
    return {
        "input_ids": torch.tensor([list(tokens)]),
        "image_grid_thw": torch.tensor(images, dtype=torch.int64).reshape(-1, 3),
        "video_grid_thw": torch.tensor(videos, dtype=torch.int64).reshape(-1, 3) if videos else None,
        "attention_mask": torch.ones(1, len(tokens), dtype=torch.int64),
    } | others


_IMAGE, _WIDE = [1, 2, 4], [1, 2, 6]
_REFUSED = {
    "no grids": _with_tokens(20, 11, 11, 21, images=[]),
    "too few grids": _with_tokens(20, 11, 11, 21, 20, 11, 11, 21, images=[_IMAGE]),
    "no lengths of audio": _with_tokens(30, 13, 31, images=[_IMAGE]),
    "no tokens of audio": _with_tokens(30, 5, 31, images=[_IMAGE], audio_seqlens=torch.tensor([4])),
    "no seconds": _with_tokens(20, 12, 12, 21, videos=[_IMAGE]),
    "an image that is too long": _with_tokens(20, 11, 11, 21, images=[_WIDE]),
    "an image into the next one": _with_tokens(20, 11, 11, 21, 20, 11, 11, 11, 21, images=[[1, 2, 10], _IMAGE]),
    "images in another order": _with_tokens(5, 20, 11, 11, 11, 21, 20, 11, 21, images=[[1, 2, 2], _WIDE]),
    "a start at the end": _with_tokens(20, 11, 11, 21, 20, images=[_IMAGE]),
    "an image that is empty": _with_tokens(20, 11, 21, images=[[0, 2, 2]]),
    "a row without tokens": _with_tokens(
        20, 11, 11, 21, images=[_IMAGE], attention_mask=torch.zeros(1, 4, dtype=torch.int64)
    ),
}


@pytest.mark.parametrize("name", _MODELS)
@pytest.mark.parametrize("given", _REFUSED.values(), ids=_REFUSED)
def test_what_the_original_refuses_is_refused(name, given):
    model = _model(name)
    with pytest.raises(Exception):  # noqa: B017  # what transformers raises has no common class
        _expected(model, given)
    with pytest.raises(IndexError):
        _found(model, given)


@pytest.mark.parametrize("name", _MODELS)
def test_images_that_nothing_announces_are_text(name):
    _check(_model(name), _with_tokens(5, 11, 11, 6, images=[_IMAGE]))
    _check(_model(name), _with_tokens(5, 6, images=[]))


@pytest.mark.parametrize("name", _MODELS)
def test_other_arguments_go_to_the_original(name):
    model = _model(name)
    _check(model, _with_tokens(5, 6, 7) | {"image_grid_thw": None})
    # Two tokens of a video, two of its audio.
    frames = next(each for each in range(3, 30) if _audio_length(name, each) == 2)
    lengths = {"audio_seqlens": torch.tensor([frames]), "second_per_grids": torch.tensor([1.0])}
    given = _with_tokens(20, 30, 12, 12, 13, 13, 31, 21, videos=[_IMAGE], **lengths)
    _check(model, given | {"use_audio_in_video": True})


@pytest.mark.slow
@pytest.mark.parametrize("name", _MODELS)
def test_the_file_takes_batches_of_any_size(name):
    model, rng = Positions(_model(name)).eval(), random.Random(3)

    def given(count):
        while True:
            found = _batch(name, rng, count, pad=rng.choice(["left", "right"]))
            if all(each is not None and len(each) for each in found.values()):
                return found

    names = {"input_ids": {0: "batch", 1: "sequence"}, "attention_mask": {0: "batch", 1: "sequence"}}
    names |= {"image_grid_thw": {0: "images"}, "video_grid_thw": {0: "videos"}, "second_per_grids": {0: "videos"}}
    names |= {"audio_seqlens": {0: "audio"}}
    others = [given(count) for count in (1, 1, 2, 5)]
    program = opbridge.export(model, kwargs=given(3), dynamic_shapes=names, inputs=others)
    assert program.verification.ok and len(program.verification.runs) == 5

    # What does not fit is an error when the file runs.
    wrong = others[2] | {"image_grid_thw": others[2]["image_grid_thw"] + 2}
    feeds = {each.name: wrong[each.name].numpy() for each in program.session().get_inputs()}
    with pytest.raises(Exception, match=r"Gather|indices"):
        program.session().run(None, feeds)
