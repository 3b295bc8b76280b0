"""Rotary positions of text, images and videos, compared with transformers' own functions."""

from __future__ import annotations

import random
import types

import pytest
import torch
from helpers.rotary import known_class

import opbridge
from opbridge.model_support import applying
from opbridge.model_support.fingerprints import fingerprint

_MODELS = {
    "Qwen2VLModel": "qwen2_vl",
    "Qwen2_5_VLModel": "qwen2_5_vl",
    "Qwen3VLModel": "qwen3_vl",
    "Qwen3_5Model": "qwen3_5",
    "Glm4vModel": "glm4v",
    "Cosmos3EdgeModel": "cosmos3_edge",
    "Ernie4_5_VLMoeModel": "ernie4_5_vl_moe",
    "PaddleOCRVLModel": "paddleocr_vl",
    "HYV4VLModel": "hy_v4_vl",
    "HunYuanVLModel": "hunyuan_vl",
}
_SPLITTING = {"Qwen3VLModel", "Qwen3_5Model", "Glm4vModel", "Cosmos3EdgeModel"}
_MERGE, _FRAMES = 2, 2


def _model(name):
    """A model without weights."""
    kind = known_class(_MODELS[name], name)
    model = kind.__new__(kind)
    vision = types.SimpleNamespace(spatial_merge_size=_MERGE, temporal_merge_size=_FRAMES, tokens_per_second=3)
    text = types.SimpleNamespace(rope_parameters={"mrope_section": [1, 1, 1, 1]})
    vars(model)["config"] = types.SimpleNamespace(vision_config=vision, text_config=text)
    return model


