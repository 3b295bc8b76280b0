"""`FILE.py:FACTORY` and `package.module:FACTORY`: how the command line is told which model is meant.

The factory takes nothing and returns `(model, args)` or `(model, args, keywords)`, where the keywords are those of
`opbridge.export`; or what `opbridge.record` returned, or several models as `opbridge.Parts`.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Protocol, runtime_checkable

from opbridge.base.sources import PACKAGE_FOLDER, innermost
from opbridge.errors import UsageError

__all__ = ["Subject", "SubjectSource", "attribute", "checked", "load", "returned"]

_FORM = "FILE.py:FACTORY or package.module:FACTORY, as in examples/deform_net.py:build"
_RETURNS = "return (model, args) or (model, args, keywords), with args a tuple of example inputs"
_LONGEST_MESSAGE = 400

_imported: dict[Path, tuple[bytes, ModuleType]] = {}
"""The files imported so far, with their content. One that is the same is not run again, as Python imports modules once.
A second run would define the file's custom operators again, and torch (2.13 to 2.15) then frees those of the first run
while objects of that run still call them: they run any operator that took the place."""


@dataclass(frozen=True)
class Subject:
    """A model and what to export it with.

    Attributes:
        spec: The text that named it.
        model: A module, a function or an ExportedProgram.
        args: The example inputs.
        keywords: Further keywords of `opbridge.export`: kwargs, dynamic_shapes, input_names, ...
    """

    spec: str
    model: Any
    args: tuple[Any, ...]
    keywords: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class SubjectSource(Protocol):
    """What a factory may return in the place of a tuple."""

    def subject(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """The model, the example inputs, and keywords of `opbridge.export`."""


def load(spec: str, known: Collection[str] | None = None, *, model_alone: bool = False) -> Subject:
    """Imports what a spec names, calls the factory and checks that it returns one model: `returned` and `checked`.

    Args:
        spec: As for `returned`.
        known: The keywords that the factory may return; None accepts any.
        model_alone: Whether the factory may return a model without inputs.
    """
    found = returned(spec)
    if model_alone and callable(found):
        found = (found, ())
    return checked(spec, found, known)


def returned(spec: str) -> Any:
    """Imports what a spec names, and calls the factory.

    1. The file's folder, or the current directory for a module, is put first on `sys.path`, as Python does it for a
       script and for `python -m`.
    2. The file or module is imported, once as long as it stays the same; a file under a name of its own, so that it
       hides no installed package.
    3. The factory is looked up, and called with nothing.
    4. Before either, torch's generator is seeded where torch is loaded: random weights are then the same in every run,
       so that a file can be verified in another run than the one that exported it.

    Args:
        spec: `FILE.py:FACTORY` or `package.module:FACTORY`.

    Raises:
        UsageError: any of this fails; with the line in the user's file where there is one.
    """
    place, separator, name = spec.rpartition(":")
    if not separator or not place or not name.isidentifier():
        file = place or name
        hint = f" {file} is a file; add the name of a function in it: {file}:build." if Path(file).is_file() else ""
        raise UsageError(f"'{spec}' is not a valid SPEC. Write {_FORM}.{hint}")
    _seed()
    module = _import_file(spec, Path(place)) if _is_file(place) else _import_module(spec, place)
    factory = _find(spec, module, place, name)
    _seed()
    with _explained(f"{name}() of {place}"):
        return factory()


def attribute(spec: str, what: str) -> Any:
    """What `FILE.py:NAME` or `package.module:NAME` names, as it is.

    Args:
        spec: The text.
        what: What it should be, for the errors.

    Raises:
        UsageError: there is no such file, module or name, or importing it raises.
    """
    place, separator, name = spec.rpartition(":")
    if not separator or not place or not name.isidentifier():
        raise UsageError(f"'{spec}' is not a valid {what}. Write FILE.py:NAME or package.module:NAME.")
    module = _import_file(spec, Path(place)) if _is_file(place) else _import_module(spec, place)
    if not hasattr(module, name):
        raise UsageError(f"{place} has no '{name}'; expected a {what}. Correct the name.")
    return getattr(module, name)


def _is_file(place: str) -> bool:
    return place.endswith(".py") or "/" in place or os.sep in place or Path(place).is_file()


def _seed() -> None:
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


def _import_file(spec: str, path: Path) -> ModuleType:
    if not path.is_file():
        kind = "is a folder" if path.is_dir() else "does not exist"
        near = difflib.get_close_matches(path.name, (other.name for other in path.parent.glob("*.py")), n=1)
        hint = f" Did you mean {path.with_name(near[0])}?" if near else ""
        raise UsageError(f"{path} {kind}, so '{spec}' is not a valid SPEC. Write {_FORM}.{hint}")
    _put_on_path(path.resolve().parent)
    name = f"opbridge_spec_{path.stem}"
    content, (known, module) = path.read_bytes(), _imported.get(path.resolve(), (None, None))
    if module is not None and known == content:
        sys.modules[name] = module
        return module
    loader = importlib.util.spec_from_file_location(name, path)
    if loader is None or loader.loader is None:
        raise UsageError(f"{path} is not a Python file, so '{spec}' is not a valid SPEC. Write {_FORM}.")
    module = importlib.util.module_from_spec(loader)
    sys.modules[name] = module  # while it runs too: dataclasses look their module up
    with _explained(str(path)):
        loader.loader.exec_module(module)
    _imported[path.resolve()] = content, module
    return module


def _import_module(spec: str, name: str) -> ModuleType:
    _put_on_path(Path.cwd())
    try:
        with _explained(f"module {name}"):
            return importlib.import_module(name)
    except UsageError as error:
        cause = error.__cause__
        absent = isinstance(cause, ModuleNotFoundError) and f"{name}.".startswith(f"{cause.name}.")
        if not absent:
            raise
        file = Path(*name.split(".")).with_suffix(".py")
        hint = f" There is a file {file}: write {file}:{spec.rpartition(':')[2]}." if file.is_file() else ""
        raise UsageError(
            f"The module {name} was not found in this environment or in the current directory. Write {_FORM}.{hint}"
        ) from cause


def _put_on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _find(spec: str, module: ModuleType, place: str, name: str) -> Callable[[], Any]:
    found = getattr(module, name, None)
    if found is None:
        functions = _functions(module)
        near = difflib.get_close_matches(name, functions, n=1)
        hint = f" Did you mean {place}:{near[0]}?" if near else ""
        listed = f"It has {', '.join(functions)}." if functions else "It has no functions."
        raise UsageError(f"{place} has no function '{name}'. {listed}{hint}")
    if not callable(found):
        raise UsageError(
            f"'{name}' in {place} is a {_kind(found)}, not a function. Give a function without required arguments; "
            f"it must {_RETURNS}."
        )
    needed = _needed_parameters(found)
    if needed:
        raise UsageError(
            f"{name}() in {place} requires the arguments {', '.join(needed)}, but opbridge calls it without "
            "arguments. Add default values, or write a function without arguments that calls it."
        )
    return found


def _needed_parameters(function: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions written in C do not say
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in optional]


def _functions(module: ModuleType) -> list[str]:
    """The functions that a module defines itself and that can be called with nothing, in the file's order."""
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not _needed_parameters(value)
    ]


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turns whatever the user's own code raises into a UsageError with the line that it comes from."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise UsageError(_explain(what, error)) from error


