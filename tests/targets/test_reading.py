"""Targets are read from their files, in each version, and a file that is wrong is refused with what is wrong in it."""

from __future__ import annotations

import inspect
import json

import onnx
import onnx_ir as ir
import pytest

import opbridge
from opbridge.errors import UsageError
from opbridge.rules import catalogue
from opbridge.rules.of_facts import type_name
from opbridge.runtimes.onnxruntime import kernel_table
from opbridge.targets import facts, find_target, names
from opbridge.targets.facts import KINDS

# Operators that a published table lists under a domain that has none of the name.
FOREIGN = {"ATen", "Affine", "ConstantFill", "Crop", "ImageScaler", "IsFinite"}
FOREIGN |= {"com.microsoft::SimplifiedLayerNormalization"}  # ONNX Runtime has it in ONNX's own domain
# Domains whose operators the targets define themselves.
THEIRS = {"org.openvinotoolkit", "org.pytorch.aten", "mmdeploy"}

EVERY = [f"{name}:{version}" for name in names() for version in find_target(name).versions]

ONE = """
title = "A chip"
versions = ["1.0", "1.5", "2.0"]

[sources]
sheet = "published: the chip's sheet"

[[opsets]]
oldest = 9
newest = 13
ir_version = 8
until = "1.5"
source = "sheet"

[[fact]]
kind = "missing"
source = "sheet"
operators = ["Loop"]

[[fact]]
kind = "missing"
source = "sheet"
since = "1.5"
until = "1.5"
operators = ["If"]

[[fact]]
kind = "below"
source = "sheet"
operators = ["TopK"]
input = "K"
bound = 64
"""


def _written(folder, text):
    path = folder / "chip.toml"
    path.write_text(text)
    return str(path)


def _forms():
    """By operator, the names of inputs, outputs and attributes that it has in any of ONNX's opsets."""
    found = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        name = schema.name if schema.domain == "" else f"{schema.domain}::{schema.name}"
        inputs, outputs, attributes = found.setdefault(name, (set(), set(), set()))
        inputs.update(each.name for each in schema.inputs)
        outputs.update(each.name for each in schema.outputs)
        attributes.update(schema.attributes)
    return found


FORMS = _forms()


def _named(fact):
    """The inputs and outputs that a fact names."""
    inputs = [*getattr(fact, "inputs", ()), getattr(fact, "input", "")]
    return [each for each in inputs if each], list(getattr(fact, "outputs", ()))


@pytest.mark.parametrize("name", EVERY)
def test_each_version_of_each_target_is_read(name):
    target = find_target(name)
    assert str(target) == name
    assert target.title
    assert target.remark == ""
    assert target.facts or target.opsets is not None
    assert all(each.source.startswith(("published: ", "measured: ", "asked: ")) for each in target.facts)
    assert len(json.loads(json.dumps(target.document()))["facts"]) == len(target.facts)


@pytest.mark.parametrize("name", EVERY)
def test_facts_name_operators_and_arguments_that_exist(name):
    for fact in find_target(name).facts:
        for operator in fact.operators:
            domain, _, op_type = operator.rpartition("::")
            if domain in THEIRS or operator in FOREIGN:
                continue
            inputs, outputs = _named(fact)
            if operator in FORMS:
                known_inputs, known_outputs, attributes = FORMS[operator]
                wanted = [each.partition("=")[0] for each in fact.when] + [getattr(fact, "attribute", "")]
                assert set(filter(None, wanted)) <= attributes, (operator, wanted)
            else:
                assert op_type in kernel_table.arguments(domain), operator
                known_inputs, known_outputs = kernel_table.arguments(domain)[op_type]
            assert set(outputs) <= set(known_outputs), (operator, outputs)
            assert set(inputs) <= set(known_inputs), (operator, inputs)


@pytest.mark.parametrize("name", EVERY)
def test_facts_name_types_and_rules_that_exist(name):
    types = {type_name(each) for each in ir.DataType}
    rules = {each.identifier for each in catalogue()}
    for fact in find_target(name).facts:
        if isinstance(fact, facts.Types):
            assert set(fact.allowed) <= types
        elif isinstance(fact, facts.Unstored):
            assert set(fact.types) <= types
        elif isinstance(fact, facts.Pattern):
            assert fact.rule in rules


@pytest.mark.parametrize("name", EVERY)
def test_what_is_listed_as_there_is_listed_once(name):
    listed = [each for only in find_target(name).of_kind(facts.Only) for each in only.operators]
    assert len(listed) == len(set(listed))


def test_the_newest_version_is_taken_where_none_is_asked_for(tmp_path):
    path = _written(tmp_path, ONE)
    target = find_target(path)
    assert (target.name, target.title, target.version, target.asked_for) == ("chip", "A chip", "2.0", "")
    assert [type(each) for each in target.facts] == [facts.Missing, facts.Below]
    assert target.facts[0].source == "published: the chip's sheet"
    assert target.opsets is None
    assert find_target(f"{path}:").version == "2.0"


