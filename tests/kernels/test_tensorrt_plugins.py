"""Kernels as plug-ins of TensorRT, called through TensorRT's interface by a host of the tests.

The host stands where TensorRT would, and the driver only seems to be there; what the plug-ins do is the real code.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
import torch
from device import LAUNCHES, SOURCE, needs_linux, seeming_cuda
from tensorrt_host import CHW32, Host, HostTensor

import opbridge
from opbridge.cli import main
from opbridge.errors import KernelError
from opbridge.kernels import tensorrt
from opbridge.kernels.compiler import Settings

pytestmark = [
    pytest.mark.slow,
    needs_linux,
]

PLUGINS = Path(__file__).with_name("plugins.cpp")
OF = HostTensor.of
ATTRIBUTES = "plugintest::attributes"


@pytest.fixture(scope="module")
def library() -> Path:
    # Of its own, which asks for the driver once.
    return tensorrt.build(PLUGINS, SOURCE, settings=Settings(debug=True, flags=("-DSEEMING_CUDA",)))


@pytest.fixture(scope="module")
def host(library: Path) -> Host:
    return Host(library)


@pytest.fixture(scope="module")
def cuda(library: Path, tmp_path_factory):
    launches = tensorrt.build(LAUNCHES, settings=Settings(debug=True, flags=("-DSEEMING_CUDA",)))  # in the usual cache
    with seeming_cuda(tmp_path_factory.mktemp("cuda")) as driver:
        driver.plugins, driver.launches = library, launches
        yield driver


def tensor(values: torch.Tensor) -> HostTensor:
    return OF(values.shape, dtype=str(values.dtype).removeprefix("torch."), data=values.data_ptr())


def run(plugin, inputs: Sequence[torch.Tensor], *outputs: torch.Tensor, stream: int = 0x5EED) -> int:
    return plugin.run([tensor(each) for each in inputs], [tensor(each) for each in outputs], stream)


def dynamic(*shapes: Sequence[int], **settings: str) -> list[HostTensor]:
    return [OF(shape, dynamic=True, **settings) for shape in shapes]


# What a library has


def test_a_creator_names_the_attributes_of_its_operator(host):
    floats, texts, integers = 1, 6, 10
    assert host.creators["elementtest::scaled_add"][1] == {"alpha": (floats, 1)}
    assert host.creators[ATTRIBUTES][1] == {
        "whole": (integers, 1),
        "number": (floats, 1),
        "flag": (integers, 1),
        "text": (texts, 0),
        "ints": (integers, 0),
        "floats": (floats, 0),
        "maybe": (integers, 1),
        "some": (floats, 1),
    }
    assert list(host.creators["plugintest::joined"][1]) == ["left", "right", "plugin_outputs"]


def test_a_library_says_which_of_its_operators_are_plug_ins(library):
    names = {each.name for each in tensorrt.plugins(library)}
    assert {"elementtest::scaled_add", "plugintest::doubled"} <= names
    assert not names & {"elementtest::total", "plugintest::on_the_cpu"}


def test_an_operator_without_a_kernel_for_cuda_is_refused(host, tmp_path):
    assert host.create("plugintest::on_the_cpu") is None
    assert "1 plugintest::on_the_cpu: it has no kernel for CUDA devices, which a plug-in needs." in host.messages()
    source = tmp_path / "cpu.cpp"
    source.write_text(
        "#include <opbridge/kernel.h>\nusing namespace opbridge;\n"
        "void f(Input<float> x, Output<float> y) { y[0] = x[0]; }\nShape g(Shape x) { return x; }\n"
        'OPBRIDGE_KERNELS("plugincpu::f(Tensor x) -> Tensor", g, f);\n'
    )
    with pytest.raises(KernelError, match=r"cpu\.cpp has no kernel for CUDA devices, which a TensorRT plug-in needs"):
        tensorrt.build(source, settings=Settings(debug=True))


def test_a_plug_in_is_found_by_its_name_and_says_what_it_is(host):
    plugin = host.create("elementtest::scaled_add", {"alpha": 3.0})
    kinds = "PLUGIN PLUGIN_V3ONE_CORE PLUGIN_V3ONE_BUILD PLUGIN_V3ONE_RUNTIME"
    assert plugin.core == f"elementtest scaled_add 1 {kinds}"
    assert (plugin.outputs, plugin.metadata) == (1, "alpha=3")
    assert "4 elementtest::scaled_add: made a plug-in with alpha=3\n" in host.messages()


def test_the_logger_of_a_release_before_11_is_called_too(library):
    host = Host(library, ["-DBEFORE_11"])
    assert host.create("elementtest::smooth") is None
    assert "1 elementtest::smooth: the node has no attribute 'step' of the type int\n" in host.messages()
    assert host.create("elementtest::smooth", {"step": 1}) is not None
    Host(library)  # for the other tests


def test_the_command_line_builds_plug_ins(library, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = ["-g", "--flag", "-DSEEMING_CUDA"]  # the library that is built already
    given = [str(PLUGINS), str(SOURCE), *flags]
    assert main(["build", *given, "--tensorrt", "-o", "mine.so", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["library"] == "mine.so"
    assert "elementtest::smooth" in answer["plugins"]
    assert answer["without_cuda"] == ["plugintest::on_the_cpu", "elementtest::total"]
    assert main(["build", *given, "--tensorrt", "-o", "mine.so"]) == 0
    said = capsys.readouterr().out
    assert "plug-in     plugintest::doubled" in said
    assert "no plug-in  elementtest::total: it has no kernel for CUDA devices" in said
    assert "trtexec --onnx=model.onnx --dynamicPlugins=mine.so" in said
    assert main(["build", *given, "--tensorrt", "--openvino"]) == 2
    assert main(["build"]) == 2
    assert "opbridge build requires a C++ file" in capsys.readouterr().err


# Fields


@pytest.mark.parametrize("wide", [False, True])
def test_attributes_reach_the_kernel_and_an_engine_keeps_them(host, cuda, wide):
    fields = {"whole": 7, "number": 0.1, "flag": 1, "text": "four", "ints": [5, 6], "floats": [0.25, 1.0], "maybe": 0}
    expected = [7, 0.1, 1, 4, 2, 5, 2, 0.25, 0, -1]
    for each in (host.create(ATTRIBUTES, fields, wide=wide), host.create(ATTRIBUTES, fields, wide=wide).deserialized()):
        found = torch.empty(10)
        assert run(each, [torch.zeros(1)], found) == 0, host.messages()
        torch.testing.assert_close(found, torch.tensor(expected))


def test_defaults_are_those_of_the_schema(host, cuda):
    plugin = host.create(ATTRIBUTES, {"whole": 1}).deserialized()
    assert plugin.metadata == "whole=1, number=0.5, flag=0, text='it', ints=[7], floats=[]"
    found = torch.empty(10)
    assert run(plugin, [torch.zeros(1)], found) == 0
    torch.testing.assert_close(found, torch.tensor([1, 0.5, 0, 2, 1, 7, 0, -1, -1, -1]))


def test_an_empty_list_is_not_the_default(host):
    plugin = host.create(ATTRIBUTES, {"whole": 1, "ints": [], "text": ""})
    assert "text='', ints=[]" in plugin.metadata
    assert "text='', ints=[]" in plugin.deserialized().metadata


def test_numbers_of_64_bits_are_kept(host):
    fields = {"whole": (1 << 40) + 3, "number": 0.1}
    plugin = host.create(ATTRIBUTES, fields, wide=True).deserialized()
    assert plugin.metadata.startswith("whole=1099511627779, number=0.10000000000000001,")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "the node has no attribute 'whole' of the type int"),
        ({"whole": 1.5}, "the field 'whole' is of the type FLOAT32, expected INT32 or INT64"),
        ({"whole": [1, 2]}, "the field 'whole' has 2 values, expected one"),
        ({"whole": 1, "number": 2}, "the field 'number' is of the type INT32, expected FLOAT32 or FLOAT64"),
        ({"whole": 1, "text": 2}, "the field 'text' is of the type INT32, expected CHAR"),
        ({"whole": 1, "ints": "ab"}, "the field 'ints' is of the type CHAR, expected INT32 or INT64"),
        ({"whole": 1, "other": 1}, "there is no field 'other', only whole, number, flag, text, ints, floats, maybe"),
    ],
)
def test_fields_that_are_wrong_are_refused_in_words(host, fields, words):
    assert host.create(ATTRIBUTES, fields) is None
    assert f"1 {ATTRIBUTES}: {words}" in host.messages()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"left": 1, "right": 1}, "the node has no attribute 'plugin_outputs', the number of its outputs"),
        ({"plugin_outputs": 1}, "the node does not declare the lengths of its lists"),
        ({"left": -2, "right": 1, "plugin_outputs": 1}, "an invalid length of the list 'left': -2 tensors"),
        ({"left": 1, "right": 1, "plugin_outputs": -1}, "the node declares an invalid number of outputs: -1"),
    ],
)
def test_lists_need_their_lengths(host, fields, words):
    assert host.create("plugintest::joined", fields) is None
    assert words in host.messages()


# Types and formats


def test_output_types_follow_the_kernel_that_is_called(host):
    plugin = host.create("plugintest::places")
    assert plugin.types(["float32", "int64"]) == ["int32"]
    assert plugin.types(["int32", "int64"]) == ["int32"]
    assert plugin.types(["float32", "int32"]) is None
    assert (
        "no kernel supports (float32, int32); there are kernels for (float32, int64), (int32, int64)" in host.messages()
    )
    assert plugin.types(["int8", "int64"]) is None
    assert "the kernel for (int8, int64) returns (bool), and TensorRT's plug-ins have no such type" in host.messages()
    add = host.create("elementtest::scaled_add")
    assert [add.types([each] * 2) for each in ("float32", "float16", "bfloat16")] == [
        ["float32"],
        ["float16"],
        ["bfloat16"],
    ]
    assert add.types(["int32", "int32"]) is None


def test_supported_formats_are_the_row_major_ones_of_the_kernels(host):
    plugin = host.create("plugintest::places")

    def supported(*types: str) -> bool:
        return all(plugin.supports(position, types, 2) for position in range(3))

    names = ["float32", "float16", "int8", "int32", "int64", "bool"]
    found = {types for types in itertools.product(names, repeat=3) if supported(*types)}
    assert found == {("float32", "int64", "int32"), ("int32", "int64", "int32")}
    assert not plugin.supports(0, ["float32", "int64", "int32"], 2, {0: CHW32})
    assert not plugin.supports(2, ["float32", "int64", "int32"], 2, {2: CHW32})


# Runs


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_function_of_an_element_is_launched_on_the_stream(host, cuda, dtype):
    plugin = host.create("elementtest::scaled_add", {"alpha": 3.0}).deserialized()
    a, b = torch.randn(2, 7, 600, dtype=dtype)
    found = torch.empty_like(a)
    cuda.record()
    assert run(plugin, [a, b], found) == 0, host.messages()
    torch.testing.assert_close(found, (3.0 * a.double() + b.double()).to(dtype))
    assert "launch grid 17 1 1 block 256 1 1 shared 0 stream 0x5eed" in cuda.record()
    assert run(plugin, [a, b], found, stream=0x77) == 0
    assert "launch grid 17 1 1 block 256 1 1 shared 0 stream 0x77" in cuda.record()


def test_two_sources_of_one_library_are_launched(host, cuda):
    x = torch.randn(3, 5)
    found, other = torch.empty_like(x), torch.empty(3, 5)
    assert run(host.create("plugintest::doubled"), [x], found) == 0
    assert run(host.create("elementtest::broadcast_add", {"alpha": 0.5}), [x, torch.ones(5)], other) == 0
    torch.testing.assert_close(found, 2 * x)
    torch.testing.assert_close(other, 0.5 * x + 1)


def test_inputs_at_the_end_may_be_left_out_and_lists_are_told_apart(host, cuda):
    x, y = torch.randn(2), torch.randn(3)
    plugin = host.create("plugintest::joined", {"left": 2, "right": 1, "plugin_outputs": 2}).deserialized()
    one, two = torch.empty(2), torch.empty(3)
    assert run(plugin, [torch.ones(1), x, y, x], one, two) == 0, host.messages()
    torch.testing.assert_close(one, 2 * x + 1)
    torch.testing.assert_close(two, y + 1)


def test_empty_tensors_are_not_launched(host, cuda):
    plugin, empty = host.create("elementtest::scaled_add"), OF((0, 3))
    cuda.record()
    assert plugin.run([empty, empty], [empty]) == 0, host.messages()
    assert 0 < plugin.seconds([empty, empty], [empty], repeats=10) < 0.01
    assert "cuLaunchKernel" not in cuda.record()
    assert plugin.seconds([empty, OF((0, 4))], [empty]) < 0


def test_a_clone_runs_after_the_first_is_gone(host, cuda):
    plugin = host.create("elementtest::scaled_add", {"alpha": 5.0})
    other = plugin.clone()
    del plugin
    x, found = torch.randn(4), torch.empty(4)
    assert run(other, [x, x], found) == 0
    torch.testing.assert_close(found, 6 * x)
    assert other.metadata == "alpha=5"


def test_what_the_host_reads_is_copied_there(host, cuda):
    x, found = torch.randn(5), torch.empty(5)
    plugin = host.create("plugintest::scaled_by")
    cuda.record()
    assert run(plugin, [x, torch.tensor([3.0])], found) == 0, host.messages()
    torch.testing.assert_close(found, 3 * x)
    assert cuda.record() == ["cuCtxGetDevice", "cuMemcpyDtoHAsync", "cuStreamSynchronize"]


def test_kernels_in_a_cu_file_are_launched(cuda):
    library = Host(cuda.launches)
    x, found = torch.randn(3, 70), torch.empty(3, 70)
    softmax = library.create("launchtest::softmax")
    assert softmax.shapes(dynamic(x.shape)) == [(3, 70)]
    assert run(softmax, [x], found) == 0, library.messages()
    torch.testing.assert_close(found, x.softmax(1))
    counts = torch.empty(8)
    histogram = library.create("launchtest::histogram", {"low": 0.0, "high": 1.0})
    assert run(histogram, [x], counts) == 0, library.messages()
    torch.testing.assert_close(counts, torch.histc(x, 8, 0, 1) / x.numel())
    assert library.create("launchtest::positive").shapes(dynamic(x.shape)) is None
    wrong = library.create("launchtest::wrong", {"what": 2})
    assert run(wrong, [x], found) == 3
    assert "wrong: a block of 2048 threads along x; CUDA allows 1024" in library.messages()
    Host(cuda.plugins)  # for the other tests


def test_scratch_memory_is_allocated_on_the_stream_and_freed(host, cuda):
    plugin = host.create("plugintest::scratched")
    x, found = torch.rand(6) + 1, torch.empty(6)
    cuda.record()
    assert run(plugin, [x], found) == 0, host.messages()
    torch.testing.assert_close(found, 3 * x)
    made = cuda.record()
    assert "allocate 24 stream 0x5eed" in made
    assert "allocate 48 stream 0x5eed" in made
    assert made.count("cuMemFreeAsync") == 2
    assert run(plugin, [-x], found) == 3
    assert "scratched: x begins with a negative number" in host.messages()
    assert cuda.record().count("cuMemFreeAsync") == 2


def test_an_error_of_the_driver_is_logged_and_the_next_run_is_right(host, cuda, monkeypatch):
    plugin = host.create("elementtest::scaled_add")
    x, found = torch.randn(5), torch.empty(5)
    monkeypatch.setenv("FAKE_CUDA_FAILS", "cuLaunchKernel")
    assert run(plugin, [x, x], found) == 3
    words = "scaled_add: CUDA could not launch a kernel: CUDA_ERROR_OUT_OF_MEMORY (out of memory)"
    assert words in host.messages()
    monkeypatch.setenv("FAKE_CUDA_FAILS", "cuMemAllocAsync")
    assert run(host.create("plugintest::scratched"), [x], found) == 3
    assert "scratched: CUDA could not allocate scratch memory" in host.messages()
    monkeypatch.delenv("FAKE_CUDA_FAILS")
    assert run(plugin, [x, x], found) == 0
    torch.testing.assert_close(found, 3 * x)


def test_sizes_and_types_of_outputs_are_held_against_those_of_tensorrt(host, cuda):
    plugin = host.create("plugintest::changing")
    assert plugin.shapes(dynamic((3,), (3,))) == [(3,)]
    assert run(plugin, [torch.ones(3), torch.ones(3)], torch.ones(3)) == 3
    assert "output 0 is float32 (4), but TensorRT expects float32 (3)" in host.messages()
    assert run(host.create("plugintest::doubled"), [torch.ones(3)], torch.ones(3).half()) == 3
    assert "output 0 is float32 (3), but TensorRT expects float16 (3)" in host.messages()


def test_a_run_before_the_sizes_are_known_is_refused(host):
    assert host.create("elementtest::scaled_add").enqueue_at_once() != 0
    assert "the kernel is to run before its sizes are known (onShapeChange)" in host.messages()


def test_a_type_without_a_kernel_for_cuda_is_refused_before_a_launch(host, cuda):
    plugin = host.create("elementtest::scaled_add")
    x = torch.ones(3, dtype=torch.int32)
    assert run(plugin, [x, x], x) == 2
    assert "no kernel supports (a: int32, b: int32)" in host.messages()


# From a model


class Smoothed(torch.nn.Module):
    def __init__(self, ops) -> None:
        super().__init__()
        self.ops = ops

    def forward(self, x):
        value, _ = self.ops.split(self.ops.smooth(x, 2), scale=2.0, flip=True)
        return value


def test_a_plug_in_is_made_of_a_node_of_an_exported_file(library, host, cuda, tmp_path):
    """The file is verified in ONNX Runtime, and its first node is run as TensorRT would run it."""
    ops, x = opbridge.load(library), torch.randn(2, 3, 8)
    program = opbridge.export(Smoothed(ops), (x,), tmp_path / "m.onnx", target="tensorrt:10.15", dynamic_shapes="auto")
    assert program.verification.ok
    assert [each.rule for each in program.findings] == ["needs-plugin", "needs-plugin"]
    nodes = [each for each in onnx.load(tmp_path / "m.onnx").graph.node if each.domain == "elementtest"]
    assert [(each.op_type, len(each.input)) for each in nodes] == [("smooth", 1), ("split", 1)]
    attributes = [{each.name: onnx.helper.get_attribute_value(each) for each in node.attribute} for node in nodes]
    for fields in attributes:
        assert (fields.pop("plugin_namespace"), fields.pop("plugin_version")) == (b"elementtest", b"1")
    plugin = host.create("elementtest::smooth", attributes[0])
    assert plugin.shapes(dynamic(x.shape)) == [(2, 3, 4)]
    found = torch.empty(2, 3, 4)
    assert run(plugin, [x], found) == 0
    padded = torch.nn.functional.pad(x, (1, 1))
    torch.testing.assert_close(found, torch.nn.functional.avg_pool1d(padded, 3, 2))
    assert host.create("elementtest::split", attributes[1]).shapes(dynamic((2, 3, 4))) == [(2, 3, 4), (2, 3, 4)]
