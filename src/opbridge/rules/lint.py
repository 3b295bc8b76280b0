"""A model against targets: every rule in one walk over the nodes."""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import onnx
import onnx_ir as ir

from opbridge.base.garbage import no_collection
from opbridge.errors import ModelFileError, UsageError
from opbridge.onnx import reading
from opbridge.reports.report import reporting
from opbridge.rules import (
    of_attention,
    of_constants,
    of_early_sizes,
    of_empty,
    of_facts,
    of_fusions,
    of_kernels,
    of_loops,
    of_models,
    of_numbers,
    of_patterns,
    of_reports,
    of_schemas,
    of_shapes,
    of_sizes,
)
from opbridge.rules.findings import Finding, Findings
from opbridge.rules.looking import Looked, name_of
from opbridge.rules.measured import Float16Activation, Inputs, activations
from opbridge.rules.rule import FactRule, Hit, NodeRule, Rule
from opbridge.runtimes.onnxruntime.model_file import checked_model
from opbridge.targets import Target, facts, find_targets, plugins

__all__ = ["Found", "catalogue", "check_patterns", "chosen_rules", "lint", "look"]

Found = tuple[Finding, ir.Node | None]
"""A finding, with the node; None: the whole model."""


class OpsetRange(Rule):
    """The model's opset, or its version of the format, is none that the target takes."""

    identifier = "opset-range"
    title = "An opset or IR version that the target does not support"
    why = "The target rejects the whole model, or computes operators differently."
    remedy = "Export with --opset (opset_version=), or convert the file: opbridge convert MODEL.onnx --opset N."


class DynamicInputs(Rule):
    """An input of the model has dynamic dimensions, and the target takes none."""

    identifier = "dynamic-inputs"
    title = "A dynamic dimension of an input, but the target supports only static shapes"
    why = "The target compiles the model for one shape of each input."
    remedy = "Export with static shapes: leave out dynamic_shapes."


class NeedsRanges(Rule):
    """Inputs of the model have dynamic dimensions, for which the target wants ranges."""

    identifier = "needs-ranges"
    title = "Dynamic dimensions, for which the target requires ranges when it builds the model"
    why = (
        "The target selects its kernels by the minimum, optimum and maximum shapes, and cannot build the model "
        "without them."
    )
    remedy = "Give the shapes when building; with trtexec: --minShapes, --optShapes and --maxShapes."
    severity = "warning"
    asked = True


class LocalFunction(Rule):
    """Functions of the model itself, where the target takes none."""

    identifier = "local-function"
    title = "A call of an ONNX function in the model, which the target does not support"
    why = "The target searches for an operator of that name and rejects the model."
    remedy = "Inline the functions with opbridge fix or onnx.inliner."


class NeedsPlugin(Rule):
    """Nodes that name a plug-in, where the target has plug-ins."""

    identifier = "needs-plugin"
    title = "A plug-in, whose library the target has to be given"
    why = (
        "The target finds the plug-in by its name, version and namespace among those that were loaded before the model."
    )
    remedy = (
        "Load the library with trtexec --dynamicPlugins=LIBRARY, or IPluginRegistry::loadLibrary; opbridge build "
        "FILE.cpp --tensorrt builds it from an opbridge kernel."
    )
    severity = "warning"


class ValueType(Rule):
    """Values of a type that the target has nowhere."""

    identifier = "value-type"
    title = "Values of a type that the target does not support"
    why = "The target rejects the model, or computes in another type."
    remedy = "Cast to a type that the target supports."


_LONGEST_TEXT = 10_000

