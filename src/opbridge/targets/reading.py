"""Targets from their files: TOML, in this package for the known ones, or a user's own."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opbridge.base import files
from opbridge.errors import UsageError
from opbridge.targets import asked, measured
from opbridge.targets.facts import KINDS, Fact
from opbridge.targets.provided import checked
from opbridge.targets.target import Opsets, Target

__all__ = ["find_target", "find_targets", "names", "published_target"]

_FOLDER = Path(__file__).parent / "data"
_RELEASES = _FOLDER / "releases"
"""Of targets that are asked of what is installed: what is published of other releases."""

_MOST_BYTES = 1 << 24
_SEVERITIES = ("error", "warning")
_ORIGINS = ("published", "measured", "asked")


def names() -> list[str]:
    """The names of the targets that opbridge has facts for."""
    return sorted({*asked.NAMES, *(each.stem for each in _FOLDER.glob("*.toml")), *measured.names()})


def find_target(name: str) -> Target:
    """A target by its name, with or without a version, or by a file of the user's.

    Args:
        name: "tensorrt", which is its newest version, "tensorrt:10.1", or the path of a file, "mychip.toml" or
            "mychip.toml:2.0".

    Raises:
        UsageError: There is no such target or version, or the file is wrong.
    """
    head, _, version = name.partition(":")
    if head in asked.NAMES:
        published = _RELEASES / f"{head}.toml"
        if version and published.exists() and not asked.is_installed(head, version):
            return _of_release(head, version, published)
        found = asked.target(head, version)
        return _with_releases(found, published) if published.exists() else found
    if head.endswith(".toml"):
        path = Path(head)
        if why := files.problem(str(path), _MOST_BYTES):
            raise UsageError(f"The target file {head} cannot be read: {why}. Give another file.")
        if not path.exists():
            raise UsageError(f"The file {head} does not exist. Correct the path, or use one of: {', '.join(names())}.")
    elif head in names():
        return _known(head, version)
    else:
        near = difflib.get_close_matches(head, names(), n=1)
        guess = f" Did you mean '{near[0]}'?" if near else ""
        raise UsageError(f"Unknown target '{head}'. The targets are: {', '.join(names())}.{guess}")
    return _target(_read(path), version, str(path))


def find_targets(targets: str | Sequence[str], provides: str | Sequence[str] = ()) -> list[Target]:
    """Targets by their names, with the operators that the user's runtimes have in addition.

    Args:
        targets: One, or several.
        provides: Patterns of operators: "trt::MyTopK", "trt::*".

    Raises:
        UsageError: There is no such target or version, or a pattern is none.
    """
    patterns = checked(provides)
    found = [find_target(each) for each in ([targets] if isinstance(targets, str) else targets)]
    if patterns and not found:
        raise UsageError("provides= (--provides) is valid only with a target. Add one with target= (--target).")
    return [dataclasses.replace(each, provided=patterns) for each in found] if patterns else found


def _with_releases(target: Target, path: Path) -> Target:
    """The installed release, beside the others that something is published of."""
    others = [str(each) for each in _read(path)["versions"]]
    (installed,) = target.versions
    older = [each for each in others if _order(each) < _order(installed)]
    newer = [each for each in others if _order(each)[:2] > _order(installed)[:2]]
    return dataclasses.replace(target, versions=[*older, installed, *newer])


def _of_release(name: str, version: str, path: Path) -> Target:
    """What is published of a release of a target that is not the installed one.

    Raises:
        UsageError: Nothing is, as of newer ones.
    """
    document = _read(path)
    versions = [*map(str, document["versions"])]
    if _order(version)[:2] > _order(versions[-1]):
        return asked.target(name, version)
    return _target(document, version, str(path))


def published_target(name: str, version: str) -> Target:
    """What is published of a target of this package, without what is measured.

    Raises:
        UsageError: Nothing is, or of newer versions only.
    """
    path = _FOLDER / f"{name}.toml"
    if not path.exists():
        raise UsageError(f"No facts are published for {name}.")
    return _target(_read(path), version, str(path))


def _known(name: str, version: str) -> Target:
    """One of the targets of this package, with what is published of it and what is measured.

    Raises:
        UsageError: There is no such version.
    """
    published, found = _FOLDER / f"{name}.toml", measured.path_of(name)
    document = _read(published) if published.exists() else None
    if found.exists():
        document = measured.combined(document, _read(found))
    assert document is not None
    return _target(document, version, str(published))


def _read(path: Path) -> Mapping[str, Any]:
    """What a file says.

    Raises:
        UsageError: It is no TOML.
    """
    try:
        return _parsed(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, OSError) as error:
        raise UsageError(f"The target {path} cannot be read: {error}. Correct the file.") from None


@functools.lru_cache(maxsize=16)
def _parsed(text: str) -> Mapping[str, Any]:
    return tomllib.loads(text)


def _target(document: Mapping[str, Any], version: str, path: str) -> Target:
    """The target that a file describes, in a version.

    Raises:
        UsageError: The file says something that no target has, or does not have the version.
    """
    versions = document.get("versions")
    if not isinstance(versions, list) or not versions or not all(isinstance(each, str) for each in versions):
        raise UsageError(
            f'{path}: versions must be a list of strings, oldest first, such as versions = ["1.0", "2.0"].'
        )
    if sorted(set(versions), key=_order) != versions:
        raise UsageError(f"{path}: versions = {versions} are not sorted. List each once, oldest first.")
    name, title = str(document.get("name", Path(path).stem)), str(document.get("title", ""))
    chosen = _chosen(versions, version, name)
    sources = document.get("sources", {})
    if not isinstance(sources, dict):
        raise UsageError(f"{path}: sources must be a table. Write [sources] with one line for each source.")
    holding = functools.partial(_holds, versions=versions, chosen=chosen, path=path)
    common = {key: document[key] for key in ("severity", "note") if key in document}
    facts = [_fact({**common, **each}, sources, path) for each in _tables(document, "fact", path)]
    opsets = [_opsets(each, sources, path) for each in _tables(document, "opsets", path) if holding(each)]
    return Target(
        name,
        title,
        chosen,
        version if version not in ("", chosen) else "",
        versions,
        opsets[-1] if opsets else None,
        [each for each in facts if holding(dataclasses.asdict(each))],
    )


def _tables(document: Mapping[str, Any], name: str, path: str) -> list[dict[str, Any]]:
    """The tables of one name.

    Raises:
        UsageError: There is something else under it.
    """
    found = document.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise UsageError(f"{path}: {name} must be a list of tables. Write [[{name}]] above each.")
    return found


def _chosen(versions: list[str], asked: str, name: str) -> str:
    """The version whose facts are taken: the one that was asked for, or the nearest older one."""
    if not asked:
        return versions[-1]
    older = [each for each in versions if _order(each) <= _order(asked)]
    if not older:
        raise UsageError(
            f"{name} {asked} is older than all versions with known facts: {', '.join(versions)}. Use one of these."
        )
    return older[-1]


def _order(version: str) -> tuple[int, ...]:
    """A version by its numbers."""
    try:
        return tuple(map(int, version.split(".")))
    except ValueError:
        raise UsageError(
            f"'{version}' is not a valid version; expected numbers separated by dots, such as 10.1."
        ) from None


def _holds(fact: Mapping[str, Any], *, versions: list[str], chosen: str, path: str) -> bool:
    """Whether a fact is for a version."""
    bounds = [str(fact.get(key) or default) for key, default in (("since", versions[0]), ("until", versions[-1]))]
    if unknown := [each for each in bounds if each not in versions]:
        raise UsageError(f"{path}: {unknown[0]} is not one of the versions {', '.join(versions)}.")
    first, last = map(versions.index, bounds)
    return first <= versions.index(chosen) <= last


def _opsets(found: Mapping[str, Any], sources: Mapping[str, str], path: str) -> Opsets:
    """The opsets of a version.

    Raises:
        UsageError: They are no numbers.
    """
    oldest, newest, ir_version = (found.get(key) for key in ("oldest", "newest", "ir_version"))
    if type(oldest) is not int or type(newest) is not int or not isinstance(ir_version, int | None):
        raise UsageError(f"{path}: opsets {dict(found)} must contain the numbers oldest and newest.")
    severity, note = found.get("severity", "error"), str(found.get("note", ""))
    if severity not in _SEVERITIES:
        raise UsageError(f"{path}: severity = {severity!r} is invalid; expected one of {', '.join(_SEVERITIES)}.")
    return Opsets(oldest, newest, ir_version, _source(found, sources, path), severity, note)


def _fact(found: Mapping[str, Any], sources: Mapping[str, str], path: str) -> Fact:
    """A fact of a file.

    Raises:
        UsageError: It is none.
    """
    kind = KINDS.get(str(found.get("kind")))
    if kind is None:
        raise UsageError(f"{path}: kind = {found.get('kind')!r} is invalid; expected one of {', '.join(KINDS)}.")
    fields = {each.name for each in dataclasses.fields(kind)}
    if unknown := found.keys() - fields - {"kind"}:
        raise UsageError(
            f"{path}: unknown key {sorted(unknown)[0]} in a fact of kind {found['kind']}; expected {sorted(fields)}."
        )
    if found.get("severity", "error") not in _SEVERITIES:
        raise UsageError(
            f"{path}: severity = {found['severity']!r} is invalid; expected one of {', '.join(_SEVERITIES)}."
        )
    given: dict[str, Any] = {"source": _source(found, sources, path)}
    for field in dataclasses.fields(kind):
        if field.name in found and field.name != "source":
            given[field.name] = _value(found[field.name], field, path)
    if lacking := [each for each in kind.needs if not given.get(each)]:
        raise UsageError(f"{path}: the key {lacking[0]} is missing in a fact of kind {found['kind']}: {dict(found)}.")
    if wrong := [each for each in given.get("when", ()) if "=" not in str(each)]:
        raise UsageError(f'{path}: when = {wrong[0]!r} contains no value. Write when = ["mode=nearest"].')
    return kind(**given)


def _value(value: Any, field: dataclasses.Field[Any], path: str) -> Any:
    """A value of a fact: lists are tuples.

    Raises:
        UsageError: It is of another type than such a value.
    """
    wanted = type(field.default)
    if wanted is tuple:
        if isinstance(value, list) and all(isinstance(each, str | int | float) for each in value):
            return tuple(value)
        raise UsageError(f"{path}: {field.name} = {value!r} must be a list. Write {field.name} = [{value!r}].")
    if wanted is float and isinstance(value, int):
        return float(value)
    if type(value) is not wanted:
        raise UsageError(f"{path}: {field.name} = {value!r} must be of type {wanted.__name__}. Correct the file.")
    return value


def _source(found: Mapping[str, Any], sources: Mapping[str, str], path: str) -> str:
    """Where something is known from, in full.

    Raises:
        UsageError: That is not said.
    """
    given = str(found.get("source", ""))
    source = str(sources.get(given, given))
    if source.partition(":")[0] not in _ORIGINS:
        raise UsageError(
            f"{path}: the source {source!r} must start with published:, measured: or asked:. Correct the source of "
            f"the fact {dict(found)}."
        )
    return source
