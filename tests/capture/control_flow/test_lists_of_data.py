"""Lists of numbers of which there are as many as data say, and parts of tensors of which data decide the number."""

from __future__ import annotations

import pytest
import torch
from helpers.rows import one_in

import opbridge
from opbridge.capture import capture
from opbridge.errors import CaptureError

pytestmark = pytest.mark.slow

_DYNAMIC = ({1: "length"}, {0: "ends"})


def _inputs(*ends):
    """Rows whose sums are exact, in whichever order they are added up, and where parts of them begin and end."""
    return torch.randint(64, (2, ends[-1], 4)) / 64, torch.tensor(ends)


_INPUTS = tuple(_inputs(*ends) for ends in ((0, 10), (0, 0, 3), (0, 4, 4, 4), (0, 1, 2, 3, 9), (0, 2, 2, 9, 30)))


def _parts_joined_again(x, ends):
    parts = torch.split(x, (ends[1:] - ends[:-1]).tolist(), 1)
    return torch.cat(parts, dim=1).add_(x.sum()), x * 2


def _parts_by_three_functions(x, ends):
    lengths = (ends[1:] - ends[:-1]).tolist()
    parts = zip(torch.split(x, lengths, 1), x.cos().split(lengths, 1), torch.split_with_sizes(-x, lengths, 1))  # noqa: B905  # as models write it
    return torch.cat([a + b.sum() * c for a, b, c in parts], 1)


def _parts_at_places(x, ends):
    return torch.cat([part - part.sum() for part in torch.tensor_split(x, ends[1:-1].tolist(), 1)], 1)


def _parts_of_computed_lengths(x, ends):
    lengths = [end - begin for begin, end in zip(ends[:-1].tolist(), ends[1:].tolist())]  # noqa: B905  # as models write it
    return torch.cat([part - part.sum() for part in x.split(lengths, 1)], 1)


