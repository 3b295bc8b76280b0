from __future__ import annotations

import math

import pytest
import torch

from opbridge.verification.fresh_inputs import Kind, fresh_inputs, fresh_tensor, kind_of


def fresh(example: torch.Tensor, shape: tuple[int, ...] | None = None, seed: int = 0) -> torch.Tensor:
    return fresh_tensor(example, torch.Generator().manual_seed(seed), shape)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_floats_keep_their_distribution_and_range() -> None:
    example = normal(40, 100) * 3 + 7
    values = fresh(example)
    assert values.dtype == example.dtype and not torch.equal(values, example)
    assert abs(values.mean() - 7) < 0.3 and abs(values.std() - 3) < 0.3
    assert values.min() >= example.min() and values.max() <= example.max()
    assert values.unique().numel() > 3900  # no heap of equal values at the ends


def test_probabilities_stay_probabilities() -> None:
    example = torch.rand(5000, generator=torch.Generator().manual_seed(1)).reshape(50, 100)
    values = fresh(example)
    assert values.min() >= 0 and values.max() <= 1 and abs(values.mean() - 0.5) < 0.05


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.float8_e4m3fn])
def test_every_float_dtype_stays_in_range(dtype: torch.dtype) -> None:
    example = normal(20, 10).to(dtype)
    values = fresh(example)
    assert values.dtype == dtype and kind_of(example) is Kind.REAL
    assert values.float().min() >= example.float().min() and values.float().max() <= example.float().max()
    assert not torch.equal(values.float(), example.float())


def test_two_elements_are_enough_to_draw_from() -> None:
    example = torch.tensor([0.25, 0.75])
    assert kind_of(example) is Kind.REAL
    assert not torch.equal(fresh(example), example)


@pytest.mark.parametrize(
    "example",
    [
        torch.ones(2, 8),
        torch.zeros(3, dtype=torch.int64),
        torch.full((4,), True),
        torch.tensor(0.7),
        torch.full((3,), -math.inf),
        torch.full((3,), math.nan),
        torch.full((3,), 1 + 2j),
        torch.empty(0, 3),
    ],
)
def test_constant_tensors_stay(example: torch.Tensor) -> None:
    assert kind_of(example).is_kept
    values = fresh(example)
    assert torch.allclose(values, example, equal_nan=True) and values.dtype == example.dtype
    assert values.numel() == 0 or values.data_ptr() != example.data_ptr()


def test_token_ids_stay_in_the_vocabulary_seen() -> None:
    example = torch.tensor([[101, 7, 2000, 7, 102], [101, 9, 9, 3, 102]])
    values = fresh(example)
    assert values.dtype == torch.int64 and not torch.equal(values, example)
    assert values.min() >= 3 and values.max() <= 2000


def test_distinct_integers_stay_distinct() -> None:
    permutation = torch.tensor([2, 0, 3, 1, 5, 4, 7, 6])
    values = fresh(permutation)
    assert not torch.equal(values, permutation) and torch.equal(values.sort().values, torch.arange(8))
    scattered = torch.tensor([5, 90, 3, 60])
    assert fresh(scattered).unique().numel() == 4


def test_integers_of_the_whole_range_of_int64_do_not_overflow() -> None:
    limits = torch.iinfo(torch.int64)
    example = torch.tensor([limits.max, limits.min, 0, limits.max])
    assert set(fresh(example).tolist()) <= set(example.tolist())


@pytest.mark.parametrize(
    "example",
    [
        torch.arange(6).expand(2, 6),
        torch.arange(3).reshape(3, 1).expand(3, 2),
        torch.tensor([2, 4, 7, 9], dtype=torch.int32),  # from 0 on, they are offsets: test_domains
        torch.ones(5, 5, dtype=torch.bool).tril(),
        torch.ones(2, 5, 5, dtype=torch.bool).triu(),
    ],
)
def test_ordered_integers_and_causal_masks_stay(example: torch.Tensor) -> None:
    assert kind_of(example) is Kind.ORDERED
    assert torch.equal(fresh(example), example)


