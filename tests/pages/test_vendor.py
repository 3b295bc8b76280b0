"""The library that lays out pictures: pinned, compared with its hash, and not brought twice."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import tarfile

import pytest

from opbridge.pages import vendor


def archive() -> bytes:
    """What the registry would give."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as file:
        for name in vendor.FILES:
            info = tarfile.TarInfo(name)
            info.size = 4
            file.addfile(info, io.BytesIO(b"dagr"))
    return content.getvalue()


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """An npm that brings an archive of these tests, and counts its calls."""
    brought = archive()
    (tmp_path / "archive.tgz").write_bytes(brought)
    program = tmp_path / "bin" / "npm"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\ncp {tmp_path}/archive.tgz "$4/dagre.tgz"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(vendor, "_FOLDER", tmp_path / "vendor")
    digest = base64.b64encode(hashlib.sha512(brought).digest()).decode()
    monkeypatch.setattr(vendor, "INTEGRITY", f"sha512-{digest}")
    return tmp_path


def test_it_is_brought_once_with_its_licence(registry):
    assert not vendor.at_hand()
    vendor.bring()
    assert vendor.at_hand()
    assert sorted(each.name for each in (registry / "vendor").iterdir()) == ["VERSION", *sorted(vendor.FILES.values())]
    vendor.bring()
    calls = (registry / "calls").read_text().splitlines()
    assert len(calls) == 1 and calls[0].startswith(f"pack {vendor.PACKAGE} ")


def test_another_version_is_brought_again(registry, monkeypatch):
    vendor.bring()
    monkeypatch.setattr(vendor, "PACKAGE", "@dagrejs/dagre@9.9.9")
    assert not vendor.at_hand()


def test_what_has_another_hash_is_refused(registry, monkeypatch):
    monkeypatch.setattr(vendor, "INTEGRITY", "sha512-x")
    with pytest.raises(vendor.VendorError, match="checksum .* is wrong"):
        vendor.bring()
    assert not (registry / "vendor").exists()


def test_without_npm_or_a_registry_it_is_said(registry, monkeypatch):
    (registry / "bin" / "npm").write_text("#!/bin/sh\necho no network >&2\nexit 1\n")
    with pytest.raises(vendor.VendorError, match="could not download .*: no network"):
        vendor.bring()
    monkeypatch.setattr(vendor, "npm", lambda: None)
    with pytest.raises(vendor.VendorError, match=r"npm was not found.* Install Node\.js"):
        vendor.bring()
