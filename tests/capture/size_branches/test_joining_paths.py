"""Many questions about sizes: they cost about as many captures as there are questions, and each size its own path."""

import itertools

import pytest
import torch
from torch import nn

import opbridge
from opbridge.capture.limits import CaptureLimits
from opbridge.capture.size_branches.explored_paths import ExploredPaths


class _Steps(nn.Module):
    """Ten steps, each of which is one of two layers."""

    def __init__(self, width=4):
        super().__init__()
        self.left = nn.ModuleList(nn.Linear(width, width) for _ in range(10))
        self.right = nn.ModuleList(nn.Linear(width, width) for _ in range(10))

    def step(self, index, x, is_left):
        return self.left[index](x).tanh() if is_left else self.right[index](x).relu() + x


class ByBits(_Steps):
    """Decides by the bits of one size: each answer goes with each other one."""

    def forward(self, x):
        for index in range(10):
            x = self.step(index, x, True) if x.shape[0] % 2 ** (index + 1) < 2**index else self.step(index, x, False)
        return x


class ByDimensions(_Steps):
    """Decides by the sizes of ten inputs."""

    def forward(self, *given):
        found = given[0].new_zeros(4)
        for index, x in enumerate(given):
            if x.shape[0] > index + 1:
                found = self.left[index](x).mean(0).tanh() + found
            else:
                found = self.right[index](x).amax(0) * 2 - found
        return found


class WithoutQuestions(_Steps):
    """Both layers of each step."""

    def forward(self, x):
        for index in range(10):
            x = self.step(index, x, True) + self.step(index, x, False)
        return x


def _agrees(session, model, given):
    names = [each.name for each in session.get_inputs()]
    (got,) = session.run(None, {name: each.numpy() for name, each in zip(names, given, strict=True)})
    torch.testing.assert_close(torch.from_numpy(got), model(*given))


@pytest.fixture
def captures(monkeypatch):
    """The sizes that paths were captured for."""
    found = []

    def capture(self, sizes):
        found.append(sizes)
        return original(self, sizes)

    original = ExploredPaths._capture
    monkeypatch.setattr(ExploredPaths, "_capture", capture)
    return found


@pytest.mark.slow
def test_ten_questions_in_a_row(captures):
    torch.manual_seed(0)
    model = ByBits().eval()
    program = opbridge.export(model, (torch.randn(5, 4),), dynamic_shapes={"x": {0: "n"}}, verify=False)
    assert 2 <= len(captures) <= 12
    assert len(program.plan.decisions) == 10 and all(each.on_sizes for each in program.plan.decisions)
    assert not [note for note in program.plan.notes if "valid only for" in note]
    session = program.session()
    for n in range(1, 1200, 7):
        _agrees(session, model, (torch.randn(n, 4),))


@pytest.mark.slow
def test_ten_questions_about_ten_sizes(captures):
    torch.manual_seed(0)
    model = ByDimensions().eval()
    given = tuple(torch.randn(5, 4) for _ in range(10))
    shapes = {"given": tuple({0: f"n{i}"} for i in range(10))}
    program = opbridge.export(model, given, dynamic_shapes=shapes, verify=False)
    assert 2 <= len(captures) <= 12
    assert len(program.plan.decisions) == 10
    session = program.session()
    for answers in itertools.islice(itertools.product((0, 1), repeat=10), 0, None, 11):  # all answers of any four
        _agrees(session, model, [torch.randn(index + 1 + answer, 4) for index, answer in enumerate(answers)])


@pytest.mark.slow
def test_a_file_holds_each_side_once():
    torch.manual_seed(0)
    shapes = {"x": {0: "n"}}
    both, one = (
        opbridge.export(model.eval(), (torch.randn(5, 64),), dynamic_shapes=shapes, verify=False)
        for model in (WithoutQuestions(64), ByBits(64))
    )
    assert len(one.to_bytes()) <= 1.2 * len(both.to_bytes())


class OneCounts(_Steps):
    """What the last line does depends on how many questions got one answer, which is in no tensor."""

    def forward(self, x, y, z, w):
        count = 0
        for given in (x, y, z, w):
            if given.shape[0] > 3:
                count += 1
        return x.sum() * count if count > 2 else x.sum() - y.sum()


