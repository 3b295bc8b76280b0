"""`opbridge.bisect`: the first operator that differs, from PyTorch, between files, runtimes or optimisation levels."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from opbridge.errors import OpbridgeError, UsageError
from opbridge.rules.measured import Inputs
from opbridge.runtimes.limits import Limits
from opbridge.verification.bisection import beside_pytorch, reproducing
from opbridge.verification.bisection.cases import Located
from opbridge.verification.bisection.comparing import Pair, judge_of, paired, pairs_of_runs
from opbridge.verification.bisection.files import DISABLED, FileSide, Setting
from opbridge.verification.bisection.judging import Judge
from opbridge.verification.bisection.locating import examined, locate
from opbridge.verification.bisection.matching import Matched, matched
from opbridge.verification.bisection.regions import MOST_VALUES, between_files
from opbridge.verification.bisection.report import Bisection
from opbridge.verification.bisection.search import Search

__all__ = ["bisect"]

_LEAST_MATCHED = {"names": 0.5, "operators": 0.95}
"""Where a smaller share of the nodes than this has a counterpart, values are matched by what they hold."""


def bisect(
    first: str | os.PathLike[str] | bytes,
    second: Any = None,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    inputs: Inputs | None = None,
    runtime: str = "onnxruntime",
    against: str | None = None,
    optimization: str = DISABLED,
    rtol: float | None = None,
    atol: float | None = None,
    isolated: bool | Limits = True,
    reproduce: str | os.PathLike[str] | None = None,
) -> Bisection:
    """Finds the first operator that differs: between a file and PyTorch, two files, or two runtimes of one file.

    1. The outputs of both sides are compared on the same inputs, with the tolerances of `opbridge.verify`.
    2. Where one differs, intermediate values that both sides have are compared. Each run fetches a cut of the graph,
       which has few values, and leaves half of the operators or less: some log2(n) runs of each side. Only values that
       the wrong output depends on are looked at, and a difference that later operators cancel does not mislead.
    3. The operator that is found runs alone on both sides, on the inputs that it has on the first one. So it is known
       whether it differs itself, or amplifies a difference that is in its inputs.
    4. The search goes on in the branch that an If takes, in the body of a function, and in the first iteration of a
       Loop or Scan that differs, for which the node runs with fewer iterations. Beside PyTorch that is one of the
       captured loop. What is the translation of one operator is searched beside a new translation by opbridge, where
       that agrees with PyTorch and has the nodes of the file; else it is named as a whole.
    5. Values of two files are matched by names, else by operators, else by what they hold; those of a file and PyTorch,
       which are those of the captured graph, by the metadata that opbridge writes, else by what they hold.
    6. With an optimization level, the values are those of the optimised model with these values as outputs in addition.
       If the difference disappears when a value is fetched, the operators between which that is so are named.

    Args:
        first: The path or content of an ONNX file. It is the expected side, except beside PyTorch.
        second: The PyTorch model, or the path or content of another file; None: the file is compared with itself.
        args: For a PyTorch model, the example inputs: a tuple, or one tensor.
        kwargs: For a PyTorch model, the example keyword inputs.
        inputs: For files, arrays by the names of the inputs or in their order, or the path of an .npz file; None:
            random ones.
        runtime: The runtime of the file, or of both.
        against: The runtime of the expected side; None: the same one. For one file alone with an optimization level,
            the expected side is the runtime without optimizations.
        optimization: ONNX Runtime's level of graph optimisations: disabled, basic, extended or all.
        rtol: The relative difference allowed, instead of one by dtype.
        atol: The absolute difference allowed, instead of one by dtype.
        isolated: Whether files run in processes of their own, or with which limits. False: they run in this
            process, but for what holds a Loop whose number of iterations is no constant. A run of that may never end,
            and only a process of its own can be ended: it has the limits of `Limits()`.
        reproduce: A folder in which the operator is written with its inputs and a script that shows the difference.

    Returns:
        What was found; it is `ok` where all outputs agree.

    Raises:
        CaptureError: The PyTorch model cannot be captured.
        ModelFileError: A file cannot be read, or the runtime refuses it.
        RunError: A run ends its process or is over the limits.
        SaveError: The reproducer cannot be written.
        UsageError: The two sides do not belong together, or an argument is invalid.
    """
    start = time.perf_counter()
    actual = Setting(runtime, optimization, isolated)
    with contextlib.ExitStack() as stack:
        if second is None or isinstance(second, (str, os.PathLike, bytes)):
            if args is not None or kwargs is not None:
                raise UsageError("args= and kwargs= are valid only for a PyTorch model. Give inputs= for files.")
            expected = _expected(second is None, actual, against)
            files = first, first if second is None else second
            found, located = _files(stack, files, (expected, actual), inputs, rtol, atol)
        else:
            if against is not None:
                raise UsageError("against= (--against) is valid only for files. Leave it out.")
            if inputs is not None:
                raise UsageError("inputs= (--inputs) is valid only for files. Give the inputs as args= or kwargs=.")
            found, located = beside_pytorch.bisect(stack, first, second, args, kwargs, actual, rtol, atol)
        if reproduce is not None and located is not None:
            found.files = reproducing.write(Path(reproduce), located, found)
    found.seconds = time.perf_counter() - start
    return found


def _expected(is_one_file: bool, actual: Setting, against: str | None) -> Setting:
    """Where the expected side runs.

    Raises:
        UsageError: There is nothing to compare one file with.
    """
    if not is_one_file and against is None:
        return actual
    expected = Setting(against or actual.runtime, DISABLED, actual.isolated)
    if is_one_file and expected == actual:
        raise UsageError(
            "One file in one runtime has nothing to be compared with. Give another file or a model, another runtime "
            "in against= (--against), or a level in optimization= (--optimization)."
        )
    return expected


def _files(
    stack: contextlib.ExitStack,
    files: tuple[Any, Any],
    settings: tuple[Setting, Setting],
    inputs: Inputs | None,
    rtol: float | None,
    atol: float | None,
) -> tuple[Bisection, Located | None]:
    """The first operator that differs between two files, or in two runtimes of one."""
    left, right = (stack.enter_context(FileSide.of_file(*each)) for each in zip(files, settings, strict=True))
    is_one = files[0] is files[1]
    if left.label == right.label and not is_one:
        for side, name in ((left, "the first model"), (right, "the second model")):
            side.label = side.index.label = name
    judge = judge_of(left, right, rtol, atol)
    found = Bisection((left.label, right.label), (left.setting.label, right.setting.label))
    if is_one:
        found.sides, found.file = judge.sides, left.label
    found.nodes = len(left.index.nodes)
    pair = paired(left, right)
    found.notes += pair.notes
    if pair.reason:
        found.reason = pair.reason
        return found, None
    with contextlib.closing(pairs_of_runs(left, right, inputs)) as runs:
        for _, expected, actual in runs:
            found.outputs = tuple(pair.compared(judge, expected, actual))
            if not found.ok:
                break
    located = None
    if not found.ok:
        located = _located(left, right, pair, found, judge, is_one)
    found.culprit = located.culprit if located is not None else None
    found.runs = left.runs + right.runs
    return found, located


def _located(
    left: FileSide, right: FileSide, pair: Pair, found: Bisection, judge: Judge, is_one: bool
) -> Located | None:
    others = {name: right.index.outputs[place] for name, place in zip(pair.names, pair.places, strict=True)}
    wrong = [each for each in found.outputs if not each.ok and each.name in left.index.makers]
    if not wrong:
        found.reason = "the outputs that differ are inputs or initializers of the file"
        return None
    name = min((each.name for each in wrong), key=left.index.makers.__getitem__)
    if others[name] not in right.index.makers:
        found.reason = f"the output '{others[name]}' of {right.label} is an input or an initializer of it"
        return None
    names = Matched({name: name for name in left.index.makers}) if is_one else None
    if names is None:
        names = matched(left.index, right.index, lambda tensor: _digest(left, right, tensor))
    names[name] = others[name]
    try:
        large = max(len(left.index.makers), len(right.index.makers)) > MOST_VALUES
        if names.share < _LEAST_MATCHED[names.how] and not large:
            found.notes.append(
                "the files have few values with the same names or operators, so values are matched by what they hold"
            )
            parting = between_files(left, right, name, others[name])
            search = Search(parting.value, [parting.value])
            return examined(left, right, parting.same, search, parting.parents, judge, ())
        return locate(left, right, names, name, judge)
    except OpbridgeError as error:
        found.reason = str(error).rstrip(".")
        return None


def _digest(left: FileSide, right: FileSide, tensor: onnx.TensorProto) -> bytes:
    side = left if left.index.constants.get(tensor.name) is tensor else right
    return hashlib.sha1(side.workspace.content(tensor)).digest()
