"""Rules for errors of torch in a capture: what stops it, and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass

from opbridge.capture.device_errors import NO_DRIVER, RECORDED_LAUNCHES, SEVERAL

__all__ = ["REGISTER", "RULES", "Rule"]

# What a class of the user's own needs, where `name` is its name.
REGISTER = (
    "torch.utils._pytree.register_pytree_node({short}, lambda value: ([value.a, value.b], None), "
    "lambda items, context: {short}(*items)), where a and b are the attributes that hold its tensors"
)

_KEEP_TENSOR = (
    "Keep it a tensor (a zero-dimensional tensor can be used like a number, and a Python list that is indexed can "
    "be a tensor too); if it is a size, state its range with torch._check."
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


_DATA_DEPENDENT = r"data-dependent|DataDependentOutputException"
_ANY = ""

# The first rule that matches is used.
RULES = (
    Rule(
        _DATA_DEPENDENT,
        r"^while\b",
        "the number of iterations of a Python while loop depends on the values of a tensor",
        "Use torch.while_loop(condition, body, (x,)), or a fixed number of iterations with torch.where.",
    ),
    Rule(
        _DATA_DEPENDENT,
        r"^for\b.*\brange\(",
        "the number of iterations of a Python loop depends on the values of a tensor",
        "Loop to a fixed maximum and mask with torch.where, or replace the loop by operators on whole tensors.",
    ),
    Rule(
        _DATA_DEPENDENT,
        r"^assert\b",
        "an assert depends on the values of a tensor",
        "Skip it while exporting: `if not torch.compiler.is_exporting():` above it.",
    ),
    Rule(
        _DATA_DEPENDENT,
        r"\bif\b.*(\.shape\b|\.size\(|\blen\(|\.numel\()",
        "a Python `if` depends on a data-dependent size (for example after nonzero, unique or a boolean mask)",
        "State the condition with torch._check before the line, or keep the size fixed: use torch.where with a "
        "mask instead of a selection.",
    ),
    Rule(
        _DATA_DEPENDENT,
        r"\b(if|elif)\b",
        "a Python `if` depends on the values of a tensor, and only one of its branches would be captured",
        "Use torch.where(condition, a, b), or torch.cond(condition, f, g, (x,)) if only one branch should run.",
    ),
    Rule(
        _DATA_DEPENDENT,
        r"\bbool\(|\b(and|or|not)\b|\ballclose\(|\bequal\(",
        "the values of a tensor are turned into a Python bool",
        "Keep it a tensor: use &, |, ~, torch.all and (a == b).all(), and torch.where or torch.cond to select.",
    ),
    Rule(_DATA_DEPENDENT, _ANY, "Python needs a number here that depends on the values of a tensor", _KEEP_TENSOR),
    Rule(
        r"UnsupportedOperatorException: (?P<namespace>\w+)\.(?P<name>\w+)",
        _ANY,
        "the operator {namespace}::{name} has no fake (meta) implementation, so the shape of its output is unknown "
        "before it has run",
        'Register one: @torch.library.register_fake("{namespace}::{name}") on a function with the same '
        "arguments that returns an empty tensor of the right shape and dtype, for example torch.empty_like(x).",
    ),
    Rule(
        r"\.numpy\(\) is not supported|numpy\.ndarray|__array__",
        _ANY,
        "a tensor is converted to a NumPy array, which cannot be captured",
        "Use the corresponding torch function, or wrap the NumPy code in an operator with torch.library.custom_op "
        "and register_fake.",
    ),
    Rule(
        r"ufunc does not support argument \d of type Sym",
        _ANY,
        "a NumPy function is applied to a size that is dynamic",
        "Use Python arithmetic (x.shape[0] ** 0.5) or torch functions instead.",
    ),
    Rule(NO_DRIVER, _ANY, "a Triton kernel is launched, which requires a GPU", RECORDED_LAUNCHES),
    Rule(
        r"data is not allocated yet",
        r"\b(tensor|as_tensor|array)\(",
        "a tensor is built from the values of other tensors",
        "Use torch.stack or torch.cat instead of torch.tensor.",
    ),
    Rule(
        r"data pointer|data is not allocated yet",
        _ANY,
        "native code (a C++ extension, a Triton or CUDA kernel) reads the memory of the tensor, which cannot "
        "be captured",
        "Wrap it in an operator with torch.library.custom_op and register_fake.",
    ),
    Rule(
        r"Found <class '(?:frozen)?set'> in output",
        _ANY,
        "the model returns a set, whose elements have no order",
        "Return them in a tuple, list or dict.",
    ),
    Rule(
        r"object has no attribute 'tensor_attrs'",
        _ANY,
        "torch.while_loop or torch.scan in a branch of a data-dependent Python `if` is not supported",
        "Call it before the `if`, or write the `if` with torch.cond.",
    ),
    Rule(
        r"Found <class '(?P<name>[^']*Cache)'> in output",
        _ANY,
        "the model returns a {name}, which is not registered as a container of tensors (pytree node)",
        "Disable the cache (use_cache=False among the inputs, or model.config.use_cache = False), or register its "
        f"class: {REGISTER}.",
    ),
    Rule(
        r"Found <class '(?P<name>[^']+)'> in output|unrecognized type (?P<variable>\S+) at output",
        _ANY,
        "the model returns a {name}, which is not registered as a container of tensors (pytree node)",
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
        "an operator expects a plain Python number here, but this one is computed from a tensor or a dynamic size",
        "Pass a constant, or use an operator that accepts a tensor for this argument.",
    ),
    Rule(
        r"size of tensor .*\(.*[a-z]\d+.*\) must match",
        _ANY,
        "a dimension of size 1 in the example inputs is dynamic and is broadcast here, which is not supported "
        "for a dynamic dimension",
        "Leave it out of dynamic_shapes, or give example inputs in which the two sizes are equal.",
    ),
    Rule(
        r"convert all Tensors to FakeTensors",
        _ANY,
        "the model uses a tensor that is not one of its inputs, parameters or buffers",
        "Register it with register_buffer, or make it an input.",
    ),
    Rule(
        SEVERAL,
        _ANY,
        "tensors of several devices meet",
        "Move the example inputs to the device of the model (x.to(device)), or the model to theirs (model.to(device)), "
        "and create tensors in the model with device=x.device.",
    ),
    Rule(
        r"Must provide a tree_name",
        _ANY,
        "this version of PyTorch does not support dynamic shapes for inputs passed in **kwargs",
        "Give forward a parameter of that name, or use PyTorch 2.14 or newer.",
    ),
    Rule(
        r"^IndexError: (list|pop|tuple)",
        _ANY,
        "an element of a list is used whose length depends on the values of a tensor",
        "Index torch.stack(...) of the list after the loop, or keep the last element in a variable of its own.",
    ),
    Rule(
        r"^KeyError: [^'\"]",
        r"\[.*\]",
        "a dict is indexed by a number that depends on the values of a tensor",
        "Compare it (`if kind == 1:`), or look it up in a dict that is a variable or an attribute.",
    ),
)