class OfUnequalSizes(_Steps):
    """Sides that give tensors of other sizes, which later questions are about."""

    def forward(self, x):
        for index in range(3):
            x = nn.functional.pad(x, (0, 0, 0, 1)) if x.shape[0] % 2 == 1 else x[: x.shape[0] // 2 + 1]
            x = self.left[index](x)
        return x


class BesideSmallSizes(_Steps):
    """PathConditions about bounds, and slices that are cut at the end for small sizes."""

    def forward(self, x, y, z):
        x = self.left[0](x[:6]) if x.shape[0] > 4 else self.right[0](x)
        y = self.left[1](y[:, :3]).tanh() if y.shape[1] % 3 else self.right[1](y)
        z = self.left[2](z).exp() if z.shape[0] >= 7 else z * 2
        return x.sum(0) + y.sum((0, 1)) + z.amax(0)


@pytest.mark.slow
def test_what_python_counts_is_told_apart():
    torch.manual_seed(0)
    model = OneCounts().eval()
    shapes = {name: {0: name} for name in "xyzw"}
    program = opbridge.export(model, tuple(torch.randn(5, 4) for _ in range(4)), dynamic_shapes=shapes, verify=False)
    covered = not [note for note in program.plan.notes if "valid only for" in note]
    session = program.session()
    for sizes in itertools.product((2, 5), repeat=4):
        if covered or sizes == (5, 5, 5, 5):
            given = [torch.randn(n, 4) for n in sizes]
            feed = {each.name: given["xyzw".index(each.name)].numpy() for each in session.get_inputs()}
            torch.testing.assert_close(torch.from_numpy(session.run(None, feed)[0]), model(*given))


@pytest.mark.slow
def test_sides_of_other_sizes():
    torch.manual_seed(0)
    model = OfUnequalSizes().eval()
    program = opbridge.export(model, (torch.randn(5, 4),), dynamic_shapes={"x": {0: "n"}}, verify=False)
    assert not [note for note in program.plan.notes if "valid only for" in note]
    session = program.session()
    for n in range(1, 40):
        _agrees(session, model, (torch.randn(n, 4),))


@pytest.mark.slow
def test_small_sizes_beside_questions(captures):
    torch.manual_seed(0)
    model = BesideSmallSizes().eval()
    shapes = {"x": {0: "a"}, "y": {1: "b"}, "z": {0: "c"}}
    given = torch.randn(9, 4), torch.randn(2, 9, 4), torch.randn(9, 4)
    program = opbridge.export(model, given, dynamic_shapes=shapes, verify=False)
    assert captures
    session = program.session()
    for a, b, c in itertools.product((1, 2, 4, 5, 6, 7, 20), (1, 2, 3, 4, 5, 9), (1, 2, 6, 7, 12)):
        _agrees(session, model, (torch.randn(a, 4), torch.randn(2, b, 4), torch.randn(c, 4)))


def test_a_model_without_questions_is_captured_once(monkeypatch):
    counts = []
    original = CaptureLimits.begin_one
    monkeypatch.setattr(CaptureLimits, "begin_one", lambda *args, **named: counts.append(1) or original(*args, **named))
    opbridge.check(nn.Linear(4, 4).eval(), (torch.randn(3, 4),), dynamic_shapes={"input": {0: "n"}})
    assert len(counts) == 1


class SquareOrNot(_Steps):
    """Tells equal sizes from others, where the example has equal ones."""

    def forward(self, x):
        x = self.left[0](x).tanh() if x.shape[0] == x.shape[1] else self.right[0](x)
        return x * 3


class LargerFirst(_Steps):
    """Makes the sizes equal: where the example has equal ones, it does nothing."""

    def forward(self, x):
        if x.shape[0] > x.shape[1]:
            x = x.transpose(0, 1)
        if x.shape[0] != x.shape[1]:
            x = nn.functional.pad(x, (0, 0, 0, 0, 0, x.shape[1] - x.shape[0]))
        return self.left[0](x)


class ComparesInSeveralWays(_Steps):
    def forward(self, x):
        height, width = x.shape[:2]
        x = self.left[0](x)
        if height * 2 == width * 2:
            x = x.flip(0)
        if height + width > 20:
            x = x.tanh()
        if height - width > 3:
            x = x * 2
        return x + 1 if height % 2 == width % 2 else x


@pytest.mark.slow
@pytest.mark.parametrize("model", [SquareOrNot, LargerFirst, ComparesInSeveralWays])
def test_sizes_that_are_equal_in_the_example(model):
    torch.manual_seed(0)
    model = model().eval()
    shapes = {"x": {0: "height", 1: "width"}}
    program = opbridge.export(model, (torch.randn(8, 8, 4),), dynamic_shapes=shapes, verify=False)
    assert not [note for note in program.plan.notes if "valid only for" in note]
    session = program.session()
    for height, width in itertools.product((1, 2, 3, 7, 8, 9, 12, 15), (1, 2, 4, 8, 9, 13)):
        _agrees(session, model, (torch.randn(height, width, 4),))


def last_four_steps(x):
    """One step is repeated, fewer than four are padded; then chunks of two, of which the last may be shorter."""
    n = x.shape[1]
    if n == 1:
        x = x.expand(x.shape[0], 4, 3)
    elif n < 4:
        x = nn.functional.pad(x, (0, 0, 4 - n, 0))
    if n % 2 == 1 and n > 4:
        x = nn.functional.pad(x, (0, 0, 0, 1))
    return x[:, -4:] * 2 if n > 6 else x[:, :4] + 1


@pytest.mark.slow
def test_an_operator_asks_again_what_was_answered():
    program = opbridge.export(
        last_four_steps, (torch.rand(2, 10, 3),), dynamic_shapes={"x": {0: "batch", 1: "n"}}, verify=False
    )
    assert not program.plan.notes
    session = program.session()
    for sizes in itertools.product((1, 2), range(1, 13)):
        _agrees(session, last_four_steps, [torch.rand(*sizes, 3)])
