"""Capture: what cannot be captured, and what is said then."""

from __future__ import annotations

import functools
import re

import pytest
import torch
import transformers
from helpers.captures import SMALL, X, line_of
from torch import nn

import opbridge
from opbridge.capture import capture
from opbridge.capture.config import CaptureConfig
from opbridge.capture.control_flow.lowering import CFGLowering
from opbridge.errors import CaptureError, UsageError


def branch(x):
    if x.sum() > 0:  # fails: branch
        return x + 1
    return x - 1


def nested_branch(x):
    return branch(x) * 2


def of_a_size(x):
    found = x[x > 0]
    if found.shape[0] > 3:
        return found.sum().reshape(1)
    return found


def loop(x):
    for _ in range(int(x.max())):  # fails: loop
        x = x * 2
    return x


def repeat(x):
    while x.sum() < 100:  # fails: repeat
        x = x * 2
    return x


def size(x):
    found = x.nonzero()
    if found.shape[0] > 3:  # fails: size
        return x
    return found


def index(x):
    return x * [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0][x.argmax()]  # fails: index


def equal(x):
    return x * bool(torch.ops.aten.equal(x, x * 1))  # fails: equal


def as_range(x):
    return torch.histogram(x, 3, range=(0.0, x.mean().item()))  # fails: as_range


def pointer(x):
    return x * x.data_ptr()  # fails: pointer


class Holder:
    """A container that torch does not know."""


def unknown_container(x):
    return Holder()


@pytest.fixture(scope="module", autouse=True)
def operators_of_our_own():
    library = torch.library.Library("opbridge_capture_test", "DEF")
    library.define("no_kernel(Tensor x) -> Tensor")
    library.define("copied(Tensor x) -> Tensor")
    library.impl("copied", torch.clone, "CPU")
    library.impl("copied", torch.empty_like, "Meta")
    yield
    library._destroy()


