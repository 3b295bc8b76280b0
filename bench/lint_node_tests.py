"""What lint says of ONNX's own node tests for a target, beside what its runtime does with them.

    python bench/lint_node_tests.py [--print] [--list] [--target onnxruntime] [--runtime onnxruntime] [--jobs N]

Each model is loaded and run on its inputs in a child process, and its outputs compared with what the test expects. Lint
agrees where it finds an error and the runtime does not give that, or where neither is so; for ONNX Runtime, which the
facts are asked of, what counts is whether it loads the model. A result that differs by no more than bfloat16 rounds, or
only where it is infinite or no number, is one that the runtime gives. A warning says that some models of the form fail,
and not which. Models are those of the installed onnx package.
"""

from __future__ import annotations

import argparse
from collections import Counter

from results import table, write_section

from opbridge.coverage.measuring import cases, tried
from opbridge.coverage.measuring.work import NEARLY, RIGHT
from opbridge.errors import OpbridgeError
from opbridge.rules import lint
from opbridge.runtimes import known

_SAID = ("error", "warning", "nothing")
_ROWS = {"error": "an error", "warning": "warnings alone", "nothing": "nothing"}
_TITLES = {
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "web": "onnxruntime-web",
    "mnn": "MNN",
    "ncnn": "ncnn",
    "tensorrt-rtx": "TensorRT-RTX",
}


def main() -> None:
    """Compares, and writes the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="write nothing to RESULTS.md")
    parser.add_argument("--list", action="store_true", help="the models on which the two do not agree")
    parser.add_argument("--target", default="onnxruntime", help="what lint is asked for")
    parser.add_argument("--runtime", help="what runs the models; by default the target's")
    parser.add_argument("--jobs", type=int, help="worker processes; one a core")
    given = parser.parse_args()
    runtime = given.runtime or given.target.partition(":")[0]
    verdicts, _ = tried(runtime, [(name, "") for name in cases.names()], jobs=given.jobs)
    _compare(runtime, given, {name: verdict for (name, _), verdict in verdicts.items()})


def _compare(runtime: str, given: argparse.Namespace, verdicts: dict) -> None:
    taking = (*RIGHT, *NEARLY, *(("wrong", "raises") if runtime == "onnxruntime" else ()))
    counts: Counter[tuple[str, bool]] = Counter()
    for name, verdict in verdicts.items():
        try:
            found = lint(cases.case(name, "").model.SerializeToString(), given.target).found
            said = min((each.severity for each in found), key=_SAID.index, default="nothing")
        except OpbridgeError as error:
            found, said = [error], "error"
        refused = verdict.outcome not in taking
        counts[said, refused] += 1
        if given.list and (said == "error") != refused:
            shown = [str(each)[:160] for each in found][:1]
            print(name, "|", said, shown, "|", verdict.outcome, verdict.message[:200])
    agreeing = sum(count for (said, refused), count in counts.items() if (said == "error") == refused)
    warned = counts["warning", True]
    rows = [(f"lint has {_ROWS[said]}", str(counts[said, True]), str(counts[said, False])) for said in _SAID]
    title = _TITLES.get(runtime, runtime)
    headings = ("refuses", "loads") if runtime == "onnxruntime" else ("refuses or answers wrongly", "runs")
    body = table(("", *(f"{title} {each}" for each in headings)), rows)
    body += f"\n\n{known.label(runtime)}: {agreeing} of {len(verdicts)} agree ({agreeing / len(verdicts):.2%})."
    if warned:
        together = agreeing + warned
        body += f" With the {warned} that fail and have a warning, {together} do ({together / len(verdicts):.2%})."
    if nearly := sum(each.outcome == "nearly" for each in verdicts.values()):
        body += f" {nearly} of those that run differ by what bfloat16 rounds, or only where a result is infinite."
    if given.print or given.list:
        print(body)
        return
    section = "lint_node_tests" if runtime == "onnxruntime" else f"lint_node_tests_{runtime}"
    of = "" if runtime == "onnxruntime" else f" for {title}"
    write_section(section, f"What lint says of ONNX's node tests{of}", body)


if __name__ == "__main__":
    main()