def test_facts_hold_for_their_versions_only(tmp_path):
    path = _written(tmp_path, ONE)
    assert [each.operators for each in find_target(f"{path}:1.0").facts] == [("Loop",), ("TopK",)]
    middle = find_target(f"{path}:1.5")
    assert [each.operators for each in middle.facts] == [("Loop",), ("If",), ("TopK",)]
    assert (middle.opsets.oldest, middle.opsets.newest, middle.opsets.ir_version) == (9, 13, 8)
    assert middle.opsets.source == "published: the chip's sheet"


@pytest.mark.parametrize(("asked", "taken"), [("1.2", "1.0"), ("1.5.1", "1.5"), ("1.10", "1.5"), ("9", "2.0")])
def test_a_version_between_two_is_taken_as_the_older_one(tmp_path, asked, taken):
    target = find_target(f"{_written(tmp_path, ONE)}:{asked}")
    assert (target.version, target.asked_for) == (taken, asked)
    assert f"{asked} is treated as {taken}" in target.remark
    assert target.document()["remark"] == target.remark


def test_an_older_version_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"chip 0\.9 is older than all versions .*: 1\.0, 1\.5, 2\.0"):
        find_target(f"{_written(tmp_path, ONE)}:0.9")


def test_a_version_without_numbers_is_refused():
    with pytest.raises(UsageError, match=r"'new' is not a valid version; expected numbers"):
        find_target("tensorrt:new")


def test_a_name_that_is_no_target_is_refused_with_the_nearest_one():
    with pytest.raises(UsageError, match=r"Unknown target 'tensort'. The targets are: .*Did you mean 'tensorrt'\?"):
        find_target("tensort")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"The file .*none\.toml does not exist"):
        find_target(str(tmp_path / "none.toml"))


def test_a_folder_is_refused(tmp_path):
    (tmp_path / "chip.toml").mkdir()
    with pytest.raises(UsageError, match="cannot be read"):
        find_target(str(tmp_path / "chip.toml"))


def _fact(*lines, source='source = "asked: x"'):
    return "\n".join(['versions = ["1.0"]', "[[fact]]", source, *lines])