@pytest.mark.parametrize(
    "model, what, instead",
    [
        (index, "Python needs a number here", "Keep it a tensor"),
        (equal, "turned into a Python bool", "(a == b).all()"),
        (as_range, "an operator expects a plain Python number here", "Pass a constant"),
        (pointer, "native code", "torch.library.custom_op"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_stops_a_capture_is_told_with_its_line(model, what, instead, capfd):
    _assert_told(model, what, instead)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "model, what, instead",
    [
        (branch, "a Python `if` depends on the values of a tensor", "torch.where(condition, a, b), or torch.cond("),
        (loop, "the number of iterations of a Python loop depends on", "Loop to a fixed maximum"),
        (repeat, "the number of iterations of a Python while loop depends on", "torch.while_loop("),
        (size, "depends on a data-dependent size", "torch._check"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_stops_torch_export_is_told_with_its_line(model, what, instead, capfd):
    _assert_told(model, what, instead, config=CaptureConfig("torch.export"))
    assert capfd.readouterr() == ("", "")


def _assert_told(model, what, instead, **options):
    with pytest.raises(CaptureError) as caught:
        capture(model, X, **options)
    paragraph, code = str(caught.value).split("\n")
    assert f"test_what_stops_a_capture.py:{line_of(__file__, model.__name__)}, in {model.__name__}" in paragraph
    assert what in paragraph and instead in paragraph
    assert code.strip().endswith(f"# fails: {model.__name__}")
    assert caught.value.__cause__ is not None and caught.value.exit_status == 1


@pytest.mark.parametrize(
    "model, inputs",
    [
        (branch, (X, -X)),
        (nested_branch, (X, -X)),
        (of_a_size, (X, -X, X - X.mean())),
        (repeat, (X, X * 3, X * 100)),
        (loop, (X, X * 3, -X)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_stops_torch_export_and_not_the_direct_capture(model, inputs):
    session = opbridge.export(model, (X,), verify=False).session()
    for x in inputs:
        (found,) = session.run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), model(x))


@pytest.mark.slow
def test_sides_of_different_dtypes_are_refused_with_the_line():
    with pytest.raises(CaptureError, match=rf"test_what_stops_a_capture\.py:{line_of(__file__, 'size')}") as caught:
        capture(size, X)
    assert "same dtypes and ranks" in str(caught.value)


def test_an_operator_of_torch_without_a_fake_implementation_is_told():
    with pytest.raises(CaptureError, match="aten::histogram has no fake") as caught:
        capture(lambda x: torch.histogram(x, torch.arange(3.0))[0], X, dynamic_shapes=({0: "rows"},))
    assert "torch.library.register_fake(" in str(caught.value)


def test_the_innermost_line_of_the_model_is_named():
    with pytest.raises(
        CaptureError, match=rf"test_what_stops_a_capture\.py:{line_of(__file__, 'branch')}, in branch, "
    ):
        capture(nested_branch, X, config=CaptureConfig("torch.export"))


@pytest.mark.slow
def test_the_line_of_the_user_stands_beside_that_of_a_library():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = transformers.Wav2Vec2Model(
                transformers.Wav2Vec2Config(
                    **{**SMALL, "vocab_size": 8},
                    conv_dim=(8,),
                    conv_stride=(5,),
                    conv_kernel=(10,),
                    num_feat_extract_layers=1,
                    num_conv_pos_embeddings=4,
                    num_conv_pos_embedding_groups=2,
                    apply_spec_augment=False,
                )
            )

        def forward(self, x):
            return self.encoder(x)  # fails: library

    with pytest.raises(CaptureError) as caught:
        capture(Model(), torch.ones(1, 400), config=CaptureConfig("torch.export"))
    said = str(caught.value)
    assert re.search(r"at transformers/models/wav2vec2/modeling_wav2vec2\.py:\d+, in forward, called at ", said)
    assert f"test_what_stops_a_capture.py:{line_of(__file__, 'library')}, " in said
    assert "to training mode only. For inference, call model.eval() first" in said


def test_an_output_that_torch_does_not_know():
    with pytest.raises(CaptureError, match=r"returns a \w+\.Holder.*tuple, list, dict or dataclass"):
        capture(unknown_container, X)


@pytest.mark.parametrize(
    "model, said",
    [
        (lambda x: x @ torch.ones(7, 7), "cannot be multiplied (2x4 and 7x7)"),
        (lambda x: torch.ops.opbridge_capture_test.no_kernel(x), "Could not run 'opbridge_capture_test::no_kernel'"),
        (lambda x: x.missing, "has no attribute 'missing'"),
    ],
    ids=["shapes", "kernel", "attribute"],
)
def test_a_model_that_fails_by_itself(model, said):
    with pytest.raises(UsageError) as caught:
        capture(model, X)
    paragraph, _ = str(caught.value).split("\n")
    assert paragraph.startswith("The model itself fails on these inputs in plain PyTorch")
    assert said in paragraph and "(float32[2, 4])" in paragraph
    assert f"test_what_stops_a_capture.py:{model.__code__.co_firstlineno}, in <lambda>" in paragraph


@pytest.mark.slow
def test_a_failed_capture_leaves_the_model_as_it_was():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            self.last = self.norm(x)
            return pointer(branch(self.last))

    model = Model()
    with pytest.raises(CaptureError):
        capture(model, X)
    assert model.calls == 0 and not hasattr(model, "last") and model.training
    assert model.norm.num_batches_tracked == 0 and torch.equal(model.norm.running_mean, torch.zeros(4))


def test_an_operator_that_fails_in_the_joined_graph_is_named_by_its_line(monkeypatch):
    """Two paths are captured; the operator fails where the graph of both is made, and no line of the model runs."""

    def model(x):
        x = x.cos() if x.sum() > 0 else x.sin()
        return torch.ops.opbridge_capture_test.copied(x)  # fails: model

    created = CFGLowering.__init__

    def create(self, *args, **kwargs):
        library.impl("copied", functools.partial(torch.reshape, shape=(7,)), "Meta", allow_override=True)
        created(self, *args, **kwargs)

    monkeypatch.setattr(CFGLowering, "__init__", create)
    with (
        torch.library._scoped_library("opbridge_capture_test", "IMPL") as library,
        pytest.raises(CaptureError) as caught,
    ):
        capture(model, X)
    assert "shape '[7]' is invalid" in str(caught.value)
    assert f"test_what_stops_a_capture.py:{line_of(__file__, 'model')}, in model" in str(caught.value)
