from __future__ import annotations

import os
import re

import onnx
import pytest
import torch
from helpers.forks import code_in_fork
from onnxscript import opset18 as op

import opbridge
from opbridge.verification import part_calls

# Large enough that the embedding is not stored in two layouts.
WORDS = 2048


class Encoder(torch.nn.Module):
    def __init__(self, embedding):
        super().__init__()
        self.embedding = embedding
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, ids, mask=None, *, doubled=False):
        found = self.linear(self.embedding(ids))
        if mask is not None:
            found = found * mask[..., None]
        return {"states": found * 2 if doubled else found, "count": 3, "none": None}


class Decoder(torch.nn.Module):
    def __init__(self, embedding):
        super().__init__()
        self.embedding = embedding
        self.head = torch.nn.Linear(16, WORDS, bias=False)
        self.head.weight = embedding.weight

    def forward(self, ids, states):
        return self.head(self.embedding(ids) + states.mean(1, keepdim=True))


def run(parts, ids):
    states = parts.encoder(ids)["states"]
    out = torch.zeros(ids.shape[0], 1, dtype=torch.int64)
    for _ in range(2):
        out = torch.cat([out, parts["decoder"](out, states=states)[:, -1:].argmax(-1)], 1)
    return out, states


DYNAMIC = {
    "encoder": {"dynamic_shapes": {"ids": {0: "batch", 1: "length"}}},
    "decoder": {"dynamic_shapes": {"ids": {0: "batch", 1: "steps"}, "states": {0: "batch", 1: "length"}}},
}


def parts_of(run=run, *, decoder=None, changed=None, keywords=DYNAMIC, **options) -> opbridge.Parts:
    torch.manual_seed(0)
    embedding = torch.nn.Embedding(WORDS, 16)
    encoder = Encoder(embedding).eval()
    decoder = decoder or Decoder(embedding).eval()
    ids, target = torch.randint(64, (2, 5)), torch.randint(64, (2, 3))
    given = {
        "encoder": (encoder, (ids,), keywords["encoder"]),
        "decoder": (decoder, (target, torch.randn(2, 5, 16)), keywords["decoder"]),
    }
    if run is not None:
        options.setdefault("args", (ids,))
    return opbridge.Parts({**given, **(changed or {})}, run=run, **options)


def external(path) -> dict[str, tuple[str, int]]:
    """The weights of a file that are in another file: that file and the offset."""
    proto = onnx.load(path, load_external_data=False)
    found = {}
    for tensor in proto.graph.initializer:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if entries:
            found[tensor.name] = entries["location"], int(entries["offset"])
    return found


