"""Runs the command line: reads the arguments, prints the answer or the error, and gives the exit status."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from opbridge.cli import (
    conversion_commands,
    difference_commands,
    engine_commands,
    kernel_commands,
    model_commands,
    operator_commands,
    precision_commands,
    profile_commands,
    support_commands,
    sweep_commands,
    target_commands,
)
from opbridge.cli.answers import Answer, Interrupted
from opbridge.cli.app import app
from opbridge.cli.console import Screen, print_error
from opbridge.errors import OpbridgeError
from opbridge.kernels import shipped

__all__ = ["main"]

del (
    conversion_commands,
    difference_commands,
    engine_commands,
    kernel_commands,
    model_commands,
    operator_commands,
    precision_commands,
    profile_commands,
    support_commands,
    sweep_commands,
    target_commands,
)  # imported for the commands that they add to the application

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: What follows the program's name; `sys.argv` if not given.

    Returns:
        The exit status: 0 success, 1 a check failed, 2 invalid usage, 3 an internal error of opbridge, 130 interrupted.
    """
    shipped.announced_by(lambda text: Screen(stderr=True).out(text, highlight=False))
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    debug = "--debug" in given or os.environ.get("OPBRIDGE_DEBUG", "0") not in ("", "0")
    try:
        with _stdout_kept_clear() if as_json else contextlib.nullcontext():
            answer = app([each for each in given if each != "--debug"], "opbridge", standalone_mode=False)
        if not isinstance(answer, Answer):  # the status of --help or --version, or of an interrupt
            return _interrupted("", as_json) if answer == _INTERRUPTED else int(answer or 0)
        if as_json:
            _print_json(answer.document)
        else:
            answer.show(Screen())
        if debug:
            for fault in answer.faults:
                traceback.print_exception(fault)
        return answer.status
    except OpbridgeError as error:
        if debug:
            traceback.print_exc()
        return _failed(error, str(error), error.exit_status, as_json)
    except Interrupted as error:
        return _interrupted(str(error), as_json)
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted("", as_json)
    except BrokenPipeError:  # the reader had enough, as in `opbridge ops | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that Python's own last flush succeeds
        return 1
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's own: an unknown option, an argument left out
            message = f"{error.format_message().rstrip('.')}. See 'opbridge --help' or 'opbridge COMMAND --help'."
            return _failed(error, message, 2, as_json)
        if debug:
            traceback.print_exc()
        return _failed(error, _describe_bug(error, debug), 3, as_json)


def _interrupted(message: str, as_json: bool) -> int:
    """Says that the command was interrupted, and what it leaves behind."""
    Screen(stderr=True).out(f"Interrupted. {message}".rstrip(), highlight=False)
    if as_json:
        _print_json({"ok": False, "error": {"kind": "Interrupted", "message": message}})
    return _INTERRUPTED


def _failed(error: Exception, message: str, status: int, as_json: bool) -> int:
    print_error(Screen(stderr=True), message)
    report = getattr(error, "report", None)
    if report is not None:
        Screen(stderr=True).out(f"report: {report}", highlight=False)
    if as_json:
        document: dict[str, Any] = {"ok": False, "error": {"kind": type(error).__name__, "message": message}}
        for name in ("plan", "verification"):
            if hasattr(error, name):
                document[name] = getattr(error, name).to_json()
        if refusals := getattr(error, "refusals", None):
            document["refusals"] = [dataclasses.asdict(each) for each in refusals]
        if (findings := getattr(error, "findings", None)) is not None:
            document["findings"] = findings.document()
        if (result := getattr(error, "result", None)) is not None:
            document["result"] = result.document()
        file = getattr(error, "file", None)
        if file is not None:
            document["file"] = str(file)
        if report is not None:
            document["report"] = str(report)
        _print_json(document)
    return status


def _describe_bug(error: Exception, debug: bool) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    message = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":")
    advice = "" if debug else " Run it again with --debug for the traceback, and"
    return (
        f"Internal error in opbridge (a bug): {message}, in {place.name} at "
        f"{Path(place.filename).name}:{place.lineno}.{advice or ' Please'} report it with the model's factory."
    )


@contextlib.contextmanager
def _stdout_kept_clear() -> Iterator[None]:
    """Sends what the model prints meanwhile, from Python or from native code, to stderr instead."""
    sys.stdout.flush()
    with contextlib.redirect_stdout(sys.stderr):
        saved = os.dup(1)
        os.dup2(2, 1)
        try:
            yield
        finally:
            os.dup2(saved, 1)
            os.close(saved)


def _print_json(document: Mapping[str, Any]) -> None:
    print(json.dumps(_plain_data(document), indent=2), flush=True)


def _plain_data(value: Any) -> Any:
    """A value as JSON has it, which has no infinities and no NaN: they become text."""
    if isinstance(value, Mapping):
        return {str(key): _plain_data(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain_data(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)
