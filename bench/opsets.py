"""Whole models exported at old opsets and at the newest, each verified against PyTorch: a table in RESULTS.md.

    python bench/opsets.py
    python bench/opsets.py --models "T5 encoder" BERT --opsets 11 28 --no-write
    python bench/opsets.py --runtime openvino web mnn --keep build/opsets.json

A cell is the largest difference from PyTorch over all verified runs (the example, fresh inputs, other sizes of what is
dynamic), or why there is none. Each runs in a process of its own. Models have their published sizes and random weights.

With `--runtime`, the files run in other runtimes, in a table of their own. A file that a runtime refuses, or runs
otherwise, is exported again with that runtime as its target, at an opset that it takes, and the cell says so. What MNN
has no operator for, and no repair writes otherwise, is left out there, and the cell names it. `--keep FILE` keeps each
cell as it is done: the cells that the file has are not tried again, and those of all runs are in the table.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from results import table, write_section

OPSETS = (11, 13, 15, 17)
_LIMIT = 2400
_UNTRIED = ("-", True)
_LACKS = "no "
"""What the cell of a runtime without an operator begins with."""

_EXAMPLES = Path(__file__).parents[1] / "examples"


def _vision(name: str) -> Callable[[], Any]:
    def make() -> Any:
        import torchvision

        kind = torchvision.models.segmentation if "deeplab" in name else torchvision.models
        settings = {"weights": None, **({"weights_backbone": None} if "deeplab" in name else {})}
        return getattr(kind, name)(**settings), (torch.randn(2, 3, 224, 224),), {"dynamic_shapes": "batch"}

    return make


def _text(model: str, config: str, **settings: Any) -> Callable[[], Any]:
    def make() -> Any:
        import transformers

        built = getattr(transformers, model)(getattr(transformers, config)(**settings))
        tokens = torch.randint(0, 1000, (2, 24))
        mask = torch.ones_like(tokens)
        mask[1, 17:] = 0
        shapes = {"input_ids": {0: "batch", 1: "length"}, "attention_mask": {0: "batch", 1: "length"}}
        return built, (), {"kwargs": {"input_ids": tokens, "attention_mask": mask}, "dynamic_shapes": shapes}

    return make


def _whisper() -> Any:
    import transformers

    model = transformers.WhisperModel(transformers.WhisperConfig()).encoder
    return model, (torch.randn(2, 80, 3000),), {"dynamic_shapes": "batch"}


def _deform() -> Any:
    sys.path.insert(0, str(_EXAMPLES))
    import deform_net

    return deform_net.build()


MODELS: dict[str, Callable[[], Any]] = {
    "resnet50": _vision("resnet50"),
    "swin_t": _vision("swin_t"),
    "vit_b_16": _vision("vit_b_16"),
    "deeplabv3_mobilenet_v3_large": _vision("deeplabv3_mobilenet_v3_large"),
    "BERT": _text("BertModel", "BertConfig"),
    "GPT-2": _text("GPT2LMHeadModel", "GPT2Config", use_cache=False),
    "T5 encoder": _text("T5EncoderModel", "T5Config"),
    "Whisper encoder": _whisper,
    "deformable net": _deform,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--opsets", nargs="+", type=int)
    parser.add_argument("--no-write", action="store_true", help="leave RESULTS.md as it is")
    parser.add_argument("--runtime", nargs="+", default=[], help="openvino, web or mnn, in a table of their own")
    parser.add_argument("--kept-only", action="store_true", help="try nothing: write what the file has")
    parser.add_argument("--keep", type=Path, help="a file of cells, which the next run takes up")
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cell:
        print(json.dumps(_cell(given.cell[0], int(given.cell[1]), given.runtime)))
        return 0
    from opbridge.runtimes import known
    from opbridge.targets import onnxruntime

    if not given.kept_only:
        for each in given.runtime:
            known.installed(each)
    newest = onnxruntime.newest_opset()
    opsets = given.opsets or (*OPSETS, *(() if given.runtime else (onnxruntime.default_opset(),)), newest)
    cells = _Cells(given.keep)
    for name in given.models:
        for opset in opsets:
            wanted = [each for each in given.runtime or [""] if not cells.has(name, each, opset)]
            if wanted and not given.kept_only:
                said = _asked(name, opset, given.runtime and wanted)
                cells.add(name, opset, dict(zip(wanted, said, strict=True)))
                print(f"{name} at opset {opset}: {said}", flush=True)
    body, bad = cells.shown(given.models, given.runtime or [""], opsets)
    if given.no_write:
        print(f"\n{body}")
    elif given.runtime:
        body = f"{', '.join(map(cells.label, given.runtime))}.\n\n{body}"
        write_section("opsets_in_runtimes", "Whole models at old opsets in other runtimes", body)
    else:
        write_section("opsets", "Whole models at old opsets and the newest", body)
    return 1 if bad else 0


class _Cells:
    """What was found, by the model, the runtime with its version and the opset, in a file where one is named."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._found: dict[str, tuple[str, bool]] = {}
        if file is not None and file.exists():
            self._found = {key: (said, ok) for key, (said, ok) in json.loads(file.read_text()).items()}
        labels = [key.rsplit(", ", 2)[1] for key in self._found]
        self._labels = {each.partition(" ")[0]: each for each in labels}

    def label(self, runtime: str) -> str:
        """A runtime with its version; where it is not installed, with that of the cells that there are of it."""
        from opbridge.runtimes.known import ONNXRUNTIME, find, label

        name = runtime or ONNXRUNTIME
        return label(name) if find(name).version() else self._labels.get(name, name)

    def _key(self, name: str, runtime: str, opset: int) -> str:
        return f"{name}, {self.label(runtime)}, {opset}"

    def has(self, name: str, runtime: str, opset: int) -> bool:
        return self._key(name, runtime, opset) in self._found

    def add(self, name: str, opset: int, found: Mapping[str, tuple[str, bool]]) -> None:
        self._found.update({self._key(name, runtime, opset): each for runtime, each in found.items()})
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text(json.dumps(self._found, indent=1))

    def shown(self, names: Sequence[str], runtimes: Sequence[str], opsets: Sequence[int]) -> tuple[str, int]:
        """The table, with what it comes to below it, and the number of cells that do not match."""
        rows, all_of_them = [], []
        for name in names:
            for runtime in runtimes:
                cells = [self._found.get(self._key(name, runtime, opset), _UNTRIED) for opset in opsets]
                rows.append([f"{name}, {runtime}" if runtime else name, *(said for said, _ in cells)])
                all_of_them += cells
        tried = [each for each in all_of_them if each is not _UNTRIED]
        bad = sum(not ok for _, ok in tried)
        lacking = sum(said.startswith(_LACKS) for said, _ in tried)
        count = f"{bad} of {len(tried)} do not match."
        count += f" In {lacking} the runtime lacks an operator." if lacking else ""
        count += f" {len(all_of_them) - len(tried)} were not tried." if len(tried) < len(all_of_them) else ""
        return f"{table(['model', *map(str, opsets)], rows)}\n\n{count}", bad


