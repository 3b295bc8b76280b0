"""Generated graphs of operators that a target lacks: all repaired, with the same results and their source lines."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from opbridge import fixing
from opbridge.onnx import serialize
from opbridge.side_by_side import compare
from opbridge.targets import find_target

_LACKING = """
name = "chip"
versions = ["1.0"]
[[fact]]
kind = "missing"
operators = ["CumSum", "Einsum", "Gelu", "GridSample", "HardSwish", "LayerNormalization", "Mish", "Trilu"]
source = "published: x"
[[fact]]
kind = "below"
operators = ["TopK"]
input = "K"
bound = 3
source = "published: x"
[[fact]]
kind = "attribute"
operators = ["Resize"]
attribute = "mode"
allowed = ["nearest", "linear"]
source = "published: x"
[[fact]]
kind = "attribute"
operators = ["ScatterND"]
attribute = "reduction"
allowed = ["none"]
source = "published: x"
"""


class Graph:
    """A graph that grows by one operator at a time, on tensors of (b, 3, height, width)."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.value, self.height, self.width = "x", *(int(each) for each in self.rng.integers(2, 6, 2))
        self.start = (self.height, self.width)

    def call(self, operator: str, *inputs: str, outputs: int = 1, **attributes: object) -> list[str]:
        names = [f"v{len(self.nodes)}_{at}" for at in range(outputs)]
        node = onnx.helper.make_node(operator, list(inputs), names, name=f"n{len(self.nodes)}", **attributes)
        node.metadata_props.add(key="opbridge.source", value=f"net.py:{len(self.nodes)}")
        self.nodes.append(node)
        return names

    def constant(self, array: object, dtype: object = np.int64) -> str:
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(array, dtype), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def grow(self) -> None:
        getattr(self, str(self.rng.choice([each for each in dir(self) if each.startswith("by_")])))()

    def by_activation(self) -> None:
        operator = str(self.rng.choice(["Gelu", "HardSwish", "Mish"]))
        (self.value,) = self.call(operator, self.value)

    def by_cumsum(self) -> None:
        (self.value,) = self.call(
            "CumSum",
            self.value,
            self.constant(self.rng.integers(1, 4)),
            reverse=int(self.rng.integers(2)),
            exclusive=int(self.rng.integers(2)),
        )

    def by_einsum(self) -> None:
        weight = self.constant(self.rng.standard_normal((3, 3)), np.float32)
        equation = str(self.rng.choice(["bchw,cd->bdhw", "dc,bchw->bdhw", "...chw,cd->...dhw"]))
        given = [weight, self.value] if equation.startswith("dc") else [self.value, weight]
        (self.value,) = self.call("Einsum", *given, equation=equation)

    def by_product_with_itself(self) -> None:
        (scores,) = self.call("Einsum", self.value, self.value, equation="bchw,bcgw->bhg")
        (self.value,) = self.call("Einsum", scores, self.value, equation="bhg,bcgw->bchw")

    def by_sampling(self) -> None:
        self.height, self.width = (int(each) for each in self.rng.integers(1, 5, 2))
        grid = self.constant(self.rng.uniform(-1.3, 1.3, (1, self.height, self.width, 2)), np.float32)
        (shape,) = self.call("Shape", self.value, end=1)
        (whole,) = self.call("Concat", shape, self.constant([self.height, self.width, 2]), axis=0)
        (spread,) = self.call("Expand", grid, whole)
        mode, padding = self.rng.choice(["linear", "cubic"]), self.rng.choice(["zeros", "border", "reflection"])
        align = int(self.rng.integers(2))
        (self.value,) = self.call(
            "GridSample", self.value, spread, mode=str(mode), padding_mode=str(padding), align_corners=align
        )

    def by_norm(self) -> None:
        scale = self.constant(self.rng.standard_normal(self.width), np.float32)
        (self.value,) = self.call("LayerNormalization", self.value, scale, axis=-1, epsilon=0.1)

    def by_resizing(self) -> None:
        self.height, self.width = (int(each) for each in self.rng.integers(2, 7, 2))
        (self.value,) = self.call(
            "Resize",
            self.value,
            "",
            "",
            self.constant([self.height, self.width]),
            mode="cubic",
            axes=[2, 3],
            antialias=int(self.rng.integers(2)),
        )

    def by_scattering(self) -> None:
        places = self.constant(self.rng.integers(0, self.width, (4, 1)))
        (moved,) = self.call("Transpose", self.value, perm=[3, 0, 1, 2])
        (updates,) = self.call("Gather", moved, self.constant(self.rng.integers(0, self.width, 4)))
        (added,) = self.call("ScatterND", moved, places, updates, reduction=str(self.rng.choice(["add", "max"])))
        (self.value,) = self.call("Transpose", added, perm=[1, 2, 3, 0])

    def by_sorting(self) -> None:
        values, places = self.call("TopK", self.value, self.constant([self.width]), outputs=2, axis=3)
        if self.nodes[0].op_type != "TopK" or len(self.nodes) > 1:
            self.value = values  # the places of elements that rounding alone tells apart may differ
            return
        (numbers,) = self.call("Cast", places, to=1)
        (self.value,) = self.call("Add", values, numbers)

    def by_triangle(self) -> None:
        (self.value,) = self.call("Trilu", self.value, upper=int(self.rng.integers(2)))

    def model(self) -> onnx.ModelProto:
        (self.value,) = self.call("Identity", self.value)
        of = onnx.TensorProto.FLOAT
        graph = onnx.helper.make_graph(
            self.nodes,
            "generated",
            [onnx.helper.make_tensor_value_info("x", of, ["b", 3, *self.start])],
            [onnx.helper.make_tensor_value_info(self.value, of, ["b", 3, self.height, self.width])],
            self.constants,
        )
        imports = [onnx.helper.make_opsetid("", 20)]
        return onnx.helper.make_model(graph, opset_imports=imports, ir_version=9)


_SEEDS = (0, 2, 3, 4, 5, 6, 7, 8, 9, 12, 14, 22, 23, 37)
"""With all operators, and all choices of each, that the graphs of the first 40 numbers have."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", _SEEDS)
def test_what_a_target_lacks_in_a_generated_graph(tmp_path, seed):
    generated = Graph(seed)
    for _ in range(5):
        generated.grow()
    made = generated.model()
    path = tmp_path / "chip.toml"
    path.write_text(_LACKING)
    changed = ir.from_proto(made)
    _, left = fixing.repaired(changed, [find_target(str(path))])
    assert not left
    found = compare(made.SerializeToString(), serialize.to_bytes(changed), random=False, isolated=False)
    assert found.runs and found.ok, found.summary()
    known = {f"net.py:{at}" for at in range(len(made.graph.node))}
    assert {each.metadata_props["opbridge.source"] for each in changed.graph} <= known
    assert [each.name for each in changed.graph.outputs] == [made.graph.output[0].name]
