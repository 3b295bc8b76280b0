"""Rules for errors of torch in a capture: what stops it, and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DATA_DEPENDENT", "REGISTER", "RULES", "SHAPE_VIOLATION", "Rule"]

# What a class of the user's own needs, where `name` is its name.
REGISTER = (
    "torch.utils._pytree.register_pytree_node({short}, lambda value: ([value.a, value.b], None), "
    "lambda items, context: {short}(*items)), where a and b are the attributes that hold its tensors"
)

_KEEP_TENSOR = (
    "Keep it a tensor (one of no dimensions acts like a number, and a Python list to index becomes a tensor as well); "
    "where it is a size, state its range with torch._check."
)


@dataclass(frozen=True)
class Rule:
    """One kind of failure.

    Attributes:
        pattern: Matches torch's error, as "Type: message". Its named groups are inserted into the two texts.
        line: Matches the user's line.
        what: What stops the capture; a clause.
        instead: What to write instead; sentences.
    """

    pattern: str
    line: str
    what: str
    instead: str


DATA_DEPENDENT = r"data-dependent|DataDependentOutputException"
SHAPE_VIOLATION = (
    r"Constraints violated|Specializations unexpectedly|conflicts between user-specified|ConstraintViolationError"
)
_ANY = ""

# The first rule that matches is used.
RULES = (
    Rule(
        DATA_DEPENDENT,
        r"^while\b",
        "a Python while loop runs as long as the values of a tensor say",
        "Use torch.while_loop(condition, body, (x,)), or a fixed number of passes with torch.where.",
    ),
    Rule(
        DATA_DEPENDENT,
        r"^for\b.*\brange\(",
        "the number of passes of a Python loop depends on the values of a tensor",
        "Loop to a fixed maximum and mask with torch.where, or replace the loop by operators on whole tensors.",
    ),
    Rule(
        DATA_DEPENDENT,
        r"^assert\b",
        "an assert looks at the values of a tensor",
        "Skip it while exporting: `if not torch.compiler.is_exporting():` above it.",
    ),
    Rule(
        DATA_DEPENDENT,
        r"\bif\b.*(\.shape\b|\.size\(|\blen\(|\.numel\()",
        "a Python `if` depends on a size that only the data decides (as after nonzero, unique or a boolean mask)",
        "State what holds with torch._check before the line, or keep the size fixed: torch.where with a mask in place "
        "of a selection.",
    ),
    Rule(
        DATA_DEPENDENT,
        r"\b(if|elif)\b",
        "a Python `if` depends on the values of a tensor, and a graph has both branches or none",
        "Use torch.where(condition, a, b), or torch.cond(condition, f, g, (x,)) where only one branch is to run.",
    ),
    Rule(
        DATA_DEPENDENT,
        r"\bbool\(|\b(and|or|not)\b|\ballclose\(|\bequal\(",
        "the values of a tensor are turned into a Python bool",
        "Keep it a tensor: &, |, ~, torch.all, (a == b).all(), and torch.where or torch.cond to choose.",
    ),
    Rule(DATA_DEPENDENT, _ANY, "Python needs a number here that only the values of a tensor decide", _KEEP_TENSOR),
    Rule(
        r"UnsupportedOperatorException: (?P<namespace>\w+)\.(?P<name>\w+)",
        _ANY,
        "the operator {namespace}::{name} has no fake (meta) implementation, so that the shape of its output is "
        "unknown until it has run",
        'Give it one: @torch.library.register_fake("{namespace}::{name}") above a function of the same arguments that '
        "returns an empty tensor of the right shape and dtype, such as torch.empty_like(x).",
    ),
    Rule(
        r"\.numpy\(\) is not supported|numpy\.ndarray|__array__",
        _ANY,
        "a tensor becomes a NumPy array, which no graph can hold",
        "Use the torch function in its place, or make the NumPy code an operator with torch.library.custom_op and give "
        "it a register_fake.",
    ),
    Rule(
        r"ufunc does not support argument \d of type Sym",
        _ANY,
        "a NumPy function is applied to a size that is dynamic",
        "Use Python's arithmetic (x.shape[0] ** 0.5) or torch in its place.",
    ),
    Rule(
        r"data is not allocated yet",
        r"\b(tensor|as_tensor|array)\(",
        "a tensor is built from the values of other tensors",
        "Use torch.stack or torch.cat in place of torch.tensor.",
    ),
    Rule(
        r"data pointer|data is not allocated yet",
        _ANY,
        "native code (a C++ extension, a Triton or CUDA kernel) reads the tensor's memory, which a trace cannot follow",
        "Make it an operator with torch.library.custom_op and give it a register_fake.",
    ),
    Rule(
        r"Found <class '(?P<name>[^']*Cache)'> in output",
        _ANY,
        "the model returns a {name}, which torch does not know as a container of tensors",
        "Switch the cache off (use_cache=False among the inputs, or model.config.use_cache = False), or register its "
        f"class: {REGISTER}.",
    ),
    Rule(
        r"Found <class '(?P<name>[^']+)'> in output|unrecognized type (?P<variable>\S+) at output",
        _ANY,
        "the model returns a {name}, which torch does not know as a container of tensors",
        f"Return tensors in a tuple, list, dict or dataclass, or register the class: {REGISTER}.",
    ),
    Rule(
        r"format string passed to FakeTensor",
        _ANY,
        "the value of a tensor is formatted into text",
        "Skip it while exporting: `if not torch.compiler.is_exporting():` above it.",
    ),
    Rule(
        r"(must be|found element of type|but got|not) .*\bSym(Int|Float|Bool)\b",
        _ANY,
        "an operator wants a plain Python number here, and this one is computed from a tensor or a dynamic size",
        "Give it a constant, or an operator that takes a tensor in that place.",
    ),
    Rule(
        r"size of tensor .*\(.*[a-z]\d+.*\) must match",
        _ANY,
        "a dimension of size 1 in the example is dynamic, and is broadcast here, which a dynamic dimension never is",
        "Leave it out of dynamic_shapes, or give an example in which the two sizes are equal.",
    ),
    Rule(
        r"convert all Tensors to FakeTensors",
        _ANY,
        "a tensor takes part that is no input, parameter or buffer of the model",
        "Register it with register_buffer, or make it an input.",
    ),
    Rule(
        r"Must provide a tree_name",
        _ANY,
        "this release of torch takes no dynamic shapes for inputs that arrive in **kwargs",
        "Give forward a parameter of that name, or use a newer torch (2.14 takes them).",
    ),
    Rule(
        r"^KeyError: [^'\"]",
        r"\[.*\]",
        "a dict has no such key, which is a number that only the values of a tensor decide",
        "Compare it (`if kind == 1:`), or index a list of up to 32 elements in place of the dict.",
    ),
)