def _batch(name, rng, count, *, pad="", videos=True, adjoining=False):
    """Texts of a batch with images and videos in them, of other lengths each."""
    rows, images, found_videos, has_break = [], [], [], name in ("HYV4VLModel", "HunYuanVLModel")

    def grid(most):
        return [rng.randint(1, most), _MERGE * rng.randint(1, 3), _MERGE * rng.randint(1, 3)]

    for _ in range(count):
        row, last = [], None
        for kind in rng.choices([0, 0, 1, 2] if videos else [0, 1], k=rng.randint(1, 7)):
            if kind and kind == last and not adjoining:
                kind = 0
            last = kind
            if not kind:
                row += [0] * rng.randint(1, 4)
                continue
            time, height, width = grid(1 if kind == 1 else 3)
            time = time * _FRAMES if name == "Ernie4_5_VLMoeModel" and kind == 2 else time
            (images if kind == 1 else found_videos).append([time, height, width])
            tokens = (height // _MERGE) * (width // _MERGE + has_break)
            frames = time // (_FRAMES if name == "Ernie4_5_VLMoeModel" and kind == 2 else 1)
            if name == "HunYuanVLModel":
                tokens += rng.choice([0, 2])
            if name in _SPLITTING and kind == 2:
                for _ in range(frames):
                    row += [2] * tokens + [0]
                last = 0
            else:
                row += [kind] * (tokens * frames)
        rows.append(row)
    length = max(map(len, rows))
    if not pad:
        rows = [row + [0] * (length - len(row)) for row in rows]
        mask = None
    else:
        mask = torch.zeros(count, length, dtype=torch.int64)
        kinds = torch.full((count, length), 1)
        for index, row in enumerate(rows):
            places = (
                sorted(rng.sample(range(length), len(row)))
                if pad == "between"
                else range(length - len(row), length)
                if pad == "left"
                else range(len(row))
            )
            mask[index, list(places)] = 1
            kinds[index, list(places)] = torch.tensor(row)
    types_ = torch.tensor(rows) if mask is None else kinds
    return {
        "input_ids": torch.zeros(count, length, dtype=torch.int64),
        "mm_token_type_ids": types_.int(),
        "attention_mask": mask,
        "image_grid_thw": torch.tensor(images, dtype=torch.int64).reshape(-1, 3) if images else None,
    } | ({"video_grid_thw": torch.tensor(found_videos) if found_videos else None} if videos else {})


def _both(model, given):
    copies = [{name: value if value is None else value.clone() for name, value in given.items()} for _ in range(2)]
    expected = model.get_rope_index(**copies[0])
    with applying.applied(_holding(model)):
        return expected, model.get_rope_index(**copies[1])


def _holding(model):
    return types.SimpleNamespace(modules=lambda: iter([model]))


@pytest.mark.parametrize("name", _MODELS)
@pytest.mark.parametrize("pad", ["", "left", "right", "between"])
def test_positions_are_those_of_the_original(name, pad):
    model, rng = _model(name), random.Random(f"{name} {pad}")
    for number in range(30):
        given = _batch(name, rng, rng.randint(1, 4), pad=pad, videos=name != "HunYuanVLModel")
        if name == "Qwen2_5_VLModel" and number % 2 and given["video_grid_thw"] is not None:
            given["second_per_grid_ts"] = torch.rand(len(given["video_grid_thw"])) * 3
        if number % 3 == 0 and not pad:  # the original takes these without a mask alone
            given["input_ids"] = given["input_ids"].int()
        expected, found = _both(model, given)
        for one, other in zip(expected, found, strict=True):
            assert one.dtype == other.dtype
            torch.testing.assert_close(other, one, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["Qwen2VLModel", "Qwen3VLModel"])
def test_grids_in_another_order_give_what_the_original_gives(name):
    """The numbers of tokens of the single runs do not fit, and their sum does."""
    model = _model(name)
    given = {
        "input_ids": torch.zeros(1, 9, dtype=torch.int64),
        "mm_token_type_ids": torch.tensor([[0, 1, 1, 0, 1, 1, 1, 1, 0]]),
        "image_grid_thw": torch.tensor([[1, 4, 4], [1, 2, 4]]),
        "attention_mask": None,
    }
    expected, found = _both(model, given)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def _spoilt():
    given = {
        "input_ids": torch.zeros(2, 6, dtype=torch.int64),
        "mm_token_type_ids": torch.tensor([[0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 1]]),
        "image_grid_thw": torch.tensor([[1, 2, 4], [1, 4, 2]]),
        "attention_mask": torch.ones(2, 6, dtype=torch.int64),
    }
    yield "no grids", given | {"image_grid_thw": None}
    yield "too few grids", given | {"image_grid_thw": given["image_grid_thw"][:1]}
    yield "grids of other sizes", given | {"image_grid_thw": torch.tensor([[1, 2, 4], [1, 4, 4]])}
    yield "a type without grids", given | {"mm_token_type_ids": given["mm_token_type_ids"] * 2}
    yield "an unknown type", given | {"mm_token_type_ids": given["mm_token_type_ids"] * 3}
    yield "a row without tokens", given | {"attention_mask": torch.tensor([[1] * 6, [0] * 6])}
    yield "a mask of other sizes", given | {"attention_mask": given["attention_mask"][:, :1]}
    yield "two images side by side", given | {"mm_token_type_ids": torch.tensor([[0, 1, 1, 1, 1, 0], [0] * 6])}


@pytest.mark.parametrize("given", [each for _, each in _spoilt()], ids=[name for name, _ in _spoilt()])
@pytest.mark.parametrize("name", ["Qwen2VLModel", "Qwen3VLModel", "HYV4VLModel"])
def test_what_the_original_refuses_is_refused(name, given):
    model = _model(name)
    if name == "HYV4VLModel":
        given = given | {"image_grid_thw": None}
    with pytest.raises(Exception):  # noqa: B017  # what transformers raises has no common class
        model.get_rope_index(**given)
    with applying.applied(_holding(model)), pytest.raises((IndexError, RuntimeError)):
        model.get_rope_index(**given)


def test_a_changed_function_stays_as_it_is():
    model = _model("Qwen2VLModel")

    class Changed(type(model)):
        def get_vision_position_ids(self, *args, **settings):
            return super().get_vision_position_ids(*args, **settings) * 2

    class Inheriting(type(model)):
        pass

    assert applying.replacement_of_method(Changed, "get_rope_index") is None
    assert applying.replacement_of_method(Inheriting, "get_rope_index") is applying.replacement_of_method(
        type(model), "get_rope_index"
    )
    before = type(model).get_rope_index
    inheriting = Inheriting.__new__(Inheriting)
    with applying.applied(_holding(inheriting)):
        assert Inheriting.get_rope_index is not before
        assert type(model).get_rope_index is before
    assert Inheriting.get_rope_index is before
    assert "get_rope_index" not in vars(Inheriting)


def test_comments_and_documentation_tell_nothing_of_a_source():
    def one(x):
        """Twice."""
        # as said
        return x * 2

    def other(x):
        return x * 2

    def third(x):
        return x * 3

    marks = [fingerprint(each).strip() for each in (one, other, third)]
    assert marks[0] and marks[1] and marks[1] != marks[2]


class Positions(torch.nn.Module):
    """What a model computes before its layers."""

    def __init__(self, name):
        super().__init__()
        of_name = _model(name)
        torch.nn.Module.__init__(self)
        self.of = type(of_name).__new__(type(of_name))
        torch.nn.Module.__init__(self.of)
        self.of.config = vars(of_name)["config"]

    def forward(self, input_ids, mm_token_type_ids, attention_mask, image_grid_thw):
        return self.of.get_rope_index(
            input_ids, mm_token_type_ids, image_grid_thw=image_grid_thw, attention_mask=attention_mask
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Qwen3VLModel", "HYV4VLModel", "HunYuanVLModel"])
def test_the_file_takes_batches_of_any_size(name):
    model, rng = Positions(name).eval(), random.Random(3)

    def given(count):
        while True:
            found = _batch(name, rng, count, pad=rng.choice(["left", "right"]), videos=False)
            if found["image_grid_thw"] is not None:
                return found

    names = {"batch": {0: "batch", 1: "sequence"}, "images": {0: "images"}}
    shapes = {each: names["images" if each == "image_grid_thw" else "batch"] for each in given(1)}
    others = [given(count) for count in (1, 1, 2, 5)]
    program = opbridge.export(model, kwargs=given(3), dynamic_shapes=shapes, inputs=others)
    assert program.verification.ok and len(program.verification.runs) == 5

    # What does not fit is an error when the file runs.
    wrong = others[2] | {"image_grid_thw": others[2]["image_grid_thw"] + 2}
    feeds = {each.name: wrong[each.name].numpy() for each in program.session().get_inputs()}
    with pytest.raises(Exception, match=r"Gather|indices"):
        program.session().run(None, feeds)
