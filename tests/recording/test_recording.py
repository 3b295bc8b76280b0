from __future__ import annotations

import contextlib
import io
import threading

import pytest
import torch

import opbridge


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.embedding = torch.nn.Embedding(20, 4)

    def forward(self, x, ids, mask=None, *, scale=1.0, extra=None):
        found = self.embedding(ids).mean(1)
        if mask is not None:
            found = found * mask.float().mean()
        y = self.conv(x) * scale
        if extra is not None:
            y = y + extra["a"] + extra["b"][0]
        return y + found[:, :, None, None]


def inputs(batch=2, height=8, width=9, length=5):
    return torch.randn(batch, 3, height, width), torch.randint(20, (batch, length))


def hooks(module):
    return [
        len(each)
        for each in (
            module._forward_hooks,
            module._forward_pre_hooks,
            module._forward_hooks_with_kwargs,
            module._forward_pre_hooks_with_kwargs,
        )
    ]


def test_a_model_is_exported_from_its_calls(tmp_path):
    model = Net().eval()
    with opbridge.record(model) as calls:
        with torch.no_grad():
            model(*inputs())
        with torch.inference_mode():
            model(*inputs(3, 8, 12, 6))
        x, ids = inputs(3, 16, 12, 6)
        model(x, ids=ids, mask=None, scale=1.0)
    assert hooks(model) == [0, 0, 0, 0]
    assert len(calls) == 3 and len(calls.groups) == 1
    assert calls.dynamic_shapes == {"x": {0: "batch", 2: "height", 3: "width"}, "ids": {0: "batch", 1: "length"}}
    program = calls.export(tmp_path / "net.onnx")
    assert program.model.graph.inputs[0].shape == ("batch", 3, "height", "width")
    labels = [run.label for run in program.verification.runs]
    assert labels[:5] == ["example", "call 2", "call 3", "fresh 1", "fresh 2"]
    assert len(labels) > 5  # other sizes
    assert program.verification.ok
    assert "x: float32 [batch=2..3, 3, height=8..16, width=9..12]" in str(calls)
    assert calls.check().ok


def test_a_module_inside_of_another():
    inner = torch.nn.Linear(4, 4)
    outer = torch.nn.Sequential(torch.nn.ReLU(), inner)
    calls = opbridge.record(inner)
    for length in (2, 3):
        outer(torch.randn(length, 4))
    program = calls.export()  # which ends the recording
    assert hooks(inner) == [0, 0, 0, 0]
    outer(torch.randn(7, 4))
    assert len(calls) == 2
    assert [type(leaf) for leaf in calls.args] == [torch.Tensor] and calls.dynamic_shapes == {"input": {0: "batch"}}
    assert program.verification.ok


def test_sizes_that_never_vary_are_static():
    model = Net()
    with opbridge.record(model) as calls:
        for _ in range(3):
            model(*inputs())
    assert calls.dynamic_shapes is None and len(calls.inputs.calls) == 0
    assert len(calls) == 3


def test_dynamic_shapes_take_the_place_of_those_found():
    model = Net().eval()
    with opbridge.record(model) as calls:
        model(*inputs())
        model(*inputs(3))
    program = calls.export(dynamic_shapes={"x": {2: "rows"}, "ids": None})
    assert program.model.graph.inputs[0].shape == (2, 3, "rows", 9)
    (left_out,) = program.verification.left_out
    assert left_out.kind == "given" and "does not match" in left_out.left_out


def test_numbers_that_vary_are_refused_with_their_calls():
    model = Net().eval()
    with opbridge.record(model) as calls:
        for scale in (1.0, 2.0, 1.0):
            model(*inputs(), scale=scale)
    with pytest.raises(opbridge.UsageError) as error:
        calls.export()
    assert "The 3 calls of Net have 2 signatures" in str(error.value)
    assert "'scale' is left out in calls 1, 3, 2.0 in call 2" in str(error.value)
    assert calls.groups[1].numbers == [2]
    assert calls.groups[1].kwargs == {"scale": 2.0}
    assert calls.groups[1].export().verification.ok


def test_inputs_that_are_sometimes_left_out_are_refused():
    model = Net().eval()
    with opbridge.record(model) as calls:
        x, ids = inputs()
        model(x, ids)
        model(x, ids, torch.ones(2, 5, dtype=torch.bool))
        model(x, ids, torch.ones(2, 5))
        model(x, ids, torch.ones(2, 5, 1))
        model(x, ids, extra={"a": torch.randn(1), "b": [torch.randn(8, 9)]})
        x, ids = inputs(2, 4, 4)
        model(x, ids, extra={"a": torch.randn(1), "b": [torch.randn(4, 4)]})
    with pytest.raises(opbridge.UsageError) as error:
        calls.check()
    assert "'mask' is left out in calls 1, 5, 6, a bool tensor of 2 dimensions in call 2, a float32" in str(error.value)
    assert "'extra['a']' is left out in calls 1, 2, 3 and 1 more, a float32 tensor" in str(error.value)
    assert str(calls).count("groups[") == 5
    group = calls.groups[-1]
    assert group.numbers == [5, 6]
    shapes = group.dynamic_shapes
    assert shapes["extra"] == {"a": None, "b": [{0: "height", 1: "width"}]} and "ids" not in shapes
    assert group.export().verification.ok


def test_dimensions_that_vary_in_step_are_one():
    model = torch.nn.ReLU()
    with opbridge.record(model) as calls:
        for size in (4, 6):
            model(torch.randn(2, 3, size, size))
    assert calls.dynamic_shapes == {"input": {2: "size", 3: "size"}}
    assert "input.shape[2] and input.shape[3] were equal in all calls and share the dimension 'size'" in str(calls)