_OWN: tuple[type[Rule], ...] = (
    OpsetRange,
    DynamicInputs,
    NeedsRanges,
    NeedsPlugin,
    LocalFunction,
    ValueType,
    Float16Activation,
)
_OF_FACTS = (*of_facts.RULES, *of_empty.RULES, *of_schemas.FACT_RULES, *of_reports.FACT_RULES)
_PATTERNS = (
    *of_numbers.PATTERNS,
    *of_patterns.RULES,
    *of_reports.RULES,
    *of_sizes.RULES,
    *of_early_sizes.RULES,
    *of_fusions.RULES,
    *of_kernels.RULES,
    *of_attention.RULES,
    *of_constants.RULES,
    *of_loops.RULES,
)
_OF_MODELS = (*of_schemas.MODEL_RULES, *of_models.RULES)
_OF_NODES = (*of_schemas.RULES, *of_shapes.RULES, *of_numbers.RULES, *_PATTERNS)


def catalogue() -> list[type[Rule]]:
    """All rules, by their identifiers."""
    return sorted((*_OWN, *_OF_FACTS, *_OF_NODES, *_OF_MODELS), key=lambda each: each.identifier)


def lint(
    model: str | os.PathLike[str] | bytes,
    target: str | Sequence[str] = (),
    *,
    provides: str | Sequence[str] = (),
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    inputs: Inputs | None = None,
    report: str | os.PathLike[str] | None = None,
) -> Findings:
    """Reports what targets do not support in a model, or compute differently from ONNX.

    Args:
        model: The path of an ONNX file, or its content.
        target: The names of targets: "tensorrt:10.1"; or the path of a file that describes one. Without any, only the
            rules of ONNX itself are applied.
        provides: Operators of other domains than ONNX's own that the targets have through plug-ins or custom operators:
            "trt::MyTopK", or "trt::*" for all operators of a domain.
        select: The identifiers of the rules to apply, or patterns of them; none: all but those that are for being asked
            for, as "needs-ranges".
        ignore: The identifiers of rules to leave out, or patterns of them.
        inputs: Arrays to run the model on, by the names of its inputs or in order, or an .npz file of them, to report
            values that overflow in float16. None: the model is not run.
        report: The path of an HTML report with the graph of the model and the findings.

    Raises:
        ModelFileError: The file cannot be read as an ONNX model.
        RunError: The model does not run on the inputs.
        UsageError: There is no such target or rule, or the file of a target or `provides` is wrong.
    """
    targets = find_targets(target, provides)
    check_patterns(targets)
    chosen = chosen_rules(select, ignore)
    checked, label = checked_model(model)
    with reporting(report, "lint", label) as told:
        with no_collection():
            looked = Looked(_loaded(checked))
            found = [finding for finding, _ in look(looked, targets, chosen)]
        if inputs is not None and Float16Activation.identifier in chosen:
            hits = activations(looked, checked, inputs)
            found += [_finding(Float16Activation, hit, Float16Activation.severity, "")[0] for hit in hits]
        findings = Findings(label, targets, found)
        if report is not None:
            findings.tell(told, looked.model)
    return findings


def look(looked: Looked, targets: Sequence[Target], chosen: frozenset[str]) -> list[Found]:
    """What rules find in a model, each with its node.

    Args:
        looked: The model.
        targets: What it is compared with.
        chosen: The identifiers of the rules.
    """
    found: dict[tuple[Finding, int], Found] = {}
    for target in targets:
        for finding, node in _of_target(looked, target, chosen):
            of_target = dataclasses.replace(finding, target=str(target))
            found.setdefault((of_target, id(node)), (of_target, node))
    for finding, node in _of_onnx(looked, chosen):
        found.setdefault((finding, id(node)), (finding, node))
    return list(found.values())


def check_patterns(targets: Sequence[Target]) -> None:
    """Refuses facts that name a rule that there is not.

    Raises:
        UsageError: One does.
    """
    known = [each.identifier for each in _PATTERNS]
    for target in targets:
        for fact in target.of_kind(facts.Pattern):
            if fact.rule not in known:
                near = difflib.get_close_matches(fact.rule, known, n=1)
                guess = f" Did you mean '{near[0]}'?" if near else ""
                raise UsageError(f"{target}: unknown rule '{fact.rule}' in a fact.{guess}")


def _loaded(model: str | bytes) -> ir.Model:
    loaded = reading.load_with_clashes(model)
    if loaded.graph is None:  # not reached with files that onnx_ir reads
        raise ModelFileError("The model has no graph. Export it again.")
    return loaded


