"""A model written to a file: what is in it, beyond what one file can hold, and whole or not at all."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from helpers.saved_models import data_of, external_entries, listing, model_of, torch_model, weights_of

from opbridge.errors import SaveError
from opbridge.onnx import serialize, wire
from opbridge.onnx.serialize import to_bytes
from opbridge.onnx.torch_tensor import TorchTensor
from opbridge.save import replacing, writer
from opbridge.save.writer import save


def rich_model(folder: Path) -> ir.Model:
    """One of everything that a model can hold."""
    text = """
        <ir_version: 10, opset_import: ["" : 20, "mine" : 1], doc_string: "a model", metadata_props: ["key": "value"]>
        main (bool c, float[2] x, float[2] given) => (float[2] y)
        <float[2] given = {5, 6}, float[2] plain = {1, 2}> {
            shifted = mine.shift (x)
            sum = Add (shifted, given)
            y = If (c) <
                then_branch = then () => (float[2] a) <float[2] inner = {3, 4}> { a = Add(sum, inner) },
                else_branch = else () => (float[2] b) { k = Constant <value = float[2] {7, 8}> () b = Add(k, plain) }
            >
        }
        <domain: "mine", opset_import: ["" : 20]>
        shift (v) => (w) { one = Constant <value = float[1] {1}> () w = Add (v, one) }
    """
    model = ir.serde.from_onnx_text(text)
    graph = model.graph
    (folder / "source.bin").write_bytes(np.arange(600, dtype=np.float32).tobytes())
    more = {
        "torch_bf16": TorchTensor(torch.randn(3, 5).to(torch.bfloat16)),
        "torch_transposed": TorchTensor(torch.randn(700, 3).t()),
        "torch_complex": TorchTensor(torch.randn(4, dtype=torch.complex64)),
        "torch_bool": TorchTensor(torch.tensor([True, False])),
        "torch_scalar": TorchTensor(torch.tensor(2.5)),
        "torch_empty": TorchTensor(torch.empty(0, 4)),
        "numpy": ir.Tensor(np.arange(500, dtype=np.int64)),
        "numpy_strided": ir.Tensor(np.arange(1000, dtype=np.int16)[::2]),
        "int4": ir.tensor(np.array([1, -2, 3], dtype=ir.DataType.INT4.numpy())),
        "lazy": ir.LazyTensor(lambda: ir.tensor(np.ones((20, 30))), ir.DataType.DOUBLE, ir.Shape((20, 30))),
        "strings": ir.StringTensor([b"a", b"bc"], shape=ir.Shape((2,))),
        "external": ir.ExternalTensor(
            "source.bin", 400, 2000, ir.DataType.FLOAT, shape=ir.Shape((500,)), name="other", base_dir=folder
        ),
    }
    for name, tensor in more.items():
        value = ir.Value(name=name, const_value=tensor, shape=tensor.shape, type=ir.TensorType(tensor.dtype))
        graph.register_initializer(value)
    tensor = more["torch_bf16"]
    tensor.doc_string = "half of it"
    tensor.metadata_props["origin"] = "here"
    graph.initializers["numpy"].meta["quant_parameter_tensor_names"] = {"SCALE_TENSOR": "plain"}
    graph.metadata_props["graph"] = "props"
    return model


def reference_proto(model: ir.Model) -> onnx.ModelProto:
    """What onnx_ir itself writes, with all numbers inside and as raw bytes, and the producer, which is there always."""
    model = model.clone()
    for value in model.graph.initializers.values():
        if isinstance(value.const_value, (ir.ExternalTensor, ir.serde.TensorProtoTensor)):
            value.const_value = ir.Tensor(value.const_value.numpy(), name=value.name)
    proto = ir.to_proto(model)
    proto.producer_name, proto.producer_version = proto.producer_name, proto.producer_version
    return proto


def test_one_file_holds_what_onnx_ir_would_write(tmp_path):
    model = rich_model(tmp_path)
    assert save(model, tmp_path / "m.onnx") == [tmp_path / "m.onnx"]
    loaded = onnx.load(tmp_path / "m.onnx")
    assert loaded == reference_proto(model)
    assert to_bytes(model) == (tmp_path / "m.onnx").read_bytes()
    onnx.checker.check_model(loaded, full_check=True)
    onnx.checker.check_model(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    x = np.array([10, 20], np.float32)
    assert session.run(None, {"c": np.array(True), "x": x})[0].tolist() == [10 + 1 + 5 + 3, 20 + 1 + 6 + 4]
    assert session.run(None, {"c": np.array(False), "x": x})[0].tolist() == [8, 10]


def test_the_first_fields_are_three(tmp_path):
    """OpenVINO takes no file of which two of the first three fields are the same."""
    content = to_bytes(rich_model(tmp_path))
    assert len(onnx.ModelProto.FromString(content).opset_import) == 2
    assert [number for number, _, _ in wire.fields(content, 0, len(content))][:3] == [1, 2, 3]


def test_the_graph_is_one_message(tmp_path):
    content = to_bytes(rich_model(tmp_path))
    graphs = [(first, last) for number, first, last in wire.fields(content, 0, len(content)) if number == wire.GRAPH]
    assert len(graphs) == 1
    names = onnx.GraphProto.FromString(content[slice(*graphs[0])])
    assert len(names.initializer) == 14


def test_the_fields_of_a_file_are_in_the_order_of_their_numbers(tmp_path):
    # OpenVINO takes a file for one of another format where the functions come before the graph.
    model = rich_model(tmp_path)
    assert model.functions
    content = to_bytes(model)
    numbers = [number for number, *_ in wire.fields(content, 0, len(content))]
    assert numbers == sorted(numbers)


def test_the_same_model_gives_the_same_bytes(tmp_path):
    model = rich_model(tmp_path)
    for external in (False, True):
        folders = [tmp_path / f"{external} {number}" for number in (1, 2)]
        for folder in folders:
            folder.mkdir()
            save(model, folder / "first.onnx", external_data=external)
        assert listing(folders[0]) == listing(folders[1])
        assert len(listing(folders[0])) == 1 + external


@pytest.mark.parametrize("external", [False, True])
def test_the_model_is_not_changed(tmp_path, external):
    model = rich_model(tmp_path)
    graph = model.graph
    nested = next(graph.subgraphs()).initializers["inner"]
    nested.const_value.name = "a name of its own"
    tensors = {name: value.const_value for name, value in graph.initializers.items()}
    names = {name: tensor.name for name, tensor in tensors.items()}
    before = reference_proto(model)
    nested.const_value.name = "a name of its own"
    for name, tensor in tensors.items():
        tensor.name = names[name]
    save(model, tmp_path / "m.onnx", external_data=external)
    assert nested.const_value.name == "a name of its own"
    assert all(graph.initializers[name].const_value is tensor for name, tensor in tensors.items())
    assert {name: tensor.name for name, tensor in tensors.items()} == names
    assert reference_proto(model) == before


def test_external_data_holds_all_but_the_smallest(tmp_path):
    model = rich_model(tmp_path)
    path = tmp_path / "m.onnx"
    [written, data] = save(model, path, external_data=True)
    assert written == path and data.parent == tmp_path and re.fullmatch(r"m\.onnx\.[0-9a-f]{8}\.data", data.name)
    entries = external_entries(path)
    assert set(entries) == {"torch_transposed", "numpy", "lazy", "external"}
    assert {entry["location"] for entry in entries.values()} == {data.name}
    onnx.checker.check_model(path)
    loaded = onnx.load(path)
    for tensor in loaded.graph.initializer:
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
    assert loaded == reference_proto(model)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert session.run(None, {"c": np.array(False), "x": np.ones(2, np.float32)})[0].tolist() == [8, 10]


def test_external_offsets_are_aligned_and_do_not_overlap(tmp_path):
    sizes = (1023, 1024, 5000, 1 << 20, 1025, 3 << 20)
    weights = {f"w{size}": torch.randint(0, 255, (size,), dtype=torch.uint8) for size in sizes}
    path = tmp_path / "m.onnx"
    save(torch_model(**weights), path, external_data=True)
    entries = external_entries(path)
    assert set(entries) == {f"w{size}" for size in sizes[1:]}
    end = 0
    for name, entry in entries.items():
        offset, length = int(entry["offset"]), int(entry["length"])
        assert offset % (4096 if length >= 1 << 20 else 64) == 0
        assert offset >= end
        assert length == weights[name].nbytes
        end = offset + length
    assert data_of(path).stat().st_size == end
    for name, array in weights_of(path).items():
        np.testing.assert_array_equal(array, weights[name].numpy())


def test_tied_weights_are_written_once(tmp_path):
    weight = torch.randn(40, 40)
    lazy = ir.LazyTensor(lambda: ir.tensor(np.ones(2000)), ir.DataType.DOUBLE, ir.Shape((2000,)))
    model = model_of(
        {
            "embed": TorchTensor(weight),
            "head": TorchTensor(torch.nn.Parameter(weight)),
            "flat": TorchTensor(weight.view(1600)),
            "transposed": TorchTensor(weight.t()),
            "equal": TorchTensor(weight.clone()),
            "lazy": lazy,
            "lazy_again": lazy,
        }
    )
    path = tmp_path / "m.onnx"
    save(model, path, external_data=True)
    entries = external_entries(path)
    assert entries["embed"] == entries["head"] == entries["flat"]
    assert entries["lazy"] == entries["lazy_again"]
    assert len({entry["offset"] for entry in entries.values()}) == 4
    assert data_of(path).stat().st_size == 3 * 6400 + 16000
    found = weights_of(path)
    np.testing.assert_array_equal(found["head"], weight.numpy())
    np.testing.assert_array_equal(found["transposed"], weight.t().numpy())


def test_it_can_be_moved(tmp_path):
    weight = torch.randn(1000)
    (tmp_path / "a").mkdir()
    save(torch_model(w=weight), tmp_path / "a" / "m.onnx", external_data=True)
    (tmp_path / "a").rename(tmp_path / "b")
    np.testing.assert_array_equal(weights_of(tmp_path / "b" / "m.onnx")["w"], weight.numpy())


def test_nested_external_tensors_come_along(tmp_path):
    (tmp_path / "source").mkdir()
    numbers = np.arange(8, dtype=np.float32)
    (tmp_path / "source" / "w.bin").write_bytes(numbers.tobytes())

    def external(index):
        return ir.ExternalTensor(
            "w.bin", 8 * index, 8, ir.DataType.FLOAT, shape=ir.Shape((2,)), name="", base_dir=tmp_path / "source"
        )

    model = rich_model(tmp_path)
    next(model.graph.subgraphs()).initializers["inner"].const_value = external(1)
    [constant] = (node for node in model.graph.all_nodes() if node.op_type == "Constant")
    constant.attributes["value"] = ir.AttrTensor("value", external(2))
    save(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    x = np.zeros(2, np.float32)
    assert session.run(None, {"c": np.array(True), "x": x})[0].tolist() == [1 + 5 + 2, 1 + 6 + 3]
    assert session.run(None, {"c": np.array(False), "x": x})[0].tolist() == [4 + 1, 5 + 2]
    assert isinstance(constant.attributes["value"].value, ir.ExternalTensor)


def test_a_loaded_model_can_be_saved_over_itself(tmp_path):
    path = tmp_path / "m.onnx"
    weights = {"b": torch.randn(500), "a": torch.randn(900)}
    save(torch_model(**weights), path, external_data=True)
    loaded = ir.load(path)
    loaded.graph.initializers["b"].const_value = ir.tensor(np.zeros(500, np.float32))
    save(loaded, path, external_data=True)
    found = weights_of(path)
    np.testing.assert_array_equal(found["a"], weights["a"].numpy())
    assert not found["b"].any()
    save(ir.load(path), path, external_data=False)
    np.testing.assert_array_equal(weights_of(path)["a"], weights["a"].numpy())
    assert sorted(listing(tmp_path)) == ["m.onnx"]


# Sizes beyond what one file can hold


def test_more_than_protobuf_can_hold_goes_beside_the_file(tmp_path, monkeypatch):
    for module in (serialize, writer):
        monkeypatch.setattr(module, "MAX_FILE_BYTES", 10_000, raising=False)
    assert len(save(torch_model(w=torch.randn(2400)), tmp_path / "small.onnx")) == 1
    assert len(save(torch_model(w=torch.randn(2500)), tmp_path / "large.onnx")) == 2
    small = tmp_path / "small.onnx"
    assert serialize.serialize(torch_model(w=torch.randn(2400))).size() == small.stat().st_size


def test_more_than_protobuf_can_hold_in_one_file_is_refused(tmp_path):
    huge = torch.zeros(1).expand(600_000_000)  # 2.4 GB by its shape, 4 bytes of memory
    with pytest.raises(SaveError, match=r"m\.onnx was not written: it would be 2\.40 GB.*external_data"):
        save(torch_model(w=huge), tmp_path / "m.onnx", external_data=False)
    with pytest.raises(SaveError, match=r"has 2\.40 GB.*Save it to a file"):
        to_bytes(torch_model(w=huge))
    assert not listing(tmp_path)


def test_too_much_outside_the_main_graphs_initializers_is_refused(tmp_path, monkeypatch):
    for module in (serialize, writer):
        monkeypatch.setattr(module, "MAX_FILE_BYTES", 10_000, raising=False)
    model = rich_model(tmp_path)
    [constant] = (node for node in model.graph.all_nodes() if node.op_type == "Constant")
    constant.attributes["value"] = ir.AttrTensor("value", ir.tensor(np.zeros(3000, np.float32)))
    with pytest.raises(SaveError, match=r"even without the weights.*Constant nodes"):
        save(model, tmp_path / "m.onnx")


# Whole or not at all


class Interrupting:
    """Fails with an error at its n-th call, and passes the others on."""

    def __init__(self, function, call: int, error: BaseException) -> None:
        self.function, self.call, self.error, self.calls = function, call, error, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        if self.calls == self.call:
            raise self.error
        return self.function(*args, **kwargs)


@pytest.mark.parametrize("before", ["nothing", "one file", "two files"])
@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize(
    ("error", "raised"), [(KeyboardInterrupt(), KeyboardInterrupt), (OSError(5, "I/O"), SaveError)]
)
def test_a_rename_that_fails_restores_what_was_there(tmp_path, monkeypatch, before, external, error, raised):
    path = tmp_path / "m.onnx"
    if before != "nothing":
        save(torch_model(w=torch.ones(1000)), path, external_data=before == "two files")
    there = listing(tmp_path)
    model = torch_model(w=torch.zeros(2000))
    calls = 0
    while True:
        replace = Interrupting(os.replace, calls + 1, error)
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", replace)
            try:
                save(model, path, external_data=external)
            except raised:
                assert listing(tmp_path) == there
                calls += 1
            else:
                break
    files = 2 if external else 1
    assert calls == files
    assert not weights_of(path)["w"].any()
    assert len(listing(tmp_path)) == files


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("no such weights"), MemoryError()])
def test_a_weight_that_fails_leaves_what_was_there(tmp_path, external, error):
    path = tmp_path / "m.onnx"
    save(torch_model(w=torch.ones(1000)), path, external_data=external)
    there = listing(tmp_path)

    def fail():
        raise error

    bad = ir.LazyTensor(fail, ir.DataType.FLOAT, ir.Shape((1000,)))
    model = model_of({"a": TorchTensor(torch.zeros(1000)), "bad": bad})
    with pytest.raises(type(error)):
        save(model, path, external_data=external)
    assert listing(tmp_path) == there


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("direct", [False, True], ids=["through the page cache", "past it"])
@pytest.mark.parametrize("size", [10, 100_000, 3_000_000], ids=["noticed at close", "noticed at write", "large"])
def test_a_full_disk(tmp_path, monkeypatch, external, size, direct):
    path = tmp_path / "m.onnx"
    save(torch_model(w=torch.ones(1000)), path, external_data=True)
    there = listing(tmp_path)

    class FullDisk(replacing.Replacement):
        def open(self, target, size, **keywords):
            file = super().open(target, size, **keywords)
            full = os.open("/dev/full", os.O_WRONLY)
            os.dup2(full, file.fileno())
            os.close(full)
            return file

    monkeypatch.setattr(writer, "Replacement", FullDisk)
    monkeypatch.setattr(replacing, "_DIRECT_FROM_BYTES", 0 if direct else 1 << 40)
    with pytest.raises(SaveError, match=r"m\.onnx.* was not written: the disk is full.*is unchanged\. Free some space"):
        save(torch_model(w=torch.zeros(size)), path, external_data=external)
    assert listing(tmp_path) == there


def run_python(code: str, *args: object) -> str:
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(["src", "tests"]), "OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).parents[2],
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.slow
def test_limits_on_size_and_memory(tmp_path):
    """In a process of its own: a limit on file sizes, and what saving adds to the peak of memory."""
    save(torch_model(w=torch.ones(1000)), tmp_path / "m.onnx")
    there = listing(tmp_path)
    out = run_python(
        """
        import re, resource, sys, torch
        from helpers.saved_models import torch_model
        from opbridge.errors import SaveError
        from opbridge.save.writer import save

        def status(key):
            with open("/proc/self/status") as file:
                return int(re.search(key + r":\\s+(\\d+) kB", file.read())[1]) / 1024

        path = sys.argv[1] + "/m.onnx"
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        for external in (False, True):
            try:
                save(torch_model(w=torch.zeros(50_000)), path, external_data=external)
            except SaveError as error:
                print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

        rows, columns = 7_000, 1_000
        weights = {
            "transposed": torch.ones(columns, rows).t(),
            "one_row": torch.ones(1, columns, rows).transpose(1, 2),
            "half": torch.ones(2 * rows, columns, dtype=torch.bfloat16).t(),
        }
        size = sum(weight.nbytes for weight in weights.values()) / 2**20
        for external in (False, True):
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")  # the peak starts anew
            before = status("VmRSS")
            save(torch_model(**weights), path + ".large", external_data=external)
            print(status("VmHWM") - before, size)
        """,
        tmp_path,
    )
    *refusals, one_file, two_files = out.splitlines()
    assert len(refusals) == 2
    for refusal in refusals:
        for words in ("m.onnx", "ulimit -f", "The previous file is unchanged"):
            assert words in refusal
    assert {name: content for name, content in listing(tmp_path).items() if "large" not in name} == there
    for line in (one_file, two_files):
        added, size = map(float, line.split())
        assert size > 75
        # The pieces of non-contiguous weights take at most 16 MiB and their copies' allocator a little: 0.1 at 1 GB.
        assert added < 24, f"saving {size:.0f} MiB of weights added {added:.0f} MiB to the peak of memory"
