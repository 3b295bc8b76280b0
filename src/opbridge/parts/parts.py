"""`opbridge.Parts`: several models that belong together, exported as one set of files."""

from __future__ import annotations

import difflib
import inspect
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from opbridge import pipeline
from opbridge.base import specs
from opbridge.base.wording import listed
from opbridge.errors import UsageError
from opbridge.parts import exporting
from opbridge.parts.data import ExportedParts, GivenParts, Part, PartsVerification

if TYPE_CHECKING:
    from opbridge.plan.data import Plan

__all__ = ["Parts"]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_FORM = "(model, args), (model, args, keywords) or what opbridge.record returned"
_NOT_OF_A_PART = {"model", "args", "f", "progress", "legacy", "external_data", "verify", "report"}


class Parts(GivenParts):
    """Several models that belong together, exported as one set: an encoder and a decoder, a text and an image tower.

        def run(parts, ids, start):
            states = parts.encoder(ids)
            return parts.decoder(start, states)

        parts = opbridge.Parts(
            {"encoder": (encoder, (ids,)), "decoder": (decoder, (start, states), {"dynamic_shapes": ...})},
            run=run, args=(ids, start),
        )
        parts.export("folder")             # folder/encoder.onnx, folder/decoder.onnx, folder/weights.1a2b3c4d.data

    The file of weights holds those of all parts; memory that parts share, such as tied embeddings, is stored once.
    `run` is called with PyTorch's models and with the files in their places, and its results are compared: the parts
    are called as their models are, and return what these return. A factory of the command line may return `Parts`.
    """

    def __init__(
        self,
        parts: Mapping[str, Any],
        *,
        run: Callable[..., Any] | None = None,
        args: Any = (),
        kwargs: Mapping[str, Any] | None = None,
        inputs: Any = None,
    ) -> None:
        """Args:
            parts: The models by name, each as `(model, args)` or `(model, args, keywords)`, with the keywords of
                `opbridge.export`, or as what `opbridge.record` returned. The names are those of the files.
            run: The whole pipeline: `run(parts, *args, **kwargs)` calls the parts by their names and returns tensors,
                nested as you like; None: only the parts are compared, each by itself.
            args: Example inputs of `run`: a tuple, or one tensor.
            kwargs: Example keyword inputs of `run`.
            inputs: Further inputs of `run`, in the place of fresh random ones, also of other sizes: a list with a tuple
                of `args` or a dict of `kwargs` for each call, or a function of the call's number that returns one.

        Raises:
            UsageError: A part, a name or an argument of another form.
        """
        if not isinstance(parts, Mapping) or not parts:
            raise UsageError(f"Parts expects a dict of models by name, each given as {_FORM}.")
        checked = {name: _part(name, given) for name, given in parts.items()}
        if run is not None and not callable(run):
            raise UsageError(
                f"run= is a {type(run).__name__}; expected a function that is called as run(parts, *args)."
            )
        if run is None and (kwargs or inputs is not None or not isinstance(args, (tuple, list)) or args):
            raise UsageError(
                "args=, kwargs= and inputs= of Parts are valid only together with run=. Pass run=, or leave them out."
            )
        if isinstance(args, torch.Tensor):
            args = (args,)
        if not isinstance(args, (tuple, list)):
            raise UsageError(f"args= of Parts is a {type(args).__name__}; expected a tuple of example inputs of run.")
        super().__init__(checked, run, tuple(args), dict(kwargs or {}), inputs)

    def check(self, **keywords: Any) -> dict[str, Plan]:
        """The plan of each part, as `opbridge.check` makes it.

        Args:
            **keywords: `report`, and other keywords of `opbridge.check` for all parts, in the place of their own.

        Raises:
            CaptureError: A part cannot be captured; the message names it.
            UsageError: Arguments that cannot be used.
        """
        return exporting.check(self, keywords)

    def export(self, f: str | os.PathLike[str] | None = None, **keywords: Any) -> ExportedParts:
        """Exports all parts to one folder, and compares each of them, and the pipeline, with PyTorch.

        The set is written whole or not at all: the files of the folder are replaced together, once everything agrees.

        Args:
            f: The folder, which is made where it does not exist; None keeps the models in memory.
            **keywords: `external_data` (False puts the weights into each file), `verify`, `rtol`, `atol`, `progress`,
                `report` (one page for the set, with the picture of each part), and other keywords of `opbridge.export`
                that are for all parts, in the place of their own.

        Raises:
            CaptureError, MissingOperators, TranslationFault: as `opbridge.export` raises them; the message names the
                part.
            SaveError: The set cannot be written; what stood in the folder before still does.
            VerificationError: A part, or the pipeline, does not give what PyTorch gives. The files are kept as
                `NAME.failed.onnx` in the folder until a later export of these parts is verified; those of the set
                before are as they were.
            UsageError: Arguments that cannot be used, or `run` calls a part with inputs that its file does not take.
        """
        return exporting.export(self, None if f is None else Path(f), keywords)

    def verify(self, f: str | os.PathLike[str], **options: Any) -> PartsVerification:
        """Compares the files of a set with PyTorch again: each part, and the pipeline.

        Args:
            f: The folder.
            **options: `samples`, `seed`, `rtol`, `atol`, `aten`, `isolated` and `report` of `opbridge.verify`.

        Raises:
            ModelFileError: A file is missing or damaged.
            UsageError: Inputs that do not fit the files.
        """
        return exporting.verify(self, Path(f), options)


def _part(name: Any, given: Any) -> Part:
    """A part from one of its forms.

    Raises:
        UsageError: It is of none.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid name for a part, because it is used as a file name. Use letters, digits, '_' "
            "and '-'."
        )
    if isinstance(given, specs.SubjectSource):
        given = given.subject()
    if not isinstance(given, tuple) or len(given) not in (2, 3):
        raise UsageError(f"Part '{name}' is a {type(given).__name__}. Give {_FORM}.")
    model, args, *rest = given
    keywords = rest[0] if rest else {}
    if isinstance(args, torch.Tensor):
        args = (args,)
    if not callable(model) or not isinstance(args, (tuple, list)) or not isinstance(keywords, dict):
        kinds = ", ".join(type(each).__name__ for each in given)
        raise UsageError(f"Part '{name}' is ({kinds}). Give {_FORM}; args is a tuple, and keywords a dict.")
    known = inspect.signature(pipeline.export).parameters.keys() - _NOT_OF_A_PART
    for key in keywords:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else f" Its valid keywords are {listed(sorted(known), 30)}."
            if key in _NOT_OF_A_PART:
                hint = " It applies to the whole set. Pass it to Parts.export."
            raise UsageError(f"Part '{name}': unknown argument '{key}'.{hint}")
    return Part(model, tuple(args), dict(keywords))