def chosen_rules(select: Sequence[str], ignore: Sequence[str]) -> frozenset[str]:
    """The identifiers of the rules to apply.

    Raises:
        UsageError: A pattern fits none.
    """
    known = [each.identifier for each in catalogue()]
    for pattern in (*select, *ignore):
        if not fnmatch.filter(known, pattern):
            near = difflib.get_close_matches(pattern, known, n=1)
            guess = f" Did you mean '{near[0]}'?" if near else ""
            raise UsageError(f"Unknown rule '{pattern}'.{guess} The rules are: {', '.join(known)}.")
    usual = [each.identifier for each in catalogue() if not each.asked]
    kept = {name for pattern in select for name in fnmatch.filter(known, pattern)} if select else set(usual)
    return frozenset(kept - {name for pattern in ignore for name in fnmatch.filter(known, pattern)})


def _of_onnx(looked: Looked, chosen: frozenset[str]) -> Iterator[Found]:
    """What the rules find that apply whatever the target."""
    rules = [each for each in _OF_NODES if each.always and each.identifier in chosen]
    by_operator = _by_operator([(rule, _at_node(rule)) for rule in rules])
    for node in looked.nodes if by_operator else ():
        for rule, hits in _of_node(by_operator, node):
            if node not in looked.malformed:
                for hit in hits(node, looked):
                    yield _finding(rule, hit, rule.severity, "")
    for whole in _OF_MODELS:
        if whole.identifier in chosen:
            for hit in whole().hits(looked):
                yield _finding(whole, hit, whole.severity, "")


def _of_target(looked: Looked, target: Target, chosen: frozenset[str]) -> Iterator[Found]:
    """What a target does not take."""
    yield from _of_versions(looked, target, chosen)
    by_kind = {rule.kind: rule for rule in _OF_FACTS if rule.identifier in chosen}
    patterns = {rule.identifier: rule for rule in _PATTERNS if rule.identifier in chosen}
    checks: list[tuple[Sequence[str], type[Rule], facts.Fact, Callable[..., Iterator[Hit]]]] = []
    for fact in target.facts:
        if isinstance(fact, facts.Pattern):
            if (pattern := patterns.get(fact.rule)) is not None:
                checks.append((sorted(pattern.operators), pattern, fact, _at_node(pattern)))
        elif (rule := by_kind.get(type(fact))) is not None and (fact.operators or isinstance(fact, facts.Kernels)):
            checks.append((fact.operators, rule, fact, _with_fact(rule, fact)))
    by_operator: dict[str, list[tuple[type[Rule], facts.Fact, Callable[..., Iterator[Hit]]]]] = defaultdict(list)
    for operators, rule_, fact, hits in checks:
        for operator in operators or ("",):
            by_operator[operator].append((rule_, fact, hits))
    everywhere = by_operator.get("", [])
    lists = target.of_kind(facts.Only)
    only, present = next(iter(lists), None), {name for each in lists for name in each.operators}
    missing = by_kind.get(facts.Missing)
    # What is said to be missing is found by the fact that says so.
    present |= {name for each in target.of_kind(facts.Missing) if not each.when for name in each.operators}
    foreign = next(iter(target.of_kind(facts.Domains)), None)
    with_plugins = next(iter(target.of_kind(facts.Plugins)), None)
    for node in looked.nodes:
        name = name_of(node)
        is_provided = target.provides(node.domain, node.op_type)
        if not is_provided and with_plugins is not None and plugins.is_plugin(node):
            is_provided = True  # by the library that the finding asks for, or the finding is an error
            if NeedsPlugin.identifier in chosen:
                remedy = plugins.remedy(node) if with_plugins.are_loaded else "Use other operators, or another runtime."
                hit = Hit(f"{name} is a plug-in.", node, remedy)
                yield _finding(NeedsPlugin, hit, with_plugins.severity, with_plugins.source, with_plugins.note)
        for rule_, fact, hits in (*by_operator.get(name, ()), *everywhere):
            if node in looked.malformed and not rule_.of_malformed:
                continue
            if is_provided and isinstance(fact, facts.Missing | facts.Kernels):
                continue
            for hit in hits(node, looked):
                yield _finding(rule_, hit, fact.severity, fact.source, fact.note)
        if is_provided:
            continue
        if missing is None or _is_function(looked, node):
            continue
        lacking: facts.Fact
        if foreign is not None and _is_foreign(node, foreign):
            lacking = foreign
        elif only is not None and _taken_for(node, foreign) not in present:
            lacking = only
        else:
            continue
        for hit in missing().hits(node, lacking, looked):
            if with_plugins is not None and with_plugins.are_loaded:
                hit = dataclasses.replace(hit, remedy=plugins.marking(node, str(target)) or hit.remedy)
            yield _finding(missing, hit, lacking.severity, lacking.source, lacking.note)


