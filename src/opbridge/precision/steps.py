"""The steps of a cast: reading, running, choosing, searching, rewriting and comparing."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from opbridge.base.wording import listed
from opbridge.conversion.converting import without_weights
from opbridge.conversion.types import checked, mistyped
from opbridge.errors import ModelFileError, OpbridgeError, PrecisionError
from opbridge.onnx import damage, reading, transposed_products
from opbridge.onnx.serialize import serialize
from opbridge.precision.calls import outlined
from opbridge.precision.choosing import Chooser
from opbridge.precision.copies import Copy
from opbridge.precision.drawn import drawn_outputs, give_seeds, is_alike
from opbridge.precision.emulating import emulated, with_unwritten_weights
from opbridge.precision.feeding import Expected, expected, given_to, opened
from opbridge.precision.formats import Format
from opbridge.precision.forms import Form, form_of
from opbridge.precision.judging import Apart, apart
from opbridge.precision.measuring import Measured, measure
from opbridge.precision.preparing import Prepared, prepared
from opbridge.precision.report import Narrowed, Output
from opbridge.precision.rewriting import Rewriter
from opbridge.precision.searching import Search
from opbridge.precision.sharing import SharedWeights, StepModel
from opbridge.precision.simulating import Simulation
from opbridge.precision.types import graphs
from opbridge.rules.measured import Inputs

__all__ = ["Fit", "Unsupported", "Work"]

# The operator in a message of ONNX's inference, or of ONNX Runtime.
_OPERATOR = re.compile(r"(?:op_type:|while running |implementation for )(\w+)")

# What ONNX Runtime says of a model with operators or types that it does not have.
_LACKING = ("NOT_IMPLEMENTED", "is not a registered function/op")

Fit: TypeAlias = Callable[[ir.Model], Mapping[str, str] | None]


class Unsupported(PrecisionError):
    """ONNX's inference or ONNX Runtime refuses the cast model.

    Attributes:
        said: Their message.
    """

    def __init__(self, message: str, said: str, result: Narrowed | None = None) -> None:
        super().__init__(message, result)
        self.said = said


class Work:
    """The steps of a cast."""

    def __init__(
        self,
        content: str | bytes,
        label: str,
        to: Format,
        tolerance: float,
        said: Callable[[str], None],
        fit: Fit,
        newest: int | None = None,
    ) -> None:
        self._content, self._label, self._to, self._said, self._fit = content, label, to, said, fit
        self._newest = newest
        self.tolerance = tolerance
        self._expected = Expected(note="The comparison was disabled.")
        self._measured: Measured | None = None
        self._before: float | None = None
        self._search: Search[ir.Node] | None = None
        self._is_refused = False
        self._weights: SharedWeights | None = None

    def read(self) -> None:
        """Reads the model.

        Raises:
            ModelFileError: It cannot be read.
            PrecisionError: It has no values of float32.
        """
        loaded = reading.load(self._content)
        damage.refuse(loaded, self._label)
        self._size = serialize(loaded).size()
        found: Prepared = prepared(loaded, self._label, self._to, self._newest)
        self.model, self._opsets, self._floats, self._calls = found.model, found.opsets, found.floats, found.calls
        self._weights = found.weights
        self._drawn = drawn_outputs(self.model)

        @functools.cache
        def form(node: ir.Node) -> Form:
            return form_of(node, found.opsets[1], self._to, self._floats)

        self._form = form
        self._chooser = Chooser(self.model, self._to, self._floats, form)
        if not self._chooser.candidates():
            raise PrecisionError(
                f"{self._label} has nothing to cast: no operator of the model computes float32 values that "
                f"{self._to.name} could replace at opset {found.opsets[1]}. Nothing was written."
            )

    def close(self) -> None:
        """Removes what the steps have written."""
        if self._weights is not None:
            self._weights.close()

    def run(self, inputs: Inputs | None, keep_io: bool) -> None:
        """Runs the float32 model.

        Raises:
            ModelFileError: It does not load, and is not valid.
            PrecisionError: It does not run on random inputs.
        """
        self._said("running the float32 model")
        self._expected = expected(self._content, self.model, inputs, None if keep_io else self._to)
        if self._expected.refused:
            self._refuse_invalid()
        if self._expected.rejected:
            raise PrecisionError(
                f"{self._label} was not cast: {self._expected.note} Nothing was written. Give inputs that it accepts "
                "with --inputs FILE.npz (inputs=), one array for each input, as numpy.savez writes them; or "
                "--no-verify (verify=False) to choose by constants and operators alone."
            )

    def _refuse_invalid(self) -> None:
        """Refuses a model that is not valid, of those that ONNX Runtime does not load.

        Raises:
            ModelFileError: ONNX's checker, or its inference where all operators are known, rejects it too.
        """
        model = without_weights(reading.load(self._content))
        is_known = not any(each in self._expected.note for each in _LACKING)
        if said := checked(model) or (is_known and mistyped(model)):
            raise ModelFileError(
                f"{self._label} was not cast: it is not a valid model. ONNX's checker says: "
                f"{' '.join(said.split())[:300].rstrip('.')}. Nothing was written. Export the model again."
            )

    def choose(self, keep: Sequence[str]) -> None:
        """Chooses the nodes that stay."""
        if self._expected.feeds:
            self._said("measuring the values of the model")
            try:
                self._measured = measure(
                    self.model, self._to, self._floats, self._form, self._expected.feeds, self._shared()
                )
            except OpbridgeError as error:
                self._expected.note = f"Its values could not be measured: {' '.join(str(error).split())[:200]}"
        self._chooser.choose(keep, self._measured, self._expected.given, self.tolerance)

    def search(self, tolerance: float) -> None:
        """Puts nodes back until the simulation is within a tolerance."""
        nodes = self._chooser.candidates()
        compared = set(self._expected.names) - self._drawn
        if not self._expected.feeds or not compared or not nodes:
            return
        self._said("simulating")
        simulation = Simulation(self.model, self._to, self._floats, self._form, nodes, self._chooser.stored())
        try:
            found = self._searched(simulation, nodes, tolerance)
        except OpbridgeError as error:  # the comparison of the cast model decides alone
            self._expected.note = f"Nothing was simulated: {' '.join(str(error).split())[:200]}"
            return
        for node, alone in found.back.items():
            why = f"Alone in {self._to.name}, it changes the outputs by {min(alone, 1.0):.2g} of their RMS."
            self._chooser.keep(node, "output", why)
        self._chooser.close()

    def _searched(self, simulation: Simulation, nodes: Sequence[ir.Node], tolerance: float) -> Search[ir.Node]:
        """What has to be put back. A search that was begun goes on.

        Raises:
            OpbridgeError: The simulation does not load.
        """
        places = {node: at for at, node in enumerate(nodes)}
        with opened(self._shared().model(simulation.model)) as session:

            def error_of(chosen: Sequence[ir.Node]) -> float:
                flags = np.zeros(max(len(nodes), 1), np.bool_)
                flags[[places[node] for node in chosen]] = True
                worst = 0.0
                for feeds, want in zip(self._expected.feeds, self._expected.outputs, strict=True):
                    try:
                        have = session.run(self._expected.names, {**feeds, simulation.choice: flags})
                    except OpbridgeError:  # a rounded number that is an index or a size
                        return float("inf")
                    triples = zip(self._expected.names, want, have, strict=True)
                    errors = [apart(one, other).error for name, one, other in triples if name not in self._drawn]
                    worst = max(worst, *errors, 0.0)
                return worst

            if self._search is None:
                self._before = error_of(nodes)
                if self._before > tolerance / 2 and self._measured is not None:
                    self._chooser.keep_inexact(self._measured, tolerance)
                self._search = Search(nodes, self._said)
                if self._before <= tolerance and not any(node in self._chooser.kept for node in nodes):
                    return self._search
            self._search.leave_out([node for node in self._search.nodes() if self._is_out(node, places)])
            self._search.put_back(error_of, tolerance)
        return self._search

    def _is_out(self, node: ir.Node, places: Mapping[ir.Node, int]) -> bool:
        """Whether a node stays for another reason than the search."""
        return node in self._chooser.kept or node not in places

    def keep_unsupported(self, unsupported: Unsupported) -> bool:
        """Has the operators stay that a message names; whether there are any."""
        named = set(_OPERATOR.findall(unsupported.said))
        why = f"In {self._to.name}: {' '.join(unsupported.said.split())[-160:]}"
        if self._chooser.keep_operators(named, why):
            return True
        if "bound to different types" not in unsupported.said:
            return False
        return self._chooser.keep_operators(self._chooser.functions(), why)

    def _keep_refused(self, refused: Mapping[str, str]) -> bool:
        """Has nodes stay that what runs the model refuses; whether there are any."""
        found = {}
        for node in self._chooser.candidates() if refused else ():
            if (why := refused.get(node.name or (node.outputs[0].name or ""))) is not None:
                found[node] = why
        for node, why in found.items():
            self._chooser.keep(node, "target", why)
        self._chooser.close()
        return bool(found)

    def rewritten(self, keep_io: bool) -> Narrowed:
        """The model in the format, without a comparison.

        Raises:
            PrecisionError: A type is not what an operator takes or gives.
        """
        copy = Copy(self.model)
        originals = {twin: node for node, twin in copy.nodes.items()}
        none = Form((), ())
        graph = self.model.graph
        wide_inputs, wide_outputs = (
            {value for value in values if value in self._floats and (keep_io or self._chooser.is_wide(value))}
            for values in (graph.inputs, graph.outputs)
        )
        rewriter = Rewriter(
            copy.model,
            self._to,
            copy.floats(self._floats),
            lambda node: self._form(originals[node]) if node in originals else none,
            copy.chosen(self._chooser.kept),
            copy.chosen(self._chooser.stored()),
        )
        rewriter.rewrite({copy.values[each] for each in wide_inputs}, {copy.values[each] for each in wide_outputs})
        # As in an export, so that ONNX Runtime loads the file on the CPU.
        transposed_products.keep_apart(copy.model, (ir.DataType.FLOAT16,))
        refused = self._fit(copy.model)
        if refused is None or self._keep_refused(refused):
            return self.rewritten(keep_io)
        self._narrow = rewriter.narrow_values() | {
            value
            for each in graphs(copy.model.graph)
            for value in (*each.inputs, *each.initializers.values(), *(made for node in each for made in node.outputs))
            if value.dtype == self._to.dtype
        }
        self._flat = copy.model
        made = outlined(copy.model, self._calls)
        if made is not copy.model and mistyped(without_weights(made)):
            made = copy.model
        if (said := mistyped(without_weights(copy.model))) and not mistyped(without_weights(self.model)):
            raise Unsupported(
                f"{self._label} was not cast: ONNX's inference rejects the types of the result "
                f"({' '.join(said.split())[:400]}). Nothing was written. This is a bug in opbridge; please report it "
                "with the model.",
                said,
            )
        wide = [] if keep_io else [each.name or "" for each in (*wide_inputs, *wide_outputs)]
        return Narrowed(
            made,
            self._to.name,
            len(self._chooser.candidates()),
            list(self._chooser.kept.values()),
            list(dict.fromkeys(wide)),
            self.tolerance,
            before=self._before,
            given=self._expected.given,
            note=self._expected.note,
            sizes=(self._size, serialize(made).size()),
            opsets=self._opsets,
        )

    def compare(self, result: Narrowed, write: Callable[[], Path] | None) -> None:
        """Runs the cast model, with every rounding; of float16 the file itself too, in ONNX Runtime.

        The file is written when the results with every rounding are within the tolerance. Once ONNX Runtime has
        refused a model, the next ones run before they are written, with weights that are cast when they are read.

        Args:
            result: The model, which gets the comparison.
            write: Writes it, and returns the path; None: it is not to be written, and runs without.

        Raises:
            PrecisionError: It does not load where the float32 model does.
        """
        if not self._expected.feeds:
            if write is not None:
                write()
            return
        self._said("comparing")
        found: dict[str, list[Apart]] = {}
        self._run(self._shared().model(emulated(self._flat, self._to, self._narrow)), result, found)
        if self._drawn:
            self._compare_drawn(result)
        is_run = self._to.name == "float16"
        if result.ok and is_run and (write is None or self._is_refused):
            self._run(self._shared().model(with_unwritten_weights(result.model, self._to)), result, found)
        if result.ok and write is not None:
            path = write()
            if is_run:
                self._run(path, result, found)

    def _run(self, model: Path | StepModel, result: Narrowed, found: dict[str, list[Apart]]) -> None:
        """Runs a model that is to give what the float32 model gives.

        Args:
            model: The model, or its file.
            result: Gets the comparison of this run and those before.
            found: The comparisons by the names of the outputs, to which this one is added.

        Raises:
            Unsupported: It does not run.
        """
        try:
            self._compare(model, found)
        except OpbridgeError as error:
            self._is_refused = True
            raise Unsupported(
                f"{self._label} was not cast: the model runs in float32, but the cast model fails: "
                f"{' '.join(str(error).split())[:400]} Nothing was written.",
                str(error),
                result,
            ) from error
        if found:
            result.runs = len(self._expected.feeds)
            drawn = [each for each in result.outputs if each.name in self._drawn and each.name not in found]
            result.outputs = [*_outputs(found), *drawn]

    def _compare_drawn(self, result: Narrowed) -> None:
        """Compares the outputs that depend on random numbers, which both models draw with the same seeds.

        Where a rounded number decides what is drawn, the outputs may be far apart although nothing is wrong. The report
        has what is beyond the tolerance, which does not count.
        """
        named = listed(sorted(self._drawn), 5)
        found: dict[str, list[Apart]] = {}
        models = Copy(self.model).model, emulated(self._flat, self._to, self._narrow)
        for each in models:
            give_seeds(each)
        try:
            for feeds in self._expected.feeds:
                # Each in sessions of its own, as a session goes on drawing.
                want, have = (self._run_once(each, feeds) for each in models)
                for name, one, other in zip(self._expected.names, want, have, strict=True):
                    if name in self._drawn:
                        found.setdefault(name, []).append(apart(one, other))
        except OpbridgeError as error:
            found = {}
            said = f" With fixed seeds, the model does not run: {' '.join(str(error).split())[:200]}"
        else:
            worst = max((one.error for each in found.values() for one in each), default=0.0)
            said = f" With fixed seeds, their error is {worst:.2g}, which does not count." if found else ""
            if worst <= result.tolerance:
                result.runs = len(self._expected.feeds)
                result.outputs += _outputs(found)
                result.note = f"Random numbers determine {named}, compared with fixed seeds."
                return
        result.note = (
            f"Random numbers determine {named}: of these outputs, the rank was compared, and whether they are finite."
            f"{said}"
        )

    def _run_once(self, model: ir.Model, feeds: Mapping[str, np.ndarray]) -> list[Any]:
        with opened(self._shared().model(model)) as session:
            return session.run(None, given_to(session, feeds))

    def _shared(self) -> SharedWeights:
        assert self._weights is not None
        return self._weights

    def _compare(self, model: Path | StepModel, found: dict[str, list[Apart]]) -> None:
        with opened(model) as session:
            for feeds, want in zip(self._expected.feeds, self._expected.outputs, strict=True):
                have = session.run(None, given_to(session, feeds))
                for name, one, other in zip(self._expected.names, want, have, strict=True):
                    if name not in self._drawn:
                        found.setdefault(name, []).append(apart(one, other))
                    elif not is_alike(one, other):
                        found.setdefault(name, []).append(Apart(float("inf"), float("inf")))


def _outputs(found: Mapping[str, Sequence[Apart]]) -> list[Output]:
    """The comparisons of outputs by name, the worst run of each."""
    return [
        Output(name, max(each.error for each in parts), max(each.largest for each in parts))
        for name, parts in found.items()
    ]