WRONG = {
    "no TOML": ("versions = [", "cannot be read"),
    "no versions": ('name = "chip"', "versions must be a list of strings"),
    "empty versions": ("versions = []", "versions must be a list of strings"),
    "versions of numbers": ("versions = [1.0]", "versions must be a list of strings"),
    "versions that are no numbers": ('versions = ["one"]', "'one' is not a valid version"),
    "versions out of order": ('versions = ["2.0", "1.0"]', r"are not sorted\. List each once, oldest first"),
    "a version twice": ('versions = ["1.0", "1.0"]', "are not sorted"),
    "sources that are no table": ('versions = ["1.0"]\nsources = 3', "sources must be a table"),
    "one fact for a list": (
        'versions = ["1.0"]\n[fact]\nkind = "missing"',
        r"fact must be a list of tables\. Write \[\[fact",
    ),
    "facts that are texts": ('versions = ["1.0"]\nfact = ["missing"]', "fact must be a list of tables"),
    "opsets that are no tables": ('versions = ["1.0"]\nopsets = 3', "opsets must be a list of tables"),
    "opsets without numbers": (
        'versions = ["1.0"]\n[[opsets]]\noldest = "9"\nsource = "asked: x"',
        "must contain the numbers oldest and newest",
    ),
    "no kind": (_fact('operators = ["If"]'), "kind = None is invalid; expected one of missing, only"),
    "another kind": (_fact('kind = "banned"'), "kind = 'banned' is invalid; expected one of missing, only"),
    "a field that the kind has not": (
        _fact('kind = "missing"', 'operators = ["If"]', "bound = 3"),
        "unknown key bound in a fact of kind missing; expected",
    ),
    "another severity": (
        _fact('kind = "missing"', 'operators = ["If"]', 'severity = "bad"'),
        "severity = 'bad' is invalid; expected one of error, warning",
    ),
    "a text for a list": (
        _fact('kind = "missing"', 'operators = "If"'),
        r"must be a list\. Write operators = \['If'\]",
    ),
    "a list of lists": (_fact('kind = "missing"', 'operators = [["If"]]'), "must be a list"),
    "a text for a number": (
        _fact('kind = "below"', 'operators = ["TopK"]', 'input = "K"', 'bound = "many"'),
        "bound = 'many' must be of type float",
    ),
    "a number for a text": (
        _fact('kind = "missing"', 'operators = ["If"]', "note = 3"),
        "note = 3 must be of type str",
    ),
    "a number for a version": (
        _fact('kind = "missing"', 'operators = ["If"]', "since = 1.0"),
        "since = 1.0 must be of type str",
    ),
    "a version that is not listed": (
        _fact('kind = "missing"', 'operators = ["If"]', 'since = "3.0"'),
        r"3\.0 is not one of the versions 1\.0",
    ),
    "no operators": (_fact('kind = "missing"'), "the key operators is missing"),
    "no inputs": (_fact('kind = "constant"', 'operators = ["Pad"]'), "the key inputs is missing"),
    "no rule": (_fact('kind = "pattern"'), "the key rule is missing"),
    "a condition without a value": (
        _fact('kind = "missing"', 'operators = ["Resize"]', 'when = ["mode"]'),
        r"when = 'mode' contains no value\. Write when = ",
    ),
    "no source": (
        _fact('kind = "missing"', 'operators = ["If"]', source=""),
        "the source '' must start with published",
    ),
    "a source of another kind": (
        _fact('kind = "missing"', 'operators = ["If"]', source='source = "heard"'),
        "the source 'heard' must start with published:, measured: or asked:",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_file_that_is_wrong_is_refused(tmp_path, case):
    text, said = WRONG[case]
    with pytest.raises(UsageError, match=said):
        find_target(_written(tmp_path, text))


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "chip.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read"):
        find_target(str(path))


def test_what_a_file_says_of_all_its_facts_holds_where_they_say_nothing(tmp_path):
    text = 'severity = "warning"\nnote = "On the CPU."\n' + _fact(
        'kind = "missing"', 'operators = ["If"]', "[[fact]]", 'kind = "missing"', 'source = "asked: x"',
        'operators = ["Loop"]', 'severity = "error"', 'note = ""',
    )  # fmt: skip
    mild, strict = find_target(_written(tmp_path, text)).facts
    assert (mild.severity, mild.note) == ("warning", "On the CPU.")
    assert (strict.severity, strict.note) == ("error", "")


def test_each_kind_of_fact_says_what_it_needs():
    for kind in KINDS.values():
        assert set(kind.needs) <= set(inspect.signature(kind).parameters)


@pytest.mark.slow
def test_every_operator_stands_against_every_target():
    from opbridge.targets import table

    lines = table.markdown().splitlines()
    header = next(line for line in lines if line.startswith("| operator |"))
    names = [cell.strip() for cell in header.strip("|").split("|")[1:]]
    rows = {
        line.split("|")[1].strip(): [cell.strip() for cell in line.strip("|").split("|")[1:]]
        for line in lines
        if line.startswith("|")
    }
    assert {"web 1.30", "openvino 2026.4"} <= set(names)
    assert rows["Relu"][names.index("openvino 2026.4")] == "yes m"
    assert rows["DeformConv"][names.index("openvino 2026.4")] == "no m"
    assert rows["Resize"][names.index("web 1.30")].startswith("partly")
    assert rows["Add"][next(at for at, name in enumerate(names) if name.startswith("onnxruntime "))] == "yes a"


def test_a_range_of_opsets_that_a_relative_contradicts_is_a_warning():
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 26]> g (float[2] x) => (float[2] y) { y = Relu (x) }"""
    ).SerializeToString()

    def severities(target):
        return [each.severity for each in opbridge.lint(model, target).found if each.rule == "opset-range"]

    assert severities("tensorrt:10.15") == severities("tensorrt:11.2") == ["warning"]
    assert severities("tensorrt:10.1") == ["error"] and severities("tensorrt-rtx") == []
    assert find_target("tensorrt:10.15").document()["opsets"]["severity"] == "warning"


def test_an_invalid_severity_of_opsets_is_an_error(tmp_path):
    text = """name = "chip"
versions = ["1.0"]
[[opsets]]
oldest = 9
newest = 17
severity = "maybe"
source = "published: a page"
"""
    with pytest.raises(UsageError, match="severity = 'maybe' is invalid"):
        find_target(_written(tmp_path, text))


def test_what_a_release_refuses_its_older_ones_refuse_too_where_that_was_tried():
    def refuses(version, text):
        model = onnx.parser.parse_model(text).SerializeToString()
        return not opbridge.lint(model, f"tensorrt-rtx:{version}").ok

    head = '<ir_version: 8, opset_import: ["" : 17]> g'
    non_zero = head + " (float[2] x) => (int64[1, n] y) { y = NonZero (x) }"
    add = head + " (int8[2] x) => (int8[2] y) { y = Add (x, x) }"
    assert [refuses(each, non_zero) for each in ("1.4", "1.6", "1.7")] == [True] * 3
    assert [refuses(each, add) for each in ("1.4", "1.5", "1.7")] == [True, False, False]


def test_facts_of_tensorrt_rtx_are_its_own():
    """TensorRT has plug-ins for operators that TensorRT-RTX lacks."""
    rtx = {name for each in find_target("tensorrt-rtx").of_kind(facts.Missing) for name in each.operators}
    plain = {name for each in find_target("tensorrt:11.2").of_kind(facts.Missing) for name in each.operators}
    assert {"NonZero", "RoiAlign", "DeformConv"} <= rtx and not {"NonZero", "RoiAlign"} & plain
    assert "LayerNormalization" not in rtx  # with one output, as models have it
