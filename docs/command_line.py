"""The reference of the command line, as Markdown, made of the application: a part of the hook of mkdocs."""

from __future__ import annotations

import inspect
import re
from typing import Any

__all__ = ["markdown"]

_HEAD = """# Command line

Every command of `opbridge` with all of its options. `opbridge COMMAND --help` prints the same text, and
`python -m opbridge` is the same program. [Five minutes](start.md) shows how to use the commands.

A model is named as `FILE.py:FACTORY` or `package.module:FACTORY`. `FACTORY` has no arguments and returns the model, its
example inputs, and optionally a third value with keywords of [`opbridge.export`](api.md). torch's generator is seeded
before it is called, so that random weights are the same in every run.

| exit status | meaning |
| --- | --- |
| 0 | success |
| 1 | a check failed: an operator is missing, the outputs differ, the target does not support the model |
| 2 | invalid usage |
| 3 | an internal error of opbridge; `--debug`, or the environment variable `OPBRIDGE_DEBUG=1`, shows the traceback |
| 130 | interrupted by Ctrl-C; the message says whether the file was written |

With `--json`, stdout is exactly one JSON document: the result, or the error.
[File formats](formats.md#json-documents-of-commands) describes the keys.
"""


def markdown() -> str:
    """The page."""
    import typer

    from opbridge.cli.app import app
    from opbridge.cli.running import main

    assert main  # imported for the commands that it adds to the application
    group: Any = typer.main.get_command(app)
    context = typer.Context(group, info_name="opbridge")
    commands = (group.get_command(context, name) for name in group.list_commands(context))
    return "\n".join([_HEAD, *(_command(each) for each in commands)])


def _command(command: Any) -> str:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each not in arguments and not each.hidden]
    usage = " ".join(["opbridge", command.name, "[OPTIONS]", *(_usage(each) for each in arguments)])
    rows = [f"| `{_shown(each)}` | {_meaning(each)} |" for each in arguments]
    rows += [f"| {_switches(each)} | {_meaning(each)} |" for each in options]
    table = "\n".join(["| argument or option | meaning |", "| --- | --- |", *rows])
    return (
        "\n\n".join([f"## {command.name}", _text(inspect.cleandoc(command.help)), f"```sh\n{usage}\n```", table]) + "\n"
    )


def _usage(argument: Any) -> str:
    return _shown(argument) if argument.required else f"[{_shown(argument)}]"


def _shown(argument: Any) -> str:
    name = (argument.metavar or argument.name.upper()).strip("[]")
    return name if argument.nargs == 1 or name.endswith("...") else f"{name}..."


def _switches(option: Any) -> str:
    value = "" if option.is_flag else f" {option.metavar or option.name.upper()}"
    return ", ".join(f"`{each}{value}`" for each in option.opts).replace("|", "\\|")


def _meaning(parameter: Any) -> str:
    shown = parameter.show_default
    default = shown if isinstance(shown, str) else parameter.default if shown else None
    said = "" if default is None or isinstance(default, (bool, list, tuple)) else f" Default: {default}."
    return f"{_text(parameter.help or '')}{said}".replace("\n", " ")


def _text(text: str) -> str:
    """Help as Markdown: what stands between stars or in angle brackets stays as it is."""
    return re.sub(r"([*_<|])", r"\\\1", text)