def _taken_for(node: ir.Node, domains: facts.Domains | None) -> str:
    """The operator that a target takes a node for, as facts name it."""
    by_name = domains is not None and domains.by_name and onnx.defs.has(node.op_type)
    return node.op_type if by_name else name_of(node)


def _is_foreign(node: ir.Node, domains: facts.Domains) -> bool:
    """Whether a node is of a domain that the target has no operators of."""
    return _taken_for(node, domains) != node.op_type and node.domain not in domains.domains


def _is_function(looked: Looked, node: ir.Node) -> bool:
    return node.op_identifier() in looked.model.functions


def _of_versions(looked: Looked, target: Target, chosen: frozenset[str]) -> Iterator[Found]:
    """What there is to say of the model as a whole: its versions, its inputs, and the types in it."""
    opsets = target.opsets
    if opsets is not None and OpsetRange.identifier in chosen:
        if not opsets.oldest <= looked.opset <= opsets.newest:
            told = f"The model has opset {looked.opset}; {target} supports {opsets.oldest} to {opsets.newest}."
            yield _finding(OpsetRange, Hit(told), opsets.severity, opsets.source, opsets.note)
        if opsets.ir_version is not None and looked.model.ir_version > opsets.ir_version:
            told = f"The file has IR version {looked.model.ir_version}; {target} supports up to {opsets.ir_version}."
            yield _finding(OpsetRange, Hit(told), "error", opsets.source)
    for fact in target.of_kind(facts.Static):
        if not fact.operators and DynamicInputs.identifier in chosen:
            for value in looked.model.graph.inputs:
                shape = looked.shape(value)
                if shape is None or not all(isinstance(each, int) for each in shape):
                    hit = Hit(f"The input '{value.name}' has dynamic dimensions.")
                    yield _finding(DynamicInputs, hit, fact.severity, fact.source, fact.note)
    for wanted in target.of_kind(facts.Ranges):
        if NeedsRanges.identifier in chosen and (told := _without_ranges(looked)):
            yield _finding(NeedsRanges, Hit(told), wanted.severity, wanted.source, wanted.note)
    without = next(iter(target.of_kind(facts.Functions)), None)  # published and measured ones say the same
    if without is not None and LocalFunction.identifier in chosen:
        for node in looked.nodes:
            if _is_function(looked, node):
                hit = Hit(f"{name_of(node)} is an ONNX function defined in the model.", node)
                yield _finding(LocalFunction, hit, without.severity, without.source, without.note)
    for unstored in target.of_kind(facts.Unstored):
        if ValueType.identifier in chosen:
            yield from _values_of(looked, unstored)


def _without_ranges(looked: Looked) -> str:
    """The inputs of a model with dynamic dimensions, as a sentence; "": there are none."""
    found = []
    for value in looked.model.graph.inputs:
        shape = looked.shape(value)
        if shape is None or not all(isinstance(each, int) for each in shape):
            sizes = "?" if shape is None else ", ".join("?" if each is None else str(each) for each in shape)
            found.append(f"'{value.name}' of [{sizes}]")
    return f"The dimensions of {', '.join(found)} are dynamic." if found else ""