def content(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def names(folder) -> list[str]:
    """The names in a folder, with those of weights without the part that each save makes anew."""
    return sorted(re.sub(r"\.[0-9a-f]{8}\.data", ".data", path.name) for path in folder.iterdir())


def weights_of(folder):
    """The only file of weights of a set."""
    [path] = folder.glob("weights.????????.data")
    return path


@pytest.mark.slow
def test_a_set_is_written_and_verified(tmp_path):
    folder = tmp_path / "set"
    done = parts_of(inputs=[(torch.randint(64, (3, 9)),)]).export(folder)
    assert names(folder) == ["decoder.onnx", "encoder.onnx", "weights.data"]
    assert done.files == [folder / "encoder.onnx", folder / "decoder.onnx", weights_of(folder)]
    assert done["encoder"].path == folder / "encoder.onnx"
    assert all(program.verification.ok for program in done.programs.values())
    assert [each.label for each in done.verification.runs] == ["example", "inputs 1"]
    assert [each.name for each in done.verification.outputs] == ["result[0]", "result[1]"]
    # The embedding is one region for both files, and for the decoder's head.
    encoder, decoder = external(folder / "encoder.onnx"), external(folder / "decoder.onnx")
    assert encoder["embedding.weight"] == decoder["embedding.weight"] == (weights_of(folder).name, 0)
    assert len(weights_of(folder).read_bytes()) == (WORDS * 16 + 16 * 16) * 4
    again = parts_of().verify(folder, samples=1)
    assert again.ok and list(again.parts) == ["encoder", "decoder"] and again.to_json()["run"]["ok"]
    assert "the run of" in str(again)


def test_a_copy_of_a_weight_in_another_part_is_stored_once(tmp_path):
    class Head(torch.nn.Module):
        def __init__(self, embedding):
            super().__init__()
            self.weight = embedding

        def forward(self, x):
            return x @ self.weight.T  # a transpose that each file has of its own

    weight = torch.nn.Parameter(torch.randn(WORDS, 16))
    x = torch.randn(2, 16)
    opbridge.Parts({"a": (Head(weight), (x,)), "b": (Head(weight), (x,))}).export(tmp_path / "set", verify=False)
    assert weights_of(tmp_path / "set").stat().st_size == weight.nbytes


@pytest.mark.slow
def test_a_weight_that_one_part_reads_as_it_is_and_another_transposed_is_stored_once(tmp_path):
    embedding, head = torch.nn.Embedding(WORDS, 16), torch.nn.Linear(16, WORDS, bias=False)
    head.weight = embedding.weight
    parts = {
        "tokens": (embedding, (torch.tensor([[1, 2]]),)),
        "head": (head, (torch.randn(1, 2, 16),)),
        "turned": (lambda x: x @ embedding.weight.T.transpose(0, 1).T, (torch.randn(2, 16),)),
    }
    done = opbridge.Parts(parts).export(tmp_path / "set")
    assert all(program.verification.ok for program in done.programs.values())
    assert weights_of(tmp_path / "set").stat().st_size == embedding.weight.nbytes
    assert external(tmp_path / "set" / "head.onnx") == {"weight": (weights_of(tmp_path / "set").name, 0)}


@pytest.mark.slow
def test_weights_in_each_file(tmp_path):
    folder = tmp_path / "set"
    parts_of().export(folder, verify=False)
    parts_of().export(folder, external_data=False)
    assert sorted(content(folder)) == ["decoder.onnx", "encoder.onnx"]
    assert not external(folder / "encoder.onnx")


@pytest.mark.slow
def test_in_memory():
    done = parts_of().export()
    assert done.path is None and done.files == [] and done.verification.ok


def test_without_a_run(tmp_path):
    done = parts_of(None).export(tmp_path / "set")
    assert done.verification is None and done["decoder"].verification.ok


def test_check():
    plans = parts_of().check(opset_version=18)
    assert list(plans) == ["encoder", "decoder"]
    assert all(plan.ok and plan.opset == 18 for plan in plans.values())


def wrong_tanh(x):
    return op.Mul(x, op.Constant(value_float=1.5))


class WrongDecoder(Decoder):
    def forward(self, ids, states):
        return super().forward(ids, states).tanh()


@pytest.mark.slow
def test_a_part_that_differs_is_named_and_kept(tmp_path):
    folder = tmp_path / "set"
    parts_of().export(folder, verify=False)
    before = content(folder)
    embedding = torch.nn.Embedding(WORDS, 16)
    with opbridge.override():
        opbridge.translation("aten::tanh")(wrong_tanh)
        with pytest.raises(opbridge.VerificationError) as failed:
            parts_of(decoder=WrongDecoder(embedding).eval()).export(folder)
    text = str(failed.value)
    assert text.startswith(f"part 'decoder' ({folder / 'decoder.onnx'}) does not agree with PyTorch")
    assert "saved as encoder.failed.onnx, decoder.failed.onnx in" in text
    assert "encoder.onnx, decoder.onnx in" in text and "are unchanged" in text
    after = content(folder)
    assert {name: after[name] for name in before} == before
    assert names(folder) == [
        *("decoder.failed.onnx", "decoder.onnx", "encoder.failed.onnx", "encoder.onnx"),
        *("weights.data", "weights.failed.data"),
    ]
    opbridge.session(folder / "decoder.failed.onnx")
    assert failed.value.file == folder / "encoder.failed.onnx"

    parts_of().export(folder)
    assert names(folder) == ["decoder.onnx", "encoder.onnx", "weights.data"]


def test_a_folder_is_not_left_where_nothing_is_kept(tmp_path):
    with pytest.raises(opbridge.UsageError):
        parts_of(lambda parts, ids: parts.encoder(ids, doubled=True)).export(tmp_path / "set")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_run_that_differs(tmp_path):
    def differing(parts, ids):
        return parts.encoder(ids)["states"] + (type(parts.encoder) is part_calls.PartCall)

    with pytest.raises(opbridge.VerificationError) as failed:
        parts_of(differing).export(tmp_path / "set")
    text = str(failed.value)
    assert text.startswith("The run of all parts (")
    assert "ach part by itself agrees with PyTorch on its own inputs" in text
    assert names(tmp_path / "set") == ["decoder.failed.onnx", "encoder.failed.onnx", "weights.failed.data"]


def test_a_run_of_another_structure():
    def differing(parts, ids):
        states = parts.encoder(ids)["states"]
        return [states] * (1 + (type(parts.encoder) is part_calls.PartCall))

    with pytest.raises(opbridge.VerificationError, match="run= returns 2 values with the exported parts and 1 value"):
        parts_of(differing).export()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "said"),
    [
        (lambda parts, ids: parts.encoder(ids, doubled=True), "run= passes 'doubled' to part 'encoder'"),
        (
            lambda parts, ids: parts.encoder(ids, mask=ids > 3),
            "run= passes 'mask' to part 'encoder', which was exported",
        ),
        (lambda parts, ids: parts.encoder(), "run= failed with the PyTorch models on the example inputs"),
        (lambda parts, ids: parts.encoder(ids).logits, "run= failed with the PyTorch models on the example"),
        (lambda parts, ids: parts.coder(ids), "unknown part 'coder'; the parts are encoder, decoder"),
        (lambda parts, ids: parts.encoder.embedding(ids), "run= failed with the PyTorch models"),
        (
            lambda parts, ids: parts.encoder(ids.int()),
            "'ids' is int64 [batch, length], but int32 [2, 5] was given",
        ),
    ],
)
def test_a_run_that_calls_a_part_otherwise(run, said):
    with pytest.raises(opbridge.UsageError) as error:
        parts_of(run).export()
    assert said in str(error.value)


