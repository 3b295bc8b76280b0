"""The faults that mutations.py plants, of the sort that a change could bring in: small, and wrong in few cases.

Each names whole files of tests, or a command of tests/attack, that find it, the cheapest first: single tests come and
go. tests/test_planted_faults.py checks that the text of each still stands where it says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["FAULTS", "QUESTIONS", "Fault", "Question"]

Question = Literal["control flow", "forms", "opsets", "verification", "kernels", "attacks"]

QUESTIONS: tuple[Question, ...] = ("control flow", "forms", "opsets", "verification", "kernels", "attacks")


@dataclass(frozen=True)
class Fault:
    """A fault in one place.

    Attributes:
        name: Its name in the table and for `--only`.
        question: What it is about.
        file: The file, below src/opbridge.
        before: The text that stands there, once.
        after: What takes its place.
        finders: Files or folders of tests, and commands that begin with "python -m", which end with another status
            than 0 where they find something.
        what: What goes wrong.
    """

    name: str
    question: Question
    file: str
    before: str
    after: str
    finders: tuple[str, ...]
    what: str


FAULTS: tuple[Fault, ...] = (
    # Control flow
    Fault(
        "one-turn-for-none",
        "control flow",
        "translate/control_flow.py",
        "    (start,) = walk(condition, [*carried, *additional])\n",
        "    start = builder.constant(True)\n",
        ("tests/translate/test_control_flow.py", "tests/capture/control_flow/test_data_branches.py"),
        "a loop whose condition does not hold at first has one turn",
    ),
    Fault(
        "counting-down",
        "control flow",
        "capture/tracer/sized_sequences.py",
        "return element < self.stop if self._is_rising else element > self.stop",
        "return element < self.stop if self._is_rising else element >= self.stop",
        ("tests/capture/tracer/test_sized_sequences.py", "tests/capture/control_flow/test_data_branches.py"),
        "a loop over a range that counts down has an iteration too many",
    ),
    Fault(
        "condition-of-a-nested-if",
        "control flow",
        "capture/size_branches/joining.py",
        "answer = answers[which[0]]",
        "answer = answers[0]",
        ("tests/capture/size_branches/test_size_branches.py",),
        "an `if` on sizes in the other side of one is decided by the condition of the outer one",
    ),
    Fault(
        "loop-that-a-break-ends",
        "control flow",
        "capture/control_flow/lowering.py",
        "return (condition if loop.stays else self.negated(condition),)",
        "return (condition,)",
        ("tests/capture/control_flow/test_data_branches.py",),
        "a loop whose condition says when it ends, as before a `break`, goes on while it holds",
    ),
    Fault(
        "size-of-one",
        "control flow",
        "capture/value_numbers.py",
        "form = self._form((node.args, node.kwargs), found)",
        "form = self._form(node.args[:1], found)",
        ("tests/capture/test_zero_one_specialization.py",),
        "a capture counts as one for a size of 1 although an operator has another number there",
    ),
    Fault(
        "exit-of-two-loops",
        "control flow",
        "capture/control_flow/multi_exit_loops.py",
        "return any(block.after[not stays] not in self._loop.inside for block, stays in loop.exits.items())",
        "return all(block.after[not stays] not in self._loop.inside for block, stays in loop.exits.items())",
        ("tests/capture/control_flow/test_multi_exit_loops.py", "tests/capture/control_flow/test_data_branches.py"),
        "an inner loop that one of its exits leaves with the outer one is taken for a loop of its own",
    ),
    Fault(
        "smallest-size",
        "control flow",
        "capture/guards/solutions.py",
        "            found.append((first, min(begin - 1, last)))",
        "            found.append((first + 1, min(begin - 1, last)))",
        ("tests/capture/guards/test_random_conditions.py",),
        "the branch that the smallest size alone takes is not captured",
    ),
    # Forms
    Fault(
        "parts-of-one-tensor",
        "forms",
        "capture/functionalize.py",
        "        and _are_equal([left.storage_offset()], [right.storage_offset()])\n",
        "",
        ("tests/capture/test_functionalize.py",),
        "a row that is written to is taken for another one of its tensor",
    ),
    Fault(
        "views-of-one-shape",
        "forms",
        "capture/functionalize.py",
        "        and _are_equal(left.stride(), right.stride())\n",
        "",
        ("tests/capture/test_functionalize.py",),
        "a square matrix that is written to is taken for its transpose",
    ),
    Fault(
        "any-of-none",
        "forms",
        "translations/lib/reduce.py",
        "return op.Greater(largest, 0.0)",
        "return op.Not(op.Equal(largest, 0.0))",
        ("tests/translations/reduction/test_reduction.py",),
        "any() of no elements is true",
    ),
    Fault(
        "rounding-down",
        "forms",
        "translations/elementwise/arithmetic.py",
        "op.Mul(op.Sign(quotient), op.Floor(op.Abs(quotient)))",
        "op.Floor(quotient)",
        ("tests/translations/elementwise/test_arithmetic.py",),
        'a division with rounding_mode="trunc" rounds negative quotients down',
    ),
    Fault(
        "rows-without-keys",
        "forms",
        "translations/nn/attention.py",
        "return _or_zeros(op.MatMul(_dropped(shares, dropout_p), value), mask)",
        "return op.MatMul(_dropped(shares, dropout_p), value)",
        ("tests/translations/nn/test_attention.py",),
        "a query whose mask lets nothing through gets nan",
    ),
    Fault(
        "last-window",
        "forms",
        "translations/nn/pooling.py",
        "zip(after, padding, strict=True)], 0)",
        "zip(after, padding, strict=True)], 1)",
        ("tests/translations/nn/test_pooling.py",),
        "a mean of a window beyond the padding, as of ceil_mode, is divided by the whole window",
    ),
    # Opsets
    Fault(
        "unsqueeze-from-the-back",
        "opsets",
        "onnx/downgrade/axes.py",
        "call.rank(call.data) + len(axes)",
        "call.rank(call.data)",
        ("tests/onnx/test_old_opsets.py",),
        "below opset 11, an axis that Unsqueeze counts from the back is one too far in front",
    ),
    Fault(
        "equal-to-nan",
        "opsets",
        "onnx/downgrade/elementwise.py",
        "if numbers is None or np.isnan(numbers).any():",
        "if numbers is not None and np.isnan(numbers).any():",
        ("tests/onnx/test_old_opsets.py",),
        "below opset 11, nan is equal to anything",
    ),
    Fault(
        "nan-at-11",
        "opsets",
        "onnx/downgrade/elementwise.py",
        'greater = call.name == "GreaterOrEqual"\n    if call.data.dtype in FLOATS:',
        'greater = call.name == "GreaterOrEqual"\n    if call.data.dtype == ir.DataType.DOUBLE:',
        ("tests/onnx/test_old_opsets.py",),
        "below opset 12, nan is greater than or equal to anything",
    ),
    Fault(
        "padding-from-the-back",
        "opsets",
        "conversion/adapters/axes.py",
        "    axes = _positive(axes, rank)\n    amounts",
        "    amounts",
        ("tests/conversion/test_adapters.py",),
        "converted below opset 18, Pad swaps the amounts of an axis that is counted from the back",
    ),
    # Verification
    Fault(
        "infinite-tolerance",
        "verification",
        "verification/compare.py",
        "        limit.masked_fill_(error.isinf(), 0)  # an infinity has to be equal\n",
        "",
        ("tests/verification/test_compare.py",),
        "any number agrees with an infinity",
    ),
    Fault(
        "twice-the-tolerance",
        "verification",
        "verification/compare.py",
        "relative = math.sqrt(eps)",
        "relative = 2 * math.sqrt(eps)",
        ("tests/verification/test_compare.py", "tests/verification/test_verification.py"),
        "twice the difference is tolerated",
    ),
    Fault(
        "no-batch-of-one",
        "verification",
        "verification/dynamic_sizes.py",
        "else self._least(symbol, 1) for symbol in self.example}",
        "else self._least(symbol, 2) for symbol in self.example}",
        ("tests/verification/test_dynamic_sizes.py",),
        "no size of 1 is tried",
    ),
    Fault(
        "one-seed",
        "verification",
        "verification/fresh_inputs.py",
        "(seed * 1_000_003 + position) % (1 << 63)",
        "(1_000_003 + position) % (1 << 63)",
        ("tests/verification/test_fresh_inputs.py",),
        "all runs have the same fresh inputs",
    ),
    # Kernels
    Fault(
        "end-of-a-row",
        "kernels",
        "kernels/builtin/compute/upsample_bicubic.h",
        "convert(from, wide, args.in[1]);",
        "convert(from, wide, args.in[1] + 1);",
        ("tests/kernels/test_builtin_kernels.py",),
        "a row of 16-bit numbers is read one beyond its end, which changes no result",
    ),
    Fault(
        "row-of-another-channel",
        "kernels",
        "kernels/builtin/compute/rows.h",
        "std::clamp(size - start, begin, count)",
        "std::clamp(size - start + 1, begin, count)",
        ("tests/kernels/test_builtin_kernels.py",),
        "a convolution over time takes one number of the next channel for the padding behind a row",
    ),
    Fault(
        "last-pixel",
        "kernels",
        "kernels/builtin/compute/roi_align.h",
        "left >= pixels - 1 ? A(0)",
        "left >= pixels ? A(0)",
        ("tests/kernels/test_builtin_kernels.py",),
        "a sample beyond the last pixel counts for less than that pixel",
    ),
    Fault(
        "flags-of-a-build",
        "kernels",
        "kernels/build.py",
        "[compiler.version, *given, *flags, *names, *settings.architectures]",
        "[compiler.version, *names, *settings.architectures]",
        ("tests/kernels/test_kernel_build.py", "tests/kernels/test_build_cache.py"),
        "a kernel that was built with other flags is taken from the cache",
    ),
    # Attacks
    Fault(
        "index-one-beyond",
        "attacks",
        "kernels/aten/checks_indexed.cpp",
        'all_between(indices.integers(), 0, weight.size(0) - 1, "indices");',
        'all_between(indices.integers(), 0, weight.size(0), "indices");',
        ("tests/kernels/test_aten_checks.py",),
        "a file may have embedding_bag read one row beyond its weight",
    ),
    Fault(
        "unknown-mode",
        "attacks",
        "kernels/aten/checks_shaped.cpp",
        'call.require_between("padding_mode", 0, 2);',
        'call.require_between("padding_mode", 0, 3);',
        ("tests/kernels/test_aten_checks.py", "tests/kernels/test_aten_evidence.py"),
        "a file may have grid_sampler pad in a mode that there is not",
    ),
    Fault(
        "saved-in-two-steps",
        "attacks",
        "save/replacing.py",
        "            if len(self._replacing) > 1:\n                backups",
        "            if self._replacing:\n                backups",
        ("python -m attack --only killed_saves --each 30 --seed 1", "tests/attack/test_killed_saves.py"),
        "a save that is killed leaves no model, neither the old one nor the new one",
    ),
    Fault(
        "order-of-text",
        "attacks",
        "errors.py",
        "\\u2028-\\u202e",
        "\\u2028-\\u202d",
        ("tests/runtimes/test_hostile_files.py",),
        "a name in a file may change the order in which a message is shown",
    ),
    Fault(
        "list-of-any-length",
        "attacks",
        "kernels/include/opbridge/adapter/function_schema.h",
        "if (item.length > INT32_MAX) next_.fail(",
        "if (item.length < 0) next_.fail(",
        ("tests/attack/test_parsers.py",),
        "a file may name a list of any length, which overflows",
    ),
)