def _asked(name: str, opset: int, runtimes: Sequence[str]) -> list[tuple[str, bool]]:
    """What the process of a cell says of it, and whether the model matches there; for each of the runtimes, if any."""
    command = [sys.executable, __file__, "--cell", name, str(opset), *(["--runtime", *runtimes] if runtimes else [])]
    count = len(runtimes) or 1
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT)
    except subprocess.TimeoutExpired:
        return [(f"over {_LIMIT} s", False)] * count
    if done.returncode:
        return [(f"ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}", False)] * count
    return [(said, ok) for said, ok in json.loads(done.stdout.splitlines()[-1])]


def _without_zeros(model: torch.nn.Module) -> None:
    """Gives weights that are zero before training, as the last layer of vit_b_16, other values."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1 and not weight.any():
                weight.normal_(std=0.02)


def _cell(name: str, opset: int, runtimes: Sequence[str]) -> list[tuple[str, bool]]:
    torch.manual_seed(0)
    model, args, keywords = MODELS[name]()
    _without_zeros(model)
    model.eval()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        if runtimes:
            return _in_runtimes(path, opset, runtimes, model, args, keywords)
        return [_exported(path, opset, model, args, keywords)]


def _exported(path: Path, opset: int, model: Any, args: Any, keywords: dict[str, Any]) -> tuple[str, bool]:
    """The largest difference in ONNX Runtime, or why there is none, and whether the model matches."""
    import opbridge

    try:
        program = opbridge.export(model, args, path, opset_version=opset, **keywords)
    except opbridge.OpbridgeError as error:
        return _short(error), False
    found = program.verification
    if found is None or not found.ok:
        return f"not verified: {program.unverified}", False
    return _largest(found), True


def _in_runtimes(
    path: Path, opset: int, runtimes: Sequence[str], model: Any, args: Any, keywords: dict[str, Any]
) -> list[tuple[str, bool]]:
    """The same of other runtimes."""
    import opbridge
    from opbridge.targets import find_target

    opbridge.export(model, args, path, opset_version=opset, verify=False, **keywords)
    answers = []
    for runtime in runtimes:
        found = opbridge.verify(path, model, args, runtime=[runtime], samples=1, **keywords).each[0]
        if found.ok:
            answers.append((_largest(found), True))
            continue
        fitted = path.with_name("fitted.onnx")
        taken = find_target(runtime).opsets
        chosen = opset if taken is None else min(opset, taken.newest)
        note = f" by --target{'' if chosen == opset else f', at {chosen}'}"
        try:
            opbridge.export(model, args, fitted, opset_version=chosen, target=runtime, verify=False, **keywords)
        except opbridge.TargetError as error:
            lacked = {each.operator for each in error.findings if each.rule == "missing-operator"}
            answers.append(
                (f"{_LACKS}{', '.join(sorted(lacked))}", True)
                if lacked and runtime == "mnn"
                else (_short(error), False)
            )
        except opbridge.OpbridgeError as error:
            answers.append((_short(error), False))
        else:
            found = opbridge.verify(fitted, model, args, runtime=[runtime], samples=1, **keywords).each[0]
            said = _largest(found) if found.ok else f"{_line(found.describe_mismatch())};"
            answers.append((said + note, found.ok))
    return answers


def _largest(found: Any) -> str:
    return f"{max(each.worst.relative for each in found.outputs):.1e}"


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {_line(str(error))}"


def _line(said: str) -> str:
    """The begin of a message, on one line and without folders of this machine."""
    return re.sub(r"\S*/(\w+\.onnx)", r"\1", " ".join(said.split()))[:300]


if __name__ == "__main__":
    sys.exit(main())
