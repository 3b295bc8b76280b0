"""The results of sweeps as a page: what was measured, one row each, with several files side by side."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opbridge.base.wording import counted
from opbridge.coverage import models
from opbridge.coverage import results as operators
from opbridge.coverage.engine.results import PASSING, SweepResults
from opbridge.errors import UsageError

__all__ = ["of_models", "of_operators"]

CLASSES = {
    "pass": "good",
    "built": "good",
    "left out": "none",
    "refused": "warn",
    "timeout": "warn",
    "memory": "warn",
}
"""What outcomes are coloured as; any other is bad."""

_SETTINGS = ("exporter", "runtime", "target", "dtype", "dynamic", "database", "dtypes", "opset", "samples", "allow")
"""What results depend on, but for which part was measured, and how long it might take."""

_NAMES = {"torch": "torch.onnx (dynamo)", "torchscript": "torch.onnx (TorchScript)", "opbridge": "opbridge"}


def of_operators(found: Sequence[operators.Results]) -> dict[str, Any]:
    """What the page of one or several sweeps over operators shows.

    Raises:
        UsageError: There are no results.
    """
    columns = _columns(found, lambda each: (_name(each),))
    rows = _together(columns)
    samples = [_samples(each) for each in columns]
    return {
        **_head(columns, operators.Results.OUTCOMES),
        "kind": "coverage",
        "title": "Operators that are exported to ONNX correctly",
        "what": "operator",
        "groups": "family",
        "rows": [
            {
                "n": name,
                "g": _family(name),
                "c": [None if cell is None else _cell(cell, samples[i].get(name, ())) for i, cell in enumerate(cells)],
            }
            for (name,), cells in sorted(rows.items())
        ],
    }


def of_models(found: Sequence[models.Results]) -> dict[str, Any]:
    """What the page of one or several sweeps over models shows.

    Raises:
        UsageError: There are no results.
    """
    columns = _columns(found, lambda each: (each["family"], each["model"]))
    rows = _together(columns)
    return {
        **_head(columns, models.Results.OUTCOMES),
        "kind": "models",
        "title": "Models of other packages that are exported to ONNX correctly",
        "what": "model",
        "groups": "package",
        "rows": [
            {"n": name, "g": family, "c": [None if cell is None else _model_cell(cell) for cell in cells]}
            for (family, name), cells in sorted(rows.items())
        ],
    }


@dataclass
class _Column:
    """The results of one exporter: of one file, or of several that measured other things in the same way.

    Attributes:
        results: What the files hold.
        measured: What was measured, by its name.
    """

    results: list[SweepResults]
    measured: dict[tuple[str, ...], Mapping[str, Any]]

    @property
    def settings(self) -> Mapping[str, Any]:
        """How it was measured, but for which part of it."""
        settings = self.results[0].document["settings"]
        return {name: settings.get(name) for name in _SETTINGS}

    @property
    def versions(self) -> dict[str, str]:
        """The releases of the packages."""
        return {name: told for each in self.results for name, told in each.document.get("versions", {}).items()}

    def takes(self, other: _Column) -> bool:
        """Whether another one measured other things, in the same way and with the same releases."""
        versions, others = self.versions, other.versions
        return (
            self.settings == other.settings
            and not self.measured.keys() & other.measured.keys()
            and all(versions[name] == others[name] for name in versions.keys() & others.keys())
        )


def _columns(found: Sequence[SweepResults], key: Callable[[Mapping[str, Any]], tuple[str, ...]]) -> list[_Column]:
    """The columns of a page: files that have nothing twice, of one exporter and its release, are one.

    Raises:
        UsageError: There are no results.
    """
    if not found:
        raise UsageError("There are no results to show. Give result files of opbridge coverage or opbridge models.")
    columns: list[_Column] = []
    for results in found:
        new = _Column([results], {key(each): each for each in results.measured})
        column = next((each for each in columns if each.takes(new)), None)
        if column is None:
            columns.append(new)
        else:
            column.results.append(results)
            column.measured.update(new.measured)
    return columns


def _head(found: Sequence[_Column], outcomes: Sequence[str]) -> dict[str, Any]:
    columns = [_described(each) for each in found]
    doubled = Counter(each["name"] for each in columns)
    for name, count in doubled.items():
        if count > 1:  # releases side by side
            _tell_apart([each for each in columns if each["name"] == name])
    return {
        "columns": columns,
        "states": [[name, CLASSES.get(name, "bad")] for name in (*PASSING, *_failing(outcomes))],
    }


def _tell_apart(columns: Sequence[dict[str, Any]]) -> None:
    """Names columns of one exporter by the fewest versions that tell them apart, or by their files."""
    names = [name for name in columns[0]["versions"] if all(name in each["versions"] for each in columns)]
    subsets = (some for count in range(1, 3) for some in itertools.combinations(names, count))
    told = {some: [tuple(each["versions"][name] for name in some) for each in columns] for some in subsets}
    chosen = next((some for some, versions in told.items() if len(set(versions)) == len(columns)), ())
    for each in columns:
        of = ", ".join(f"{name} {each['versions'][name].partition('+')[0]}" for name in chosen)
        each["name"], each["release"] = f"{each['name']}, {of or each['file']}", ""


def _failing(outcomes: Sequence[str]) -> Iterator[str]:
    yield from (name for name in outcomes if name not in (*PASSING, "left out"))
    yield "left out"


def _described(column: _Column) -> dict[str, Any]:
    """What stands at the head of a column."""
    settings, versions = column.settings, column.versions
    exporter = settings["exporter"] or "opbridge"
    counts = Counter(each["outcome"] for each in column.measured.values())
    tried = sum(counts.values()) - counts["left out"]
    passing = sum(counts[each] for each in PASSING)
    name = _NAMES.get(exporter, exporter)
    release = versions.get("opbridge" if exporter == "opbridge" else "torch", "")
    outcomes = column.results[0].OUTCOMES
    return {
        "name": _column_name(name, settings),
        "release": release,
        "title": "",
        "share": passing / tried if tried else 0.0,
        "line": f"{passing:,} of {tried:,} {'built, not run' if counts['built'] else 'pass'}",
        "counts": {name: counts[name] for name in (*PASSING, *_failing(outcomes)) if counts[name]},
        "versions": versions,
        "file": ", ".join(each.path.name for each in column.results if each.path is not None),
    }


def _column_name(exporter: str, settings: Mapping[str, Any]) -> str:
    """An exporter with what its files are made for, or run in."""
    where = settings["target"] or settings["runtime"] or "onnxruntime"
    word = "for" if settings["target"] else "in"
    name = exporter if where == "onnxruntime" else f"{exporter} {word} {where}"
    return f"{name}, {settings['dtype']}" if settings["dtype"] else name


def _together(columns: Sequence[_Column]) -> dict[tuple[str, ...], list[Mapping[str, Any] | None]]:
    """What each column has for each thing that was measured, in the order of the first that has it."""
    keys = dict.fromkeys(key for each in columns for key in each.measured)
    return {key: [each.measured.get(key) for each in columns] for key in keys}


def _family(name: str) -> str:
    """The namespace of an operator: "linalg", "nn.functional", "torchvision"."""
    if "::" in name:
        return name.partition("::")[0]
    known = ("nn.functional", "linalg", "fft", "special", "signal.windows", "masked", "sparse", "_refs")
    return next((each for each in known if name.startswith(f"{each}.")), "torch")


def _name(entry: Mapping[str, Any]) -> str:
    """The name of an operator with its variant."""
    return f"{entry['operator']}{'.' if entry['variant'] else ''}{entry['variant']}"


def _samples(column: _Column) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for results in column.results:
        assert isinstance(results, operators.Results)
        for each in results.samples:
            found.setdefault(_name(each), []).append(each)
    return found


def _cell(entry: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is shown of one operator in one file; samples that pass are counted, the others are told."""
    by_dtype: dict[str, list[str]] = {}
    for each in samples:
        by_dtype.setdefault(each["dtype"], []).append(each["outcome"])
    order = operators.Results.OUTCOMES
    passing = sum(each["outcome"] in PASSING for each in samples)
    is_built = any(each["outcome"] == "built" for each in samples)
    told = [
        {
            "l": f"{each['dtype']}, sample {each['index']}",
            "s": each["outcome"],
            "m": each["message"],
            "o": each.get("onnx", ""),
        }
        for each in samples
        if each["outcome"] not in PASSING
    ]
    return {
        "s": entry["outcome"],
        "r": entry["route"] or "",
        "m": entry["message"],
        "k": entry["kind"],
        "d": {dtype: min(outcomes, key=order.index) for dtype, outcomes in by_dtype.items()},
        "p": f"{passing} of {counted(len(samples), 'sample')} {'built' if is_built else 'passed'}",
        "t": told[:12],
    }


def _model_cell(entry: Mapping[str, Any]) -> dict[str, Any]:
    export = entry["timings"].get("export")
    facts = [
        f"{entry['nodes']:,} ONNX nodes" if entry.get("nodes") else "",
        "" if export is None else f"exported in {export:.1f} s",
        f"captured: {entry['capture']}" if entry.get("capture") else "",
        ", ".join(f"{count} {route}" for route, count in entry["routes"].items()),
        f"missing: {', '.join(entry['missing'])}" if entry["missing"] else "",
        f"cause: {entry['cause']}" if entry["cause"] else "",
        f"lint: {'; '.join(entry['predicted'][:3])}" if entry.get("predicted") else "",
    ]
    return {
        "s": entry["outcome"],
        "r": max(entry["routes"], key=_routes().index, default=""),
        "m": entry["message"],
        "p": "; ".join(filter(None, facts)),
        "x": export,
        "t": [{"l": "note", "s": "", "m": note, "o": ""} for note in entry["notes"][:8]],
    }


def _routes() -> tuple[str, ...]:
    from opbridge.base.routes import ROUTES

    return ROUTES