def test_position_ids_go_on_at_another_length() -> None:
    positions = torch.arange(2, 8).expand(2, 6)
    assert torch.equal(fresh(positions, (3, 9)), torch.arange(2, 11).expand(3, 9))
    assert torch.equal(fresh(positions, (1, 3)), torch.arange(2, 5).expand(1, 3))
    assert fresh(torch.tensor([30, 20, 10]), (5,)).tolist() == [30, 20, 10, 0, -10]
    batch = torch.arange(3).reshape(3, 1)
    assert torch.equal(fresh(batch, (5, 1)), torch.arange(5).reshape(5, 1))


def test_padding_and_causal_masks_keep_their_form_at_another_size() -> None:
    padding = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0]])
    assert torch.equal(fresh(padding, (2, 8), seed=1), torch.tensor([[1] * 6 + [0] * 2, [1] * 2 + [0] * 6]))
    causal = torch.ones(6, 6, dtype=torch.bool).tril()
    assert torch.equal(fresh(causal, (3, 3)), torch.ones(3, 3, dtype=torch.bool).tril())


def test_a_padding_mask_is_of_ones_for_every_second_seed() -> None:
    padding = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    assert kind_of(padding) is Kind.PADDING and not Kind.PADDING.is_kept
    assert torch.equal(fresh(padding, seed=1), padding)
    assert torch.equal(fresh(padding, (3, 5), seed=2), torch.ones(3, 5, dtype=torch.int64))
    assert torch.equal(fresh(padding[:1], (3, 5), seed=2), torch.ones(3, 5, dtype=torch.int64))
    ignored = torch.tensor([[False, False, True, True], [False, False, False, False]])
    assert torch.equal(fresh(ignored, (3, 5), seed=2), torch.zeros(3, 5, dtype=torch.bool))


def test_truth_values_keep_their_share_in_every_row() -> None:
    example = torch.rand(30, 16, generator=torch.Generator().manual_seed(2)) < 0.3
    values = fresh(example)
    assert values.dtype == torch.bool and not torch.equal(values, example)
    assert torch.equal(values.sum(-1), example.sum(-1))
    column = torch.tensor([[True], [False], [True], [False], [False], [False], [True], [False], [True], [True]])
    assert fresh(column).sum() == 5 and not torch.equal(fresh(column), column)


def test_additive_masks_are_shuffled_within_their_rows() -> None:
    example = torch.zeros(2, 12)
    example[0, 2:5] = -math.inf
    example[1, 7] = -math.inf
    values = fresh(example)
    assert values.isinf().sum(-1).tolist() == [3, 1] and not torch.equal(values, example)
    finite = example.nan_to_num(neginf=-1e9)
    assert kind_of(finite) is Kind.SHUFFLED and (fresh(finite) == -1e9).sum(-1).tolist() == [3, 1]


def test_numbers_that_look_like_boxes_in_rows_of_another_length() -> None:
    boxes = torch.tensor([[0.5, 1.0, 2.0, 3.0], [0.0, 0.25, 4.0, 1.5]])
    assert kind_of(boxes) is Kind.BOXES
    for shape in ((2, 2), (3, 7), (2, 1)):
        (fresh,), _ = fresh_inputs((boxes,), {}, 0, shapes={0: shape})
        assert fresh.shape == shape and fresh.min() >= 0 and fresh.max() <= 4


def test_boxes_stay_boxes_of_the_same_image() -> None:
    rois = torch.tensor([[0.0, 1.0, 2.0, 30.0, 20.0], [1.0, 4.0, 4.0, 9.0, 50.0]])
    for example in (rois, rois[:1], rois[:, 1:]):
        assert kind_of(example) is Kind.BOXES
        values = fresh(example)
        left, top, right, bottom = values[:, -4:].unbind(1)
        assert bool((left < right).all() and (top < bottom).all())
        assert bool((values[:, -4:-2] >= example[:, -4:-2]).all() and (values[:, -2:] <= example[:, -2:]).all())
        assert torch.equal(values[:, :-4], example[:, :-4]) and not torch.equal(values, example)
    assert fresh(rois, (5, 5))[:, 0].tolist() == [0.0, 0.0, 0.0, 1.0, 1.0]


def test_whole_floats_stay_whole() -> None:
    example = torch.tensor([[3.0, 250.0, 17.0], [3.0, 0.0, 255.0]])
    values = fresh(example)
    assert torch.equal(values, values.round()) and values.min() >= 0 and values.max() <= 255
    assert not torch.equal(values, example)