@pytest.mark.slow
def test_sizes_that_vary_in_run_have_to_be_dynamic():
    static = {**DYNAMIC, "decoder": {}}
    with pytest.raises(opbridge.UsageError, match=r"part 'decoder'.*Make the sizes that vary in run= dynamic"):
        parts_of(keywords=static).export()


def test_defaults_may_be_said_in_run():
    def said(parts, ids):
        found = parts.encoder(mask=None, doubled=False, ids=ids)
        return found["states"], found["count"], found["none"]

    done = parts_of(said).export()
    assert [each.name for each in done.verification.outputs] == ["result[0]", "result[1]"]


@pytest.mark.slow
def test_random_results_of_run_are_not_compared():
    done = parts_of(lambda parts, ids: parts.encoder(ids)["states"] * torch.rand(())).export()
    assert done.verification.ok


def test_what_a_part_draws_may_be_certain_on_the_example_alone():
    certain, other = torch.tensor([[0.0, 10.0, 0.0, 0.0]]), torch.ones(1, 4)
    part = (lambda w: torch.multinomial(w, 20, replacement=True), (certain,))
    given = opbridge.Parts({"draw": part}, run=lambda parts, w: parts.draw(w), args=(certain,), inputs=[(other,)])
    done = given.export()
    assert done.verification.ok
    assert [each.comparisons[0].random for each in done.verification.runs] == [False, True]


@pytest.mark.slow
def test_a_part_that_lacks_an_operator_is_named():
    with torch.library._scoped_library("parts", "DEF") as library:
        library.define("missing(Tensor x) -> Tensor")
        library.impl("missing", lambda x: x.clone(), "CompositeExplicitAutograd")
        part = (lambda x: torch.ops.parts.missing(x), (torch.randn(2),))
        with pytest.raises(opbridge.MissingOperators, match=r"^Part 'third': (.|\n)*parts::missing"):
            parts_of(changed={"third": part}).export()
        assert not parts_of(changed={"third": part}).check()["third"].ok


def test_errors_of_the_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(opbridge.SaveError, match="is a file, but a set of parts"):
        parts_of().export(tmp_path / "file")
    with pytest.raises(opbridge.SaveError, match="is the name of a file"):
        parts_of().export(tmp_path / "set.onnx")
    with pytest.raises(opbridge.SaveError, match="does not exist"):
        parts_of().export(tmp_path / "no" / "set")
    with pytest.raises(opbridge.UsageError, match="is not a folder"):
        parts_of().verify(tmp_path / "none")


@pytest.mark.slow
def test_another_model_that_uses_the_weights_keeps_them(tmp_path):
    folder = tmp_path / "set"
    parts_of().export(folder, verify=False)
    (folder / "decoder.onnx").rename(folder / "older.onnx")
    used = weights_of(folder)
    before = used.read_bytes()
    parts_of().export(folder)
    assert names(folder) == ["decoder.onnx", "encoder.onnx", "older.onnx", "weights.data", "weights.data"]
    assert used.read_bytes() == before
    opbridge.session(folder / "older.onnx")


RENAMES = 5  # the weights, two backups, two models


@pytest.mark.parametrize("failing", range(1, RENAMES + 1))
def test_a_set_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch, failing):
    folder = tmp_path / "set"
    parts_of().export(folder, verify=False)
    before = content(folder)
    rename, done = os.replace, []

    def fails_once(source, target):
        done.append(target)
        if len(done) == failing:
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "replace", fails_once)
    with pytest.raises(opbridge.SaveError):
        parts_of().export(folder, verify=False, opset_version=18)
    assert content(folder) == before