def _numbers_appended(x, ends):
    found = []
    for end in ends.tolist():
        found.append(end // 2)
    return torch.tensor(found).cumsum(0) + x.sum()


def _numbers_of_a_comprehension(x, ends):
    return torch.tensor([end * 3 for end in ends.tolist()], dtype=torch.int32) + x.sum()


def _tensors_as_numbers(x, ends):
    return torch.tensor([x.sum() * end for end in ends.tolist()])


def _a_list_extended_once(x, ends):
    found = [0]
    found.extend(ends.tolist())
    return torch.tensor(found, dtype=torch.int32).cumsum(0) + x.sum() + len(found)


def _numbers_of_a_list_extended_and_summed(x, ends):
    found = [1]
    found.extend(ends[ends > 2].tolist())
    return x * sum(found) + max(found) - min(end + 1 for end in ends.tolist())


def _a_list_extended_in_each_iteration(x, ends):
    found = [0]
    for end in ends.tolist():
        found.extend((torch.arange(end) + found[-1]).tolist())
    return torch.tensor(found) + x.sum()


def _repeated_numbers_and_a_rest(x, ends):
    found = [0]
    for end in ends.tolist():
        found += [4] * (end // 4)
        if end % 4:
            found.append(end % 4 + found[-1])
    return torch.tensor(found).cumsum(0) + x.sum() + found[-1]


def _repeated_by_a_tensor(x, ends):
    found = [0]
    for end in ends:
        found += [4] * (end // 4)
        rest = end % 4
        if rest != 0:
            found += [rest]
    return torch.tensor(found).cumsum(-1) + x.sum()


def _rows_of_loops_in_loops(x, ends):
    found = []
    for end in ends.tolist():
        for index in range(end):
            found.append(x[:, index] * end)
    return torch.stack(found)


def _numbers_of_loops_in_loops(x, ends):
    found = []
    for end in ends.tolist():
        for index in range(end):
            found.append(index * end)
        found.append(7)
    return torch.tensor(found) + x.sum()


def _two_extensions_in_a_iteration(x, ends):
    found = []
    for end in ends.tolist():
        found += [2] * (end // 3)
        found.append(end)
        found.extend(torch.arange(end // 2).tolist())
    return torch.tensor(found) + x.sum()


def _a_list_that_two_variables_hold(x, ends):
    found = [0]
    other = found
    other += [3] * ends[-1].item()
    return torch.tensor(found) + x.sum()


def _numbers_added_up(x, ends):
    lengths = (ends[1:] - ends[:-1]).tolist()
    if sum(lengths) != x.shape[1]:
        raise ValueError("the lengths do not add up")
    parts = torch.cat([part.cumsum(1) for part in x.split(lengths, 1)], 1)
    return parts * max(lengths) + min(lengths) - sum(ends.tolist(), 3)


def _parts_padded(x, ends):
    parts = x[0].split((ends[1:] - ends[:-1]).tolist())
    return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_value=2.0).cumsum(1)


def _parts_of_a_size(x, ends):
    found = []
    for part in x[:, : ends[-1] // 2].split(2, dim=1):
        found.append(part.tanh() * 2)
    return torch.cat(found, 1)


def _chunks_of_what_is_chosen(x, ends):
    chosen = ends[ends > 2]
    return torch.cat([part * len(chosen) for part in torch.split(chosen, split_size_or_sections=3)]) + x.sum()


def _numbers_beside_rows(x, ends):
    counts = [end // 2 for end in ends.tolist()]
    return torch.cat([x[:, :count] * end for count, end in zip(counts, ends)], 1)  # noqa: B905  # as models write it


def _numbers_gone_over_with_their_indices(x, ends):
    found, total = [3], x.sum()
    for end in ends.tolist():
        found.append(end // 2)
    for index, number in enumerate(found):
        total = torch.tanh(total) + index * number
    return total


def _numbers_with_one_more(x, ends):
    found = [end // 2 for end in ends.tolist()]
    found.append(5)
    return torch.stack([x.sum() + a * b for a, b in zip(found, reversed(ends[1:]))]), torch.tensor(found)  # noqa: B905


def _an_element_of_an_extended_list(x, ends):
    found = list()  # noqa: C408  # as models write it
    found.extend(ends[ends >= 0].tolist())
    return x.sum() + found[-2]


def _the_truth_of_an_extended_list(x, ends):
    found = []
    found.extend(ends[ends > 2].tolist())
    return x.sum() if found else x.mean()


def _a_loop_over_an_extended_list(x, ends):
    found = []
    found += ends[ends > 2].tolist()
    return x.sum() * sum(1 for _ in found)


@pytest.mark.parametrize(
    "model",
    one_in(
        4,
        [
            _parts_joined_again,
            _parts_of_a_size,
            _chunks_of_what_is_chosen,
            _numbers_added_up,
            _parts_padded,
            _parts_by_three_functions,
            _parts_at_places,
            _parts_of_computed_lengths,
            _numbers_appended,
            _numbers_of_a_comprehension,
            _tensors_as_numbers,
            _a_list_extended_once,
            _a_list_extended_in_each_iteration,
            _numbers_of_a_list_extended_and_summed,
            _repeated_by_a_tensor,
            _repeated_numbers_and_a_rest,
            _an_element_of_an_extended_list,
            _the_truth_of_an_extended_list,
            _a_loop_over_an_extended_list,
            _rows_of_loops_in_loops,
            _numbers_of_loops_in_loops,
            _two_extensions_in_a_iteration,
            _a_list_that_two_variables_hold,
            _numbers_beside_rows,
            _numbers_gone_over_with_their_indices,
            _numbers_with_one_more,
        ],
    ),
    ids=lambda model: model.__name__,
)
def test_other_numbers_of_elements(model, tmp_path):
    path = tmp_path / "model.onnx"
    opbridge.export(model, _inputs(0, 3, 7, 10), path, dynamic_shapes=_DYNAMIC, verify=False)
    session = opbridge.session(path)
    for x, ends in _INPUTS:
        expected = model(x.clone(), ends)
        found = session.run(None, {"x": x.numpy(), "ends": ends.numpy()})
        for one, other in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
            torch.testing.assert_close(torch.from_numpy(one), other)


def test_lengths_that_do_not_add_up_are_an_error_where_the_parts_are_joined(tmp_path):
    path = tmp_path / "model.onnx"
    opbridge.export(_parts_joined_again, _inputs(0, 3, 7, 10), path, dynamic_shapes=_DYNAMIC, verify=False)
    with pytest.raises(Exception, match=r"index|Gather|bounds"):
        opbridge.session(path).run(None, {"x": torch.rand(2, 9, 4).numpy(), "ends": torch.tensor([0, 3, 8]).numpy()})


def test_a_list_in_which_another_number_was_put_is_refused():
    def model(x, ends):
        found = [end // 2 for end in ends[ends > 2].tolist()]
        found[0] = 5
        return torch.stack([x.sum() + a * b for a, b in zip(found, ends)])  # noqa: B905

    with pytest.raises(CaptureError, match=r"test_lists_of_data\.py:\d+"):
        capture(model, _inputs(0, 3, 7, 10))


def test_an_image_of_a_size_that_data_decide_is_unfolded():
    def model(x, sizes):
        found = []
        for index, part in enumerate(x.split([rows * columns for rows, columns in sizes])):
            rows, columns = sizes[index]
            image = part.view(rows, columns, 8).permute(2, 0, 1).unsqueeze(0)
            found.append(torch.nn.functional.unfold(image, kernel_size=2, stride=2)[0].t())
        return torch.cat(found)

    sizes = torch.tensor([[4, 6]])
    program = opbridge.export(model, (torch.rand(24, 8), sizes), dynamic_shapes=({0: "tokens"}, None), verify=False)
    session = program.session()
    for rows, columns in ((4, 6), (2, 2), (6, 9)):
        x, sizes = torch.rand(rows * columns, 8), torch.tensor([[rows, columns]])
        (found,) = session.run(None, {"x": x.numpy(), "sizes": sizes.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), model(x, sizes))


def test_images_of_sizes_that_data_decide_are_seen_as_channels_last():
    def model(x, sizes):
        found = []
        for part, (count, rows, columns) in zip(x.split(sizes.prod(1).tolist()), sizes):  # noqa: B905  # as models write it
            images = part.view(count, rows, columns, x.shape[-1]).permute(0, 3, 1, 2)
            images = torch.nn.functional.interpolate(images, size=(rows // 2, columns // 2), mode="bilinear")
            found.append(images.permute(0, 2, 3, 1).view(-1, x.shape[-1]))  # a view, as the images are channels_last
        return torch.cat(found)

    def inputs(*sizes):
        return torch.rand(int(torch.tensor(sizes).prod(1).sum()), 6), torch.tensor(sizes)

    given = inputs((1, 4, 6), (2, 4, 4))
    program = opbridge.export(model, given, dynamic_shapes=({0: "tokens"}, {0: "images"}), verify=False)
    session = program.session()
    for x, sizes in (given, inputs((1, 2, 2)), inputs((3, 4, 2)), inputs((1, 2, 4), (1, 8, 8), (2, 2, 2))):
        (found,) = session.run(None, {"x": x.numpy(), "sizes": sizes.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), model(x, sizes))


def test_a_dict_that_is_indexed_by_numbers_of_data_has_a_branch_for_each_key():
    weights = {1: 2.0, 2: 3.0}

    def model(x, ends):
        for end in ends.tolist():
            x = x * (1.0 if end == 0 else weights[end % 2 + 1])
        return x

    shapes = ({1: "rows"}, {0: "ends"})
    program = opbridge.export(model, _inputs(0, 3, 7, 10), dynamic_shapes=shapes, verify=False)
    session = program.session()
    for given in (_inputs(0, 3, 7, 10), _inputs(0), _inputs(4, 1), _inputs(1, 1, 1, 2, 0, 5)):
        x, ends = given
        (found,) = session.run(None, {"x": x.numpy(), "ends": ends.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), model(x, ends))


@pytest.mark.parametrize("has_name", [True, False])
def test_a_dict_that_a_function_returns_or_that_is_large_is_refused(has_name):
    def table(count):
        return {number: float(number) for number in range(count)}

    def model(x, ends):
        weights = table(300)
        if has_name:
            return x * weights.get(ends[0].item(), 5.0)
        return x * table(2).get(ends[0].item(), 5.0)

    with pytest.raises(CaptureError, match=r"test_lists_of_data\.py:\d+, (in model, )?Python needs a number"):
        capture(model, _inputs(0, 3, 7, 10))