def _values_of(looked: Looked, fact: facts.Unstored) -> Iterator[Found]:
    """The values of types that the target does not have: for each node that gives one, and each input."""
    ends = {*looked.model.graph.inputs, *looked.model.graph.outputs}
    if not fact.at_ends:
        for value in looked.model.graph.inputs:
            if value.dtype is not None and of_facts.type_name(value.dtype) in fact.types:
                hit = Hit(f"The input '{value.name}' has type {of_facts.type_name(value.dtype)}.")
                yield _finding(ValueType, hit, fact.severity, fact.source, fact.note)
    types = {each for each in ir.DataType if of_facts.type_name(each) in fact.types}
    for node in looked.nodes:
        for value in node.outputs:
            if value.dtype in types and not (fact.at_ends and value in ends):
                hit = Hit(f"{node.op_type} returns {of_facts.type_name(value.dtype)}.", node)
                yield _finding(ValueType, hit, fact.severity, fact.source, fact.note)
                break


_Check = tuple[type[NodeRule], Callable[[ir.Node, Looked], Iterator[Hit]]]


def _by_operator(checks: Sequence[_Check]) -> dict[str, list[_Check]]:
    found: dict[str, list[_Check]] = defaultdict(list)
    for rule, hits in checks:
        for operator in rule.operators or ("",):
            found[operator].append((rule, hits))
    return found


def _of_node(by_operator: dict[str, list[_Check]], node: ir.Node) -> Iterator[_Check]:
    yield from by_operator.get(name_of(node), ())
    yield from by_operator.get("", ())


def _at_node(rule: type[NodeRule]) -> Callable[[ir.Node, Looked], Iterator[Hit]]:
    return rule().hits


def _with_fact(rule: type[FactRule], fact: facts.Fact) -> Callable[[ir.Node, Looked], Iterator[Hit]]:
    made = rule()
    if not fact.when:
        return lambda node, looked: made.hits(node, fact, looked)

    def hits(node: ir.Node, looked: Looked) -> Iterator[Hit]:
        if looked.has_attributes(node, fact.when):
            yield from made.hits(node, fact, looked)

    return hits


def _finding(rule: type[Rule], hit: Hit, severity: str, source: str, note: str = "") -> Found:
    node = hit.node
    metadata = {} if node is None else node.metadata_props
    finding = Finding(
        rule=rule.identifier,
        severity=hit.severity or severity,
        message=_shown(f"{hit.message} {note}".rstrip()),
        remedy=hit.remedy or rule.remedy,
        source=source,
        node="" if node is None else _shown(node.name or next((each.name for each in node.outputs if each.name), "")),
        operator="" if node is None else _shown(name_of(node)),
        place=_shown(_place(metadata.get("opbridge.source", ""), metadata.get("pkg.torch.onnx.stack_trace", ""))),
        module=_shown(metadata.get("opbridge.module", "") or _module(metadata.get("pkg.torch.onnx.name_scopes", ""))),
    )
    return finding, node


def _shown(text: str | None) -> str:
    """A text as it is, or the begin and the end of one that nobody reads, as a name of megabytes in a damaged file."""
    if not text or len(text) <= _LONGEST_TEXT:
        return text or ""
    return f"{text[: _LONGEST_TEXT // 2]} ... {text[-_LONGEST_TEXT // 2 :]}"


def _place(own: str, stack: str) -> str:
    """The line of the model's code: what opbridge wrote, or the innermost one that torch.onnx wrote."""
    if own or not stack:
        return own
    lines = [each.strip() for each in stack.splitlines() if each.strip().startswith('File "')]
    if not lines:
        return ""
    file, _, rest = lines[-1].removeprefix('File "').partition('", line ')
    return f"{file}:{rest.partition(',')[0]}"


def _module(scopes: str) -> str:
    """The path of the submodule among the scopes that torch.onnx wrote: the last but one."""
    found = [each.strip(" '\"") for each in scopes.strip("[]").split(",")]
    return found[-2] if len(found) > 1 else ""