@pytest.mark.slow
def test_a_set_whose_export_was_killed_while_it_renamed_the_files_is_finished(tmp_path, monkeypatch):
    folder = tmp_path / "set"
    parts_of().export(folder, verify=False)
    encoder, decoder = (folder / f"{name}.onnx" for name in ("encoder", "decoder"))
    rename, done = os.replace, []

    def killed(source, target):
        done.append(target)
        if len(done) == RENAMES:
            os._exit(9)
        rename(source, target)

    def export() -> None:
        os.replace = killed
        parts_of().export(folder, verify=False, opset_version=18)

    assert code_in_fork(export) == 9
    assert encoder.exists() and not decoder.exists()
    assert parts_of().verify(folder, samples=1).ok
    assert {onnx.load(file, load_external_data=False).opset_import[0].version for file in (encoder, decoder)} == {18}
    parts_of().export(folder, verify=False)
    assert names(folder) == ["decoder.onnx", "encoder.onnx", "weights.data"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "Parts expects a dict of models by name"),
        ({"a/b": (torch.relu, (torch.ones(1),))}, "not a valid name for a part"),
        ({"a": torch.relu}, "Part 'a' is a builtin_function_or_method"),
        ({"a": (torch.relu, {"x": 1})}, "args is a tuple"),
        ({"a": (torch.relu, (torch.ones(1),), {"dynamic_shape": 1})}, "Did you mean 'dynamic_shapes'"),
        ({"a": (torch.relu, (torch.ones(1),), {"external_data": True})}, "It applies to the whole set"),
    ],
)
def test_wrong_parts(given, said):
    with pytest.raises(opbridge.UsageError) as error:
        opbridge.Parts(given)
    assert said in str(error.value)


def test_wrong_keywords():
    with pytest.raises(opbridge.UsageError, match="keywords of each part"):
        parts_of().export(dynamic_shapes="auto")
    with pytest.raises(opbridge.UsageError, match="unknown argument 'samples'"):
        parts_of().check(samples=1)
    with pytest.raises(opbridge.UsageError, match="valid only together with run="):
        parts_of(None, args=(1,))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rtol": -1}, r"Part 'second': rtol=-1"),
        ({"dynamic_shapes": {"other": {0: "n"}}}, r"Part 'second': dynamic_shapes"),
    ],
)
def test_wrong_arguments_of_a_part_are_refused_before_any_part_runs(wrong, said):
    def counted(x):
        runs.append(x)
        return x * 2

    runs = []
    parts = opbridge.Parts({"first": (counted, torch.ones(3)), "second": (torch.nn.ReLU(), torch.ones(3), wrong)})
    with pytest.raises(opbridge.UsageError, match=said):
        parts.export()
    assert not runs


def test_a_call_of_a_file_is_that_of_its_model():
    """Containers, complex numbers, numbers and constants come back in the model's forms."""

    def model(x, *more, scale, **named):
        return {
            "c": torch.view_as_complex(torch.stack([x, more[0] * scale], -1)),
            "n": x.shape[0],
            "k": (named["y"], None),
        }

    args, kwargs = (torch.randn(3), torch.randn(3)), {"scale": 2.0, "y": torch.randn(2)}
    shapes = {"x": {0: "n"}, "more": ({0: "n"},), "scale": None, "y": None}
    program = opbridge.export(model, args, kwargs=kwargs, dynamic_shapes=shapes)
    capture = program.capture
    call = part_calls.PartCall(
        "a", program.session(), capture.model, capture.args, capture.kwargs, capture, lambda: program.model
    )
    args, kwargs = (torch.randn(5), torch.randn(5)), {"y": torch.randn(2), "scale": 2.0}
    found, wanted = call(*args, **kwargs), model(*args, **kwargs)
    torch.testing.assert_close(found["c"], wanted["c"])
    assert found["n"] == 5 and type(found["n"]) is int and found["k"][1] is None
    with pytest.raises(opbridge.UsageError, match=r"run= passes 3.0 as 'scale' to part 'a'"):
        call(*args, y=kwargs["y"], scale=3.0)
    with pytest.raises(opbridge.UsageError, match="run= calls part 'a' without 'y'"):
        call(*args, scale=2.0)


@pytest.mark.slow
def test_fresh_inputs_of_a_run_that_end_the_process_of_a_part_are_left_out():
    """ONNX Runtime aborts in an LSTM with a batch of 0, which `run` gives for words that nobody gave."""
    lstm = torch.nn.LSTM(4, 8, batch_first=True)
    dynamic = {"dynamic_shapes": {"input": {0: "batch"}}}
    x = torch.randn(3, 5, 4)
    x[0, 0, 0] = 100.0

    def run(parts, x):
        return parts.lstm(x[x[:, 0, 0] == 100.0])[0]

    given = opbridge.Parts({"lstm": (lstm, (x,), dynamic)}, run=run, args=(x,))
    found = given.export().verification
    assert found.ok and [each.label for each in found.left_out] == ["fresh 1", "fresh 2"]
    assert all("(SIGABRT) in part 'lstm'" in str(each.left_out) for each in found.left_out)