class Several(torch.nn.Module):
    def forward(self, first, *more, **named):
        return first + sum(each.sum() for each in more) + named["b"].sum() * named["a"].mean()


def test_gathered_inputs():
    model = Several()
    with opbridge.record(model) as calls:
        model(torch.randn(2), torch.randn(3, 2), torch.randn(4), b=torch.randn(2), a=torch.randn(5))
        model(torch.randn(3), torch.randn(4, 2), torch.randn(6), a=torch.randn(5), b=torch.randn(3))
    assert len(calls.groups) == 1
    assert calls.dynamic_shapes == {
        "first": {0: "first_dim_0"},
        "more": ({0: "batch"}, {0: "more_1_dim_0"}),
        "b": {0: "first_dim_0"},
    }
    assert calls.export().verification.ok


def test_containers_of_their_own():
    pytest.importorskip("transformers")
    from transformers.modeling_outputs import BaseModelOutput

    class Reader(torch.nn.Module):
        def forward(self, given):
            return given.last_hidden_state * 2

    model = Reader()
    with opbridge.record(model) as calls:
        for length in (2, 3):
            model(BaseModelOutput(last_hidden_state=torch.randn(1, length, 4)))
    assert calls.export().verification.ok


def test_only_some_calls_are_kept():
    model = torch.nn.ReLU()
    with opbridge.record(model, keep=2) as calls:
        for size in (2, 3, 4, 5, 2):
            model(torch.randn(size, 3))
        model(torch.randn(5))
    assert len(calls) == 6
    first, second = calls.groups
    assert len(first.inputs.calls) == 1
    assert "batch=2..5" in str(calls)
    with pytest.raises(opbridge.UsageError, match="The inputs of call 6 were not kept.*larger keep="):
        second.export()


def test_inputs_are_kept_as_they_were_before_the_call():
    class Writer(torch.nn.Module):
        def forward(self, x):
            return x.add_(1) * 2

    model = Writer()
    x = torch.zeros(2, 3)
    with opbridge.record(model) as calls:
        model(x)
    assert calls.args[0].eq(0).all() and not calls.args[0].requires_grad
    x.fill_(7)
    assert calls.args[0].eq(0).all()


def test_calls_that_raise_are_not_recorded():
    class Picky(torch.nn.Module):
        def forward(self, x, depth=0):
            if x.shape[0] == 3:
                raise ValueError("three")
            if depth:
                with contextlib.suppress(ValueError):
                    self(x.new_zeros(3))
            return x + 1

    model = Picky()
    with pytest.raises(ValueError, match="three"), opbridge.record(model) as calls:
        model(torch.zeros(2), depth=1)
        model(torch.zeros(3))
    assert hooks(model) == [0, 0, 0, 0]
    assert len(calls) == 1 and calls.args[0].shape == (2,)


def test_the_example_has_sizes_that_say_much():
    model = torch.nn.ReLU()
    with opbridge.record(model) as calls:
        for shape in ((1, 2), (4, 4), (3, 5), (6, 7)):
            model(torch.randn(shape))
    assert calls.args[0].shape == (3, 5)


def test_calls_of_several_threads():
    model = torch.nn.Linear(4, 4)
    with opbridge.record(model) as calls:
        threads = [
            threading.Thread(target=lambda n=n: [model(torch.randn(n, 4)) for _ in range(20)]) for n in (2, 3, 4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(calls) == 60 and len(calls.groups) == 1 and calls.dynamic_shapes == {"input": {0: "batch"}}


def test_an_export_meanwhile_is_no_call():
    model = torch.nn.Linear(4, 4)
    with opbridge.record(model) as calls:
        model(torch.randn(2, 4))
        torch.export.export(model, (torch.randn(3, 4),))
        opbridge.export(model, (torch.randn(3, 4),), verify=False)
    assert len(calls) == 1


def test_wrong_use():
    with pytest.raises(opbridge.UsageError, match="record expects a torch.nn.Module"):
        opbridge.record(torch.relu)
    with pytest.raises(opbridge.UsageError, match="keep=0 is invalid"):
        opbridge.record(torch.nn.ReLU(), keep=0)
    with opbridge.record(torch.nn.ReLU()) as calls:
        pass
    with pytest.raises(opbridge.UsageError, match="No call of ReLU was recorded"):
        calls.export(io.BytesIO())


def test_recorded_parts():
    encoder, decoder = torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)
    with opbridge.record(encoder) as first, opbridge.record(decoder) as second:
        for size in (2, 3):
            decoder(encoder(torch.randn(size, 4)))

    def run(parts, x):
        return parts.decoder(parts.encoder(x))

    parts = opbridge.Parts({"encoder": first, "decoder": second}, run=run, args=torch.randn(5, 4))
    done = parts.export()
    assert done.verification.ok
    assert "call 2" in [each.label for each in done["decoder"].verification.runs]


def test_calls_that_raise_leave_nothing_behind():
    class Picky(torch.nn.Module):
        def forward(self, x):
            if x.shape[0] == 3:
                raise ValueError("three")
            return x + 1

    model = Picky()
    with opbridge.record(model, keep=1) as calls:
        for size in (3, 3, 2):
            with contextlib.suppress(ValueError):
                model(torch.zeros(size))
        with contextlib.suppress(TypeError):
            model()
        assert not calls._stack()
    assert len(calls) == 1 and calls.args[0].shape == (2,)
    assert not model._forward_hooks_always_called
