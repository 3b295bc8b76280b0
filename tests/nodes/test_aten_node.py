"""An aten node holds a whole call: written, read back and made again, it gives what the operator gives."""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch

import opbridge
from opbridge.nodes import aten_node
from opbridge.nodes.aten_node import Input, decode, encode

aten = torch.ops.aten


def tensor(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(math.prod(shape) + len(shape))
    if dtype == torch.bool or not (dtype.is_floating_point or dtype.is_complex):
        return torch.randint(0, 2 if dtype == torch.bool else 5, shape, generator=generator).to(dtype)
    return torch.randn(shape, dtype=dtype, generator=generator)


def as_inputs(value):
    """Tensors as inputs of a node, complex ones as pairs."""
    if isinstance(value, torch.Tensor):
        if value.is_complex():
            return Input("complex_tensor", torch.view_as_real(value.resolve_conj()).clone())
        return Input("tensor", value)
    return [as_inputs(item) for item in value] if isinstance(value, (list, tuple)) else value


def as_node(encoded, outputs=1):
    """The node as it stands in a file."""
    inputs = [ir.Value(name=f"input_{index}") for index in range(len(encoded.inputs))]
    node = ir.Node(
        aten_node.DOMAIN, aten_node.OP_TYPE, inputs, encoded.attributes.values(), num_outputs=outputs, name="node"
    )
    graph = ir.Graph(inputs, node.outputs, nodes=[node], opset_imports={"": 18, aten_node.DOMAIN: 1}, name="graph")
    for index, value in enumerate(node.outputs):
        value.name = f"output_{index}"
    proto = ir.to_proto(ir.Model(graph, ir_version=8))
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = 8, {"": 18, aten_node.DOMAIN: 1}
    onnx.checker.check_node(proto.graph.node[0], context)
    return ir.from_proto(proto).graph[0]


def pairs(value):
    return torch.view_as_real(value.resolve_conj()) if value.is_complex() else value


# One call for each kind of argument and of result, and some of the operators that people miss most.
CALLS = {
    "triu": (aten.triu.default, (tensor(3, 4), 1), {}),
    "mul": (aten.mul.Tensor, (tensor(3, 4), tensor(4)), {}),
    "add with a scalar int": (aten.add.Tensor, (tensor(3), tensor(3)), {"alpha": 2}),
    "add with a scalar float": (aten.add.Scalar, (tensor(3, dtype=torch.int64), 0.1), {}),
    "add with a scalar bool": (aten.add.Scalar, (tensor(3, dtype=torch.int64), True), {}),
    "add with a scalar complex": (aten.add.Scalar, (tensor(3), 1.5 - 2.25j), {}),
    "a float that float32 does not hold": (aten.add.Scalar, (tensor(3, dtype=torch.float64), 0.1), {}),
    "an infinite float": (aten.clamp.default, (tensor(3), -math.inf, 0.5), {}),
    "nan": (aten.nan_to_num.default, (torch.tensor([math.nan, 1.0]), math.nan), {}),
    "clamp without a minimum": (aten.clamp.default, (tensor(3), None, 1), {}),
    "leaky_relu": (aten.leaky_relu.default, (tensor(3), 0.3), {}),
    "int for a float": (aten.elu.default, (tensor(3), 2, 1, 1), {}),
    "special_airy_ai": (aten.special_airy_ai.default, (tensor(5),), {}),
    "sum over a list": (aten.sum.dim_IntList, (tensor(2, 3, 4), [0, -1], True), {}),
    "sum with a dtype": (aten.sum.default, (tensor(3, dtype=torch.int32),), {"dtype": torch.float64}),
    "sum over None": (aten.sum.dim_IntList, (tensor(2, 3), None), {}),
    "sum over an empty list": (aten.sum.dim_IntList, (tensor(2, 3), []), {}),
    "sum over one number": (aten.sum.dim_IntList, (tensor(2, 3), 1), {}),
    "reshape": (aten.reshape.default, (tensor(2, 6), [3, -1]), {}),
    "permute": (aten.permute.default, (tensor(2, 3, 4), [2, 0, 1]), {}),
    "conv2d": (aten.conv2d.default, (tensor(1, 2, 5, 5), tensor(3, 2, 3, 3), tensor(3), [2, 2], [1, 1]), {}),
    "conv2d without bias": (aten.conv2d.default, (tensor(1, 2, 5, 5), tensor(3, 2, 3, 3)), {}),
    "convolution with bools": (
        aten.convolution.default,
        (tensor(1, 2, 5), tensor(2, 3, 3), None, [1], [0], [1], True, [0], 1),
        {},
    ),
    "index with holes": (
        aten.index.Tensor,
        (tensor(2, 3, 4), [None, torch.tensor([0, 2]), torch.tensor([1, 1])]),
        {},
    ),
    "index by a mask": (aten.index.Tensor, (tensor(2, 3), [tensor(2, 3, dtype=torch.bool)]), {}),
    "index_put": (aten.index_put.default, (tensor(4), [torch.tensor([1, 3])], tensor(2), True), {}),
    "cat": (aten.cat.default, ([tensor(2, 3), tensor(1, 3), tensor(4, 3)],), {}),
    "stack": (aten.stack.default, ([tensor(2), tensor(2)], -1), {}),
    "einsum": (aten.einsum.default, ("ij,jk->ik", [tensor(2, 3), tensor(3, 4)]), {}),
    "scatter_reduce": (
        aten.scatter_reduce.two,
        (tensor(3, 3), 1, tensor(3, 2, dtype=torch.int64) % 3, tensor(3, 2), "amax"),
        {"include_self": False},
    ),
    "gelu": (aten.gelu.default, (tensor(3),), {"approximate": "tanh"}),
    "div with a mode": (aten.div.Tensor_mode, (tensor(3), tensor(3)), {"rounding_mode": "floor"}),
    "div with no mode": (aten.div.Tensor_mode, (tensor(3), tensor(3)), {"rounding_mode": None}),
    "full": (aten.full.default, ([2, 3], 7.5), {"dtype": torch.float16, "device": torch.device("cpu")}),
    "arange with a layout": (aten.arange.start_step, (1, 9, 2), {"layout": torch.strided, "pin_memory": False}),
    "full_like": (aten.full_like.default, (tensor(2), 3), {"memory_format": torch.preserve_format}),
    "to": (aten._to_copy.default, (tensor(3),), {"dtype": torch.bfloat16, "non_blocking": True}),
    "to.dtype": (aten.to.dtype, (tensor(3), torch.int8), {"copy": True}),
    "clone": (aten.clone.default, (tensor(1, 2, 3, 4),), {"memory_format": torch.channels_last}),
    "contiguous": (aten.contiguous.default, (tensor(3, 4).t(),), {}),
    "topk": (aten.topk.default, (tensor(3, 5), 2, -1, False), {}),
    "max with indices": (aten.max.dim, (tensor(3, 5), 1), {}),
    "split": (aten.split_with_sizes.default, (tensor(5, 2), [1, 4]), {}),
    "unbind": (aten.unbind.int, (tensor(3, 2),), {}),
    "meshgrid": (aten.meshgrid.indexing, ([tensor(2), tensor(3)],), {"indexing": "xy"}),
    "native_layer_norm": (aten.native_layer_norm.default, (tensor(2, 4), [4], tensor(4), None, 1e-5), {}),
    "batch_norm without statistics": (
        aten._native_batch_norm_legit.no_stats,
        (tensor(4, 2, 3), None, None, True, 0.1, 1e-5),
        {},
    ),
    "unique": (aten._unique2.default, (torch.tensor([3, 1, 3]), True, True, True), {}),
    "nonzero": (aten.nonzero.default, (tensor(4, dtype=torch.int64),), {}),
    "svd": (aten._linalg_svd.default, (tensor(3, 2), False, True), {"driver": None}),
    "cummax": (aten.cummax.default, (tensor(6), 0), {}),
    "bucketize": (aten.bucketize.Tensor, (tensor(4), torch.tensor([-1.0, 0.0, 1.0])), {"right": True}),
    "histc": (aten.histc.default, (tensor(9), 4, -2, 2), {}),
    "upsample_bicubic2d": (aten.upsample_bicubic2d.vec, (tensor(1, 1, 3, 3), None, True, [2.0, 1.5]), {}),
    "upsample_nearest2d": (aten.upsample_nearest2d.vec, (tensor(1, 1, 3, 3), [6, 5], None), {}),
    "grid_sampler": (aten.grid_sampler_2d.default, (tensor(1, 1, 3, 3), tensor(1, 2, 2, 2), 0, 1, False), {}),
    "where": (aten.where.self, (tensor(3, dtype=torch.bool), tensor(3), tensor(3) + 1), {}),
    "foreach with scalars": (aten._foreach_mul.ScalarList, ([tensor(2), tensor(3)], [2, 0.5]), {}),
    "foreach with ints": (aten._foreach_add.ScalarList, ([tensor(2), tensor(3)], [2, 3]), {}),
    "constant_pad_nd": (aten.constant_pad_nd.default, (tensor(2, 2), [1, 0, 0, 2], -1), {}),
    "roll": (aten.roll.default, (tensor(3, 4), [1, -1], [0, 1]), {}),
    "scaled_dot_product_attention": (
        aten.scaled_dot_product_attention.default,
        (tensor(1, 2, 3, 4), tensor(1, 2, 5, 4), tensor(1, 2, 5, 4), None, 0.0, False),
        {"scale": 0.3},
    ),
    "lstm": (
        aten.lstm.input,
        (
            tensor(3, 2, 4),
            [tensor(1, 2, 3), tensor(1, 2, 3)],
            [tensor(12, 4), tensor(12, 3), tensor(12), tensor(12)],
            *(True, 1, 0.0, False, False, False),
        ),
        {},
    ),
    "generator None": (aten.bernoulli.p, (tensor(3), 0.0), {"generator": None}),
    "complex in and out": (aten.mul.Tensor, (tensor(3, dtype=torch.complex64), tensor(3, dtype=torch.complex64)), {}),
    "complex in, real out": (aten.abs.default, (tensor(3, dtype=torch.complex128),), {}),
    "real in, complex out": (aten._fft_r2c.default, (tensor(4), [0], 0, True), {}),
    "conjugated": (aten.add.Tensor, (tensor(3, dtype=torch.complex64).conj(), tensor(3)), {}),
    "view_as_real": (aten.view_as_real.default, (tensor(3, dtype=torch.complex64),), {}),
    "in place": (aten.relu_.default, (tensor(4),), {}),
    "empty tensor": (aten.cumsum.default, (tensor(0, 3), 0), {}),
    "no dimensions": (aten.exp.default, (tensor(),), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_round_trip(name):
    target, args, kwargs = CALLS[name]
    expected = target(*[value.clone() if isinstance(value, torch.Tensor) else value for value in args], **kwargs)
    encoded = encode(target, as_inputs(args), {key: as_inputs(value) for key, value in kwargs.items()}, expected)
    leaves = aten_node.leaves(expected)
    call = decode(as_node(encoded, len(leaves)))
    assert call.operator == target.name()
    assert call.schema == str(target._schema)
    assert call.torch_version == torch.__version__
    assert list(call.arguments) == [each.name for each in target._schema.arguments]
    before = [value.clone() for value in encoded.inputs]
    got = call.call(encoded.inputs)
    torch.testing.assert_close(got, [pairs(leaf) for leaf in leaves], rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(encoded.inputs, before, equal_nan=True)  # a node leaves its inputs as they are
    types = encoded.attributes["output_types"].as_ints()
    assert [ir.DataType(each) for each in types] == [
        ir.DataType.BFLOAT16 if leaf.dtype == torch.bfloat16 else ir.DataType.from_numpy(leaf.numpy().dtype)
        for leaf in got
    ]


def test_what_is_written():
    encoded = encode(aten.triu.default, (Input("tensor", "x"), 1), {}, torch.ones(2, 2))
    assert encoded.inputs == ["x"]
    text = {name: attribute.value for name, attribute in encoded.attributes.items()}
    assert text == {
        "operator": "aten::triu",
        "overload_name": "",
        "schema": "aten::triu(Tensor self, SymInt diagonal=0) -> Tensor",
        "torch_version": torch.__version__,
        "arguments": "self:Tensor=tensor diagonal:SymInt=int",
        "results": "Tensor=tensor",
        "output_types": (1,),
        "diagonal": 1,
    }


def test_every_argument_is_written_defaults_and_lists_with_holes_too():
    indices = [None, Input("tensor", "i")]
    encoded = encode(aten.index_put.default, (Input("tensor", "x"), indices, Input("tensor", "v")), {}, torch.ones(2))
    assert encoded.inputs == ["x", "i", "v"]
    written = encoded.attributes["arguments"].as_string()
    assert written == "self:Tensor=tensor indices:Tensor?[]=[none,tensor] values:Tensor=tensor accumulate:bool=bool"
    assert encoded.attributes["accumulate"].as_int() == 0


def test_one_number_stands_for_a_list_of_known_length():
    x, weight = Input("tensor", "x"), Input("tensor", "w")
    encoded = encode(aten.conv2d.default, (x, weight, None, 2, 1), {}, torch.ones(1))
    assert encoded.attributes["stride"].as_ints() == (2, 2)
    assert encoded.attributes["padding"].as_ints() == (1, 1)


def test_numbers_known_only_at_run_time_are_inputs():
    encoded = encode(aten.reshape.default, (Input("tensor", "x"), [2, Input("input_int", "n")]), {}, torch.ones(2, 3))
    assert encoded.inputs == ["x", "n"]
    call = decode(as_node(encoded))
    assert call.arguments["shape"] == [2, Input("input_int", 1)]
    (got,) = call.call([torch.arange(6.0), torch.tensor(3)])
    assert got.shape == (2, 3)
    encoded = encode(aten.add.Scalar, (Input("tensor", "x"), Input("input_float", "y")), {}, torch.ones(2))
    (got,) = decode(as_node(encoded)).call([torch.ones(2), torch.tensor(0.5)])
    assert got.tolist() == [1.5, 1.5]


def test_results_that_torch_leaves_out_have_no_output():
    result = (torch.ones(2, 3), None, [torch.ones(1), torch.ones(2, dtype=torch.complex64)])
    library = torch.library.Library("atennodetest", "DEF")
    library.define("several(Tensor x) -> (Tensor, Tensor, Tensor[])")
    encoded = encode(torch.ops.atennodetest.several.default, (Input("tensor", "x"),), {}, result)
    assert encoded.attributes["results"].as_string() == "Tensor=tensor Tensor=none Tensor[]=[tensor,complex_tensor]"
    assert encoded.attributes["output_types"].as_ints() == (1, 1, 1)
    assert decode(as_node(encoded, 3)).results == ("tensor", "none", ("tensor", "complex_tensor"))


def test_an_argument_that_is_called_like_an_attribute_of_every_node():
    library = torch.library.Library("atennodetest2", "DEF")
    library.define("named(Tensor operator, str schema, int[] results) -> Tensor")
    target = torch.ops.atennodetest2.named.default
    encoded = encode(target, (Input("tensor", "x"), "text", [1, 2]), {}, torch.ones(1))
    assert encoded.attributes["schema_"].as_string() == "text"
    call = decode(as_node(encoded))
    assert call.arguments == {"operator": Input("tensor", 0), "schema": "text", "results": [1, 2]}


@pytest.mark.parametrize(
    ("target", "args", "kwargs", "result", "said"),
    [
        (aten.bernoulli.default, (1,), {}, torch.ones(1), "'self' of type Tensor is a int"),
        (
            aten.bernoulli.default,
            (Input("tensor", 0),),
            {"generator": torch.Generator()},
            torch.ones(1),
            "'generator' of type Generator is a Generator",
        ),
        (aten.triu.default, (Input("tensor", 0), 2**63), {}, torch.ones(1), "not a 64-bit integer"),
        (aten.triu.default, (Input("tensor", 0), 1.5), {}, torch.ones(1), "'diagonal' of type SymInt is a float"),
        (aten.triu.default, (Input("tensor", 0), 1, 2), {}, torch.ones(1), "has no argument 2"),
        (aten.triu.default, (), {}, torch.ones(1), "without its argument 'self'"),
        (aten.cat.default, (Input("tensor", 0),), {}, torch.ones(1), "instead of a list"),
        (aten._to_sparse.default, (Input("tensor", 0),), {}, torch.ones(2).to_sparse(), "sparse_coo tensor"),
        (aten.add.Scalar, (Input("tensor", 0), Input("tensor", 1)), {}, torch.ones(1), "of kind tensor"),
    ],
)
def test_what_does_not_fit_is_told(target, args, kwargs, result, said):
    with pytest.raises(opbridge.TranslationError, match=said):
        encode(target, args, kwargs, result)


def damaged(**changes):
    """A node of triu with other attributes; None takes one away."""
    encoded = encode(aten.triu.default, (Input("tensor", "x"), 1), {}, torch.ones(2, 2))
    attributes = dict(encoded.attributes)
    for name, value in changes.items():
        attributes.pop(name)
        if value is not None:
            attributes[name] = value if isinstance(value, ir.Attr) else ir.AttrString(name, value)
    return as_node(aten_node.Encoded(encoded.inputs, attributes))


@pytest.mark.parametrize(
    "changes",
    [
        {"diagonal": None},
        {"diagonal": "one"},
        {"operator": None},
        {"results": None},
        {"arguments": "self:Tensor=tensor diagonal:SymInt=mystery"},
        {"arguments": "self:Tensor=tensor diagonal:SymInt=input_int"},
        {"arguments": "diagonal:SymInt=int"},
        {"arguments": "self:Tensor=[tensor diagonal:SymInt=int"},
        {"diagonal": ir.AttrInt64s("diagonal", [1, 2])},
    ],
    ids=str,
)
def test_a_malformed_node_is_an_error(changes):
    with pytest.raises(opbridge.ModelFileError, match="malformed"):
        decode(damaged(**changes))


def test_another_torch_is_found_before_the_call():
    written = "aten::triu(Tensor self, int diagonal=0) -> Tensor"
    call = decode(damaged(schema=written, torch_version="1.2.0"))
    with pytest.raises(opbridge.ModelFileError, match=r"exported with torch 1\.2\.0 for aten::triu\(Tensor self, int"):
        call.target()
    call = decode(damaged(operator="aten::triu_of_tomorrow"))
    with pytest.raises(
        opbridge.ModelFileError, match=f"which does not exist in PyTorch {torch.__version__.partition('+')[0]}"
    ):
        call.call([torch.ones(2, 2)])


def test_other_nodes_are_refused():
    node = ir.Node("", "Relu", [ir.Value(name="x")])
    with pytest.raises(opbridge.UsageError, match="is not an aten node"):
        decode(node)


# What torch's TorchScript exporter writes: constants are inputs, and the overload is often missing.
OLDER = {
    "triu": ('y = org.pytorch.aten.ATen <operator="triu", overload_name=""> (x, one)', lambda x: x.triu(1)),
    "mul": ('y = org.pytorch.aten.ATen <operator="mul", overload_name="Tensor"> (x, one)', lambda x: x * 1),
    "add": ('y = org.pytorch.aten.ATen <operator="add", overload_name=""> (x, x, two)', lambda x: x + 2 * x),
    "default": ('y = org.pytorch.aten.ATen <operator="softplus"> (x)', torch.nn.functional.softplus),
    "attribute": ('y = org.pytorch.aten.ATen <operator="tril", diagonal=-1> (x)', lambda x: x.tril(-1)),
    "list": ('y = org.pytorch.aten.ATen <operator="permute"> (x, dims)', lambda x: x.permute(1, 0)),
    "setting": ('y = org.pytorch.aten.ATen <operator="cumsum"> (x, one, double)', lambda x: x.double().cumsum(1)),
    "bool": (
        'y = org.pytorch.aten.ATen <operator="sort", overload_name=""> (x, one, one)',
        lambda x: x.sort(1, True)[0],
    ),
    "qualified": ('y = org.pytorch.aten.ATen <operator="aten::relu"> (x)', torch.relu),
}


def older(text):
    constants = (
        "one = Constant <value_int = 1> ()  two = Constant <value_int = 2> ()  double = Constant <value_int = 7> ()"
        "  dims = Constant <value_ints = [1, 0]> ()"
    )
    header = '<ir_version: 7, opset_import: ["": 13, "org.pytorch.aten": 1]>'
    model = onnx.parser.parse_model(f"{header} g (float[3, 3] x, int64 n) => (float[3, 3] y) {{ {constants} {text} }}")
    return next(node for node in ir.from_proto(model).graph if node.domain)


@pytest.mark.parametrize("name", OLDER)
def test_nodes_of_older_exporters_are_read(name):
    text, expected = OLDER[name]
    x = tensor(3, 3)
    node = older(text)
    given = [x if value.name == "x" else torch.tensor(1) for value in node.inputs]
    torch.testing.assert_close(decode(node).call(given)[0], expected(x))


def test_numbers_of_older_nodes_may_be_known_only_at_run_time():
    call = decode(older('y = org.pytorch.aten.ATen <operator="triu"> (x, n)'))
    assert call.arguments == {"self": Input("tensor", 0), "diagonal": Input("input_int", 1)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('y = org.pytorch.aten.ATen <operator="triu_of_tomorrow"> (x)', "has no operator aten::triu_of_tomorrow"),
        ('y = org.pytorch.aten.ATen <operator="triu"> (x, n, n)', "more inputs than"),
        ('y = org.pytorch.aten.ATen <operator="permute"> (x)', "no value for the argument 'dims'"),
        ('y = org.pytorch.aten.ATen <operator="permute"> (x, n)', "is computed at run time"),
        ('y = org.pytorch.aten.ATen <operator="cat"> (x, x)', "cannot be distinguished from its other inputs"),
    ],
)
def test_older_nodes_that_cannot_be_read_say_why(text, said):
    with pytest.raises(opbridge.ModelFileError, match=said):
        decode(older(text))


def test_numbers_survive_exactly():
    for value in (0.1, 1e-300, -0.0, math.pi, 5e-324):
        encoded = encode(aten.add.Scalar, (Input("tensor", "x"), value), {}, torch.ones(1))
        read = decode(as_node(encoded)).arguments["other"]
        assert np.float64(read).tobytes() == np.float64(value).tobytes()
    for value in (-(2**63), 2**63 - 1):
        encoded = encode(aten.add.Scalar, (Input("tensor", "x"), value), {}, torch.ones(1))
        assert decode(as_node(encoded)).arguments["other"] == value
