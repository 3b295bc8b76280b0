"""The evidence that the aten kernel is built with, made of a campaign's journal.

python -m attack.evidence build/attack/operators-2.15.jsonl src/opbridge/kernels/aten/evidence/torch_2_15.def
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from attack.journal import Journal

__all__ = ["text_of"]

_LINE = re.compile(r'^OPERATOR\("([^"]*)", .*\n', re.M)
_HEAD = """\
// What hostile calls of PyTorch {release}'s operators in guarded memory came to; written by tests/attack/evidence.py.
// OPERATOR(name, calls, calls that ran and were not refused, what was found)
"""


def text_of(journal: Journal, release: str, before: str = "") -> str:
    """The file for a release of torch.

    Args:
        journal: What was found.
        release: "2.15".
        before: The file as it was; operators that the journal does not have keep their lines.
    """
    lines = {found[1]: found[0] for found in _LINE.finditer(before)}
    for record in journal.records.values():
        found = record.findings[0]["what"] if record.findings else ""
        name = json.dumps(record.operator.removeprefix("aten::"))
        lines[json.loads(name)] = f"OPERATOR({name}, {record.calls}, {record.ran}, {json.dumps(found)})\n"
    return _HEAD.format(release=release) + "".join(lines[name] for name in sorted(lines, key=str.encode))


def main(journal: Path, file: Path) -> None:
    """The command line: writes a file."""
    release = file.stem.removeprefix("torch_").replace("_", ".")
    before = file.read_text() if file.exists() else ""
    file.write_text(text_of(Journal(journal), release, before))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
