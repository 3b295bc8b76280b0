"""What the tests of repairs share: a model as text, repaired, and the results beside the original's."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import onnx_ir as ir

from opbridge import fixing
from opbridge.fixing.evaluator import compare_with_evaluator
from opbridge.onnx import serialize
from opbridge.rules.lint import chosen_rules
from opbridge.side_by_side import SideBySide, compare
from opbridge.targets import find_target

__all__ = ["Fixed", "fix", "kept", "model", "operators", "ranked", "repaired", "repaired_by_reference"]


def model(text: str, opset: int = 18, ir_version: int = 8, **constants) -> onnx.ModelProto:
    made = onnx.parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : {opset}]> g {text}')
    for name, value in constants.items():
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    for node in made.graph.node:
        node.metadata_props.add(key="opbridge.source", value="net.py:7")
    return made


@dataclasses.dataclass
class Fixed:
    """What `opbridge.fix` gives, without a process for each model."""

    model: ir.Model
    changes: list
    left: list
    content: bytes
    comparison: SideBySide


def fix(made: onnx.ModelProto, target: str = "", select: tuple[str, ...] = ()) -> Fixed:
    changed = ir.from_proto(made)
    targets = [find_target(target)] if target else []
    changes, left = fixing.repaired(changed, targets, chosen_rules(select, ()), asked=select)
    content = serialize.to_bytes(changed)
    found = compare(made.SerializeToString(), content, random=False, isolated=False)
    return Fixed(changed, changes, left, content, found)


def repaired(made: onnx.ModelProto, target: str, rule: str = "missing-operator") -> Fixed:
    """The model without the finding, its results proved, its source lines kept."""
    fixed = fix(made, target)
    assert rule in {each.finding.rule for each in fixed.changes}, fixed.left
    assert rule not in {each.rule for each in fixed.left}, fixed.left
    assert fixed.comparison.runs and fixed.comparison.ok, fixed.comparison.summary()
    lines = {each.metadata_props.get("opbridge.source") for each in fixed.model.graph}
    assert lines == {"net.py:7"}
    return fixed


def repaired_by_reference(made: onnx.ModelProto, target: str, rule: str) -> Fixed:
    """As `repaired`, for what ONNX Runtime does not run: the results are those of ONNX's evaluator."""
    changed = ir.from_proto(made)
    changes, left = fixing.repaired(changed, [find_target(target)])
    assert rule in {each.finding.rule for each in changes} and rule not in {each.rule for each in left}, left
    content = serialize.to_bytes(changed)
    found = compare_with_evaluator(made.SerializeToString(), content)
    assert found is not None and found.runs and found.ok, found
    return Fixed(changed, changes, left, content, found)


def kept(made: onnx.ModelProto, target: str, rule: str = "missing-operator", said: str = "") -> None:
    """The model is left as it is, with what is said of it."""
    fixed = fix(made, target)
    assert rule not in {each.finding.rule for each in fixed.changes}
    remedies = [each.remedy for each in fixed.left if each.rule == rule]
    assert remedies and said in remedies[0], remedies


def operators(fixed: Fixed) -> set[str]:
    return {each.op_type for each in fixed.model.graph.all_nodes()}


def ranked(shapes: dict[str, int | tuple[int, ...]]) -> str:
    return ", ".join(f"float[{', '.join(map(str, each))}] {name}" for name, each in shapes.items())
