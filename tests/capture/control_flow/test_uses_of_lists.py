"""What a file does not have of lists that loops append to is refused with the line, and with what to write there."""

import pytest
import torch

from opbridge.capture import capture
from opbridge.errors import CaptureError


def _of_first(x):
    found = []
    for row in x[x[:, 0] > 0]:
        found.append(row * 2)
    return found[0] + torch.stack(found).sum(0)


def _without_first(x):
    found = [x[0]]
    for row in x[x[:, 0] > 0]:
        found.append(row * 2)
    found.pop(0)
    return torch.stack([x[0], *found])


def _if_any(x):
    found = []
    for row in x[x[:, 0] > 0]:
        found.append(row * 2)
    return torch.stack(found) if found else x


def _with_others(x):
    found = []
    for row in x[x[:, 0] > 0]:
        found.append(row * 2)
    return torch.stack([x[0]] + found)  # noqa: RUF005


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "advice", "line"),
    [
        (_of_first, "Write 'torch.stack(found)[0]' for 'found[0]' at", "found[0] + "),
        (_without_first, "Write a slice of 'torch.stack(found)' for what 'found.pop(0)' leaves at", "found.pop(0)"),
        (_if_any, "Write 'len(found) > 0' for the truth of 'found' at", "if found else"),
        (_with_others, "Write 'torch.cat' of 'torch.stack(found)' and the others for '[x[0]] + found' at", "+ found"),
    ],
)
def test_the_refusal_says_what_to_write(model, advice, line):
    with pytest.raises(CaptureError) as caught:
        capture(model, torch.linspace(-1, 1, 20).view(5, 4))  # of which two rows are taken
    assert advice in str(caught.value)
    number = int(str(caught.value).partition(advice)[2].split(":")[1].split(".")[0])
    with open(__file__, encoding="utf-8") as file:
        assert line in file.read().splitlines()[number - 1]


def _of_first_row(x):
    found = []
    for row in x[x[:, 0] > 0]:
        found.append(row * 2)
    return torch.stack(found)[0] + torch.stack(found).sum(0)


def _if_long_enough(x):
    found = []
    for row in x[x[:, 0] > 0]:
        found.append(row * 2)
    return torch.stack(found) if len(found) > 0 else x


def _joined_with_others(x):
    found = []
    for row in x[x[:, 0] > 0]:
        found.append(row * 2)
    return torch.cat([x[:1], torch.stack(found)])


@pytest.mark.slow
@pytest.mark.parametrize("model", [_of_first_row, _if_long_enough, _joined_with_others])
def test_what_it_says_is_captured(model):
    x = torch.randn(5, 4)
    x[1:3, 0] = 1.0  # without such a row, the list is empty
    assert capture(model, x).graph
