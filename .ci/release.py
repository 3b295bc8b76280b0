"""What a release is made with: whether a tag and the version agree, and the release's notes.

release.py check TAG      ends with status 1 unless TAG is "v" and the version, and CHANGELOG.md has a section for it
release.py notes          prints that section of CHANGELOG.md
release.py version        prints the version

The version stands in src/opbridge/base/version.py, and a tag has to agree with it. It is not made from the tag:
opbridge writes its version into every model file, and an sdist, an archive of the repository and an installation in
place, which all know no tags, have to write the right one too.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

__all__ = ["check", "notes", "version"]

ROOT = Path(__file__).parents[1]


def version() -> str:
    """The version."""
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "src/opbridge/base/version.py").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def notes(changelog: str, release: str) -> str:
    """The section of a change log about a release, without its heading.

    Args:
        changelog: The text of CHANGELOG.md.
        release: A version.

    Raises:
        SystemExit: there is none. What is unreleased gets the version as its heading first.
    """
    for section in re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        if re.fullmatch(rf"\[?{re.escape(release)}\]?( .*)?", heading):
            return f"{text.strip()}\n"
    sys.exit(f"CHANGELOG.md has no section '## {release}'. Give the section 'Unreleased' that heading, and the date.")


def check(tag: str, release: str, changelog: str) -> None:
    """Ends with status 1 where a tag is not the one of a release, or the change log does not have the release."""
    if tag != f"v{release}":
        sys.exit(f"The tag is {tag}, and base/version.py has {release}: tag v{release}, or correct the file.")
    notes(changelog, release)


def main(arguments: list[str]) -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    if arguments[:1] == ["check"] and len(arguments) == 2:
        check(arguments[1], version(), changelog)
    elif arguments == ["notes"]:
        print(notes(changelog, version()), end="")
    elif arguments == ["version"]:
        print(version())
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