def _explain(what: str, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        frame = traceback.FrameSummary(error.filename, error.lineno or 1, "", line=error.text or "")
        return f"{what} is not valid Python: {error.msg}{_at([frame])}."
    if isinstance(error, SystemExit):
        said = f"ended the program (sys.exit({error.code!r}))"
        advice = " Put what should run only as a script under if __name__ == '__main__'."
    else:
        message = " ".join(str(error).split())
        if len(message) > _LONGEST_MESSAGE:
            message = message[:_LONGEST_MESSAGE].rstrip() + " ..."
        said = f"raised {type(error).__name__}" + (f": {message.rstrip('.')}" if message else "")
        advice = ""
        if isinstance(error, ModuleNotFoundError) and error.name:
            advice = f" Install the package that provides {error.name} in the environment of {sys.executable}."
    return f"{what} {said}{_where(error.__traceback__)}.{advice}"


def _where(trace: TracebackType | None) -> str:
    """The last line in a traceback that is the user's own code, or else of an installed package."""
    here = PACKAGE_FOLDER
    library = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]
    installed = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    frames = [
        frame
        for frame in traceback.extract_tb(trace)
        if _lies_in(frame.filename, installed) or not _lies_in(frame.filename, [here, *library])
    ]
    return _at([frame for frame in frames if not _lies_in(frame.filename, installed)] or frames)


def _at(frames: list[traceback.FrameSummary]) -> str:
    sources = innermost("".join(traceback.format_list(frames)))
    return f", at {sources[0]} ({sources[0].code})" if sources else ""


def _lies_in(file: str, folders: list[str]) -> bool:
    return file.startswith("<") or any(file.startswith(os.path.join(folder, "")) for folder in folders)


def checked(spec: str, returned: Any, known: Collection[str] | None = None) -> Subject:
    """What a factory returned, as a model and what to export it with.

    Args:
        spec: The text that named the factory.
        returned: What it returned.
        known: The keywords that the factory may return; None accepts any.

    Raises:
        UsageError: It is nothing of the kind.
    """
    name = spec.rpartition(":")[2]
    if isinstance(returned, SubjectSource):
        returned = returned.subject()
    if not isinstance(returned, tuple) or len(returned) not in (2, 3):
        many = f"a tuple of {len(returned)} values" if isinstance(returned, tuple) else f"a {_kind(returned)}"
        raise UsageError(f"{name}() in {spec} returned {many}. It must {_RETURNS}.")
    model, args, *rest = returned
    keywords = rest[0] if rest else {}
    if not callable(model):
        raise UsageError(
            f"{name}() in {spec} returned a {_kind(model)} as its model. It must {_RETURNS}; the model is a "
            "torch.nn.Module, a function or an ExportedProgram."
        )
    if not isinstance(keywords, dict) or not all(isinstance(key, str) for key in keywords):
        raise UsageError(
            f"{name}() in {spec} returned a {_kind(keywords)} as its third value; expected a dict of export "
            "keywords. Return several example inputs in one tuple: return (model, (x, y))."
        )
    if isinstance(args, dict):
        raise UsageError(
            f"{name}() in {spec} returned a dict as its example inputs. Return keyword inputs in the keywords: "
            "return (model, (), {'kwargs': {...}})."
        )
    if hasattr(args, "shape") and hasattr(args, "dtype"):
        args = (args,)  # one tensor, as torch.onnx.export takes it too
    if not isinstance(args, (tuple, list)):
        raise UsageError(f"{name}() in {spec} returned a {_kind(args)} as its example inputs. It must {_RETURNS}.")
    for key in keywords:
        if known is not None and key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else f" The valid keywords are {', '.join(sorted(known))}."
            raise UsageError(
                f"{name}() in {spec} returned '{key}', which is an unknown argument of opbridge.export.{hint}"
            )
    return Subject(spec, model, tuple(args), dict(keywords))


def _kind(value: Any) -> str:
    return type(value).__name__