def test_bin_edges_stay_sorted() -> None:
    rising, falling = torch.tensor([0.1, 0.4, 0.45, 2.0, 7.5]), torch.tensor([[3.5, 1.2, 1.1], [9.0, 8.5, 0.25]])
    assert torch.equal(fresh(rising), fresh(rising).sort().values) and not torch.equal(fresh(rising), rising)
    assert torch.equal(fresh(falling), fresh(falling).sort(descending=True).values)


def test_complex_parts_are_drawn_apart() -> None:
    example = torch.complex(normal(20, 20), torch.full((20, 20), 2.0))
    values = fresh(example)
    assert values.dtype == torch.complex64 and bool((values.imag == 2).all())
    assert not torch.equal(values.real, example.real) and values.real.max() <= example.real.max()
    assert fresh(example.conj(), (3, 4)).imag.unique().tolist() == [-2.0]


def test_another_shape_is_filled_from_the_same_distribution() -> None:
    example = normal(4, 50)
    values = fresh(example, (9, 50))
    assert values.shape == (9, 50) and abs(values.std() - 1) < 0.2
    assert fresh(torch.ones(2, 3), (5, 3)).tolist() == torch.ones(5, 3).tolist()
    assert fresh(torch.tensor([[4, 9, 4, 6]]), (3, 7)).shape == (3, 7)
    assert fresh(example, (0, 50)).shape == (0, 50)
    assert fresh(torch.empty(0, 3), (2, 3)).tolist() == torch.zeros(2, 3).tolist()


def test_memory_layout_and_gradients() -> None:
    example = normal(2, 3, 4, 4).to(memory_format=torch.channels_last).requires_grad_()
    values = fresh(example)
    assert values.is_contiguous(memory_format=torch.channels_last) and not values.requires_grad
    expanded = normal(1, 4).expand(3, 4)
    assert fresh(expanded).shape == (3, 4)


def test_structure_and_everything_that_is_no_tensor_stay() -> None:
    args = ({"a": normal(3, 3), "b": [torch.arange(4), "text", 3]}, None)
    fresh_args, fresh_kwargs = fresh_inputs(args, {"flag": True, "x": normal(2)}, seed=5)
    assert fresh_args[0]["b"][1:] == ["text", 3] and fresh_args[1] is None and fresh_kwargs["flag"] is True
    assert not torch.equal(fresh_args[0]["a"], args[0]["a"]) and torch.equal(fresh_args[0]["b"][0], torch.arange(4))


def test_seeds_decide_and_tensors_do_not_depend_on_each_other() -> None:
    x, y = normal(3, 3), normal(4, 4)
    first, again, other = (fresh_inputs((x, y), {}, seed=seed)[0] for seed in (1, 1, 2))
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
    assert not torch.equal(first[0], other[0])
    assert torch.equal(first[1], fresh_inputs((x[:2], y), {}, seed=1)[0][1])
    assert not torch.equal(*fresh_inputs((x, x), {}, seed=1)[0])


def test_shapes_and_numbers_are_given_by_leaf() -> None:
    args, kwargs = fresh_inputs((normal(3, 2), 3), {"y": normal(6)}, 0, shapes={0: (5, 2), 2: (10,)}, numbers={1: 5})
    assert args[0].shape == (5, 2) and args[1] == 5 and kwargs["y"].shape == (10,)


def test_drawing_leaves_the_global_generator_alone() -> None:
    state = torch.get_rng_state()
    fresh_inputs((normal(3, 3), torch.tensor([4, 9, 4])), {}, 0)
    assert torch.equal(state, torch.get_rng_state())


def test_boxes_are_in_images_of_a_smaller_batch() -> None:
    boxes = torch.tensor([[1.0, 0.0, 0.0, 4.0, 4.0], [0.0, 1.0, 1.0, 3.0, 2.0], [2.0, 0.0, 1.0, 5.0, 2.0]])
    given = (torch.randn(4, 8, 8, 8), torch.randn(3, 2, 6, 6), boxes)
    (*_, alone), _ = fresh_inputs(given, {}, 0, shapes={1: (1, 2, 6, 6), 2: (5, 5)})
    assert alone[:, 0].tolist() == [0.0] * 5 and kind_of(alone) is Kind.BOXES
    (*_, larger), _ = fresh_inputs(given, {}, 0, shapes={1: (6, 2, 6, 6)})
    assert larger[:, 0].tolist() == boxes[:, 0].tolist()
