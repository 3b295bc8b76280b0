"""What a target does not take, as facts: each says what it is about, for which versions, and where that is known from.

A fact is data; the rule that reads it is code, in `opbridge.rules`. The names of inputs and outputs are those of the
operators' schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

__all__ = [
    "KINDS",
    "Absent",
    "Attribute",
    "Below",
    "Chain",
    "Constant",
    "Domains",
    "Elements",
    "Fact",
    "Filled",
    "Form",
    "Functions",
    "Kernels",
    "Least",
    "Missing",
    "Narrow",
    "Only",
    "Partly",
    "Pattern",
    "Plugins",
    "Ranges",
    "Rank",
    "Revision",
    "Static",
    "Types",
    "Unstored",
    "Zero",
]

Number = int | float | str


@dataclass(frozen=True, kw_only=True)
class Fact:
    """What all facts have.

    Attributes:
        operators: The operators that it is about, as "TopK" or "com.microsoft::FusedConv".
        source: Where it is known from: "published: ...", "measured: ...", or "asked: ...".
        severity: "error" where the target refuses the model or answers wrongly, "warning" where it does something
            other than ONNX says that may not matter.
        note: What happens there, where that is more than a refusal.
        since: The first version that it holds for; "": from the oldest on.
        until: The last one; "": to the newest.
        needs: What a fact of the kind is nothing without.
        when: What attributes have to be for it to hold, as in "mode=nearest"; several: all of them. An attribute that
            a node does not have is at its default.
    """

    needs: ClassVar[tuple[str, ...]] = ("operators",)
    operators: tuple[str, ...] = ()
    source: str = ""
    severity: str = "error"
    note: str = ""
    since: str = ""
    until: str = ""
    when: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Missing(Fact):
    """These operators are not there."""


@dataclass(frozen=True, kw_only=True)
class Only(Fact):
    """Of all operators, only these are there, and those of the other facts of this kind that hold.

    What is in none of them is reported with the source, the severity and the note of the first that holds.
    """


@dataclass(frozen=True, kw_only=True)
class Domains(Fact):
    """Of domains other than ONNX's own, only these have operators there.

    Attributes:
        domains: The domains; none: there is no such operator.
        by_name: Whether the target ignores domains, and takes an operator of another domain that has the name of one of
            ONNX's for that one.
    """

    needs = ()
    domains: tuple[str, ...] = ()
    by_name: bool = False


@dataclass(frozen=True, kw_only=True)
class Types(Fact):
    """Inputs of the operators have one of these types only.

    Attributes:
        inputs: The inputs; none: the first one.
        allowed: The types: "float16", "int64".
        but_sizes: Whether what is computed from the sizes of tensors alone may have any type.
    """

    needs = ("operators", "allowed")
    inputs: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    but_sizes: bool = False


@dataclass(frozen=True, kw_only=True)
class Narrow(Fact):
    """Floating types below float32 and integers that a model may be computed in as it is: nothing is cast in the file.

    The target has kernels for them, or casts by itself where it has none, except where another fact says that it does
    not take an operator in them. Integers that are not named are not known in this way: what else is known of them
    says what is refused, and not what is taken.

    Attributes:
        types: The types, as "float16" or "int8".
        with_kernels: Those of them that it does not cast by itself.
    """

    needs = ("types",)
    types: tuple[str, ...] = ()
    with_kernels: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Unstored(Fact):
    """Values of these types are nowhere in the model, whatever the operators; inputs and outputs of it may be.

    Attributes:
        types: The types.
        at_ends: Whether inputs and outputs of the model may have them.
    """

    needs = ("types",)
    types: tuple[str, ...] = ()
    at_ends: bool = False


@dataclass(frozen=True, kw_only=True)
class Constant(Fact):
    """These inputs are known when the model is loaded.

    Attributes:
        inputs: The inputs.
        stored: Whether they have to be initializers; else what is computed from initializers alone will do.
        through: Operators that the target evaluates itself between an initializer and the input.
    """

    needs = ("operators", "inputs")
    inputs: tuple[str, ...] = ()
    stored: bool = False
    through: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Zero(Fact):
    """These inputs are zeros, where they are given.

    Attributes:
        inputs: The inputs.
    """

    needs = ("operators", "inputs")
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Below(Fact):
    """All elements of an input are below a bound.

    Attributes:
        input: The input.
        bound: The bound.
    """

    needs = ("operators", "input")
    input: str = ""
    bound: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Least(Fact):
    """All elements of an input are at least a bound.

    Attributes:
        input: The input.
        bound: The bound.
    """

    needs = ("operators", "input")
    input: str = ""
    bound: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Filled(Fact):
    """No dimension of an input is 0: a run on one that is ends the process.

    Attributes:
        input: The input; "": the first one.
        axes: The dimensions; none: all.
        beside: An attribute that names a dimension which may be 0; where a node does not have it, all may.
        types: The types of the input that it holds for; none: all.
        ranks: The numbers of its dimensions that it holds for; none: all.
    """

    input: str = ""
    axes: tuple[int, ...] = ()
    beside: str = ""
    types: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Elements(Fact):
    """The elements of these inputs are of some numbers only, or of all but some.

    Attributes:
        inputs: The inputs.
        allowed: The numbers that they are of; none: any.
        excluded: The numbers that are not among them.
    """

    needs = ("operators", "inputs")
    inputs: tuple[str, ...] = ()
    allowed: tuple[float, ...] = ()
    excluded: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Absent(Fact):
    """These inputs and outputs are left out.

    Attributes:
        inputs: The inputs.
        outputs: The outputs.
        unread: Whether the target refuses an output too that has a name and that nothing reads.
    """

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    unread: bool = False


@dataclass(frozen=True, kw_only=True)
class Attribute(Fact):
    """An attribute has one of some values.

    Attributes:
        attribute: Its name.
        allowed: The values; none: it is left out. Of a list of numbers, every element is one of them. A node without
            the attribute has its default.
    """

    needs = ("operators", "attribute")
    attribute: str = ""
    allowed: tuple[Number, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Revision(Fact):
    """Of the forms that the operators had in the course of ONNX's opsets, only some are there.

    Attributes:
        oldest: The opset that the oldest form is from; 0: not known.
        newest: The opset up to which there are forms; 0: not known.
    """

    oldest: int = 0
    newest: int = 0


@dataclass(frozen=True, kw_only=True)
class Partly(Fact):
    """The operators are there in some forms only, of which the note says what is known."""


@dataclass(frozen=True, kw_only=True)
class Form(Fact):
    """The operators are not there in a form of which all that it says holds.

    Attributes:
        form: What holds: "mode = cubic" or "no attribute value" of the attributes, "X is float16", "X has rank 5",
            "X is empty", "axes is not empty" and "axes has length 2" of an input, "roi is given", "axes is computed"
            (and no constant), "axis is not dimension 1" and "axis counts from the end", "Y is used", "Y has no name"
            and "Y comes out empty" of an output, "of opset 21" of the form of the operator, "1 inputs" of their
            number, "A may be negative" of a floating input of a comparison, "it makes a dimension larger" of Resize,
            "the body reads the condition" of Loop.
    """

    needs = ("operators", "form")
    form: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Rank(Fact):
    """An input has one of some numbers of dimensions.

    Attributes:
        input: The input; "": the first one.
        allowed: The numbers of dimensions.
    """

    needs = ("operators", "allowed")
    input: str = ""
    allowed: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Static(Fact):
    """The shapes of these inputs have no dynamic dimension. Without operators: those of all inputs of the model.

    Attributes:
        inputs: The inputs; none: all.
    """

    needs = ()
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Ranges(Fact):
    """Each dynamic dimension of an input of the model needs a range, given when the target builds the model."""

    needs = ()


@dataclass(frozen=True, kw_only=True)
class Functions(Fact):
    """A model has no functions of its own."""

    needs = ()


@dataclass(frozen=True, kw_only=True)
class Plugins(Fact):
    """A node with the attribute `plugin_namespace` names a plug-in.

    As a warning: the runtime has it if its library is loaded. As an error: it has no plug-ins.
    """

    needs = ()

    @property
    def are_loaded(self) -> bool:
        """Whether the runtime has plug-ins."""
        return self.severity != "error"


@dataclass(frozen=True, kw_only=True)
class Pattern(Fact):
    """A rule that looks at more than one node applies.

    Attributes:
        rule: Its identifier.
    """

    needs = ("rule",)
    rule: str = ""


@dataclass(frozen=True, kw_only=True)
class Chain(Fact):
    """An operator after a chain of others is computed wrongly, though each of them is there.

    Attributes:
        after: The operators before it, the nearest first; "input" stands for an input of the model.
    """

    needs = ("operators", "after")
    after: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Kernels(Fact):
    """An operator of ONNX's own has a kernel for its types, as a runtime that is installed says.

    Attributes:
        lacks: Whether there is none: (operator, opset, type variable of the schema -> type as in "tensor(float)").
        has: Whether the runtime has an operator of another domain: (domain, operator).
        cast: The types that it casts of its own accord where it has no kernel, each with the type that it casts to.
    """

    lacks: Callable[[str, int, dict[str, str]], bool]
    has: Callable[[str, str], bool]
    cast: Mapping[str, str]


KINDS: dict[str, type[Fact]] = {
    "missing": Missing,
    "only": Only,
    "domains": Domains,
    "types": Types,
    "narrow": Narrow,
    "unstored": Unstored,
    "constant": Constant,
    "zero": Zero,
    "below": Below,
    "least": Least,
    "filled": Filled,
    "elements": Elements,
    "absent": Absent,
    "attribute": Attribute,
    "revision": Revision,
    "partly": Partly,
    "form": Form,
    "rank": Rank,
    "static": Static,
    "ranges": Ranges,
    "functions": Functions,
    "pattern": Pattern,
    "plugins": Plugins,
    "chain": Chain,
}
"""The kinds of facts, as a target's file names them."""
