"""A page of headless Chromium with onnxruntime-web in it, and the server on this machine that it talks with."""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opbridge.errors import RunError, UsageError
from opbridge.runtimes.ending import die_with_parent
from opbridge.runtimes.messages import Read, framed, receive
from opbridge.runtimes.web import package
from opbridge.runtimes.web.models import Models, external_files, refuse

__all__ = ["CHROMIUM", "Page", "chromium", "shared"]

CHROMIUM = "OPBRIDGE_CHROMIUM"
"""The variable of the environment that names the program."""

_PROGRAMS = ("chromium", "chromium-browser", "chrome-headless-shell", "google-chrome", "google-chrome-stable")
_OPTIONS = (
    "--headless",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--mute-audio",
)
_OF_PROVIDERS = {
    "wasm": ("--disable-gpu",),
    # A machine may have no graphics card: SwiftShader is the one in software that comes with Chromium.
    "webgpu": (
        "--enable-unsafe-webgpu",
        "--use-webgpu-adapter=swiftshader",
        "--enable-features=Vulkan",
        "--use-vulkan=swiftshader",
    ),
}
_TYPES = {".html": "text/html", ".mjs": "text/javascript", ".wasm": "application/wasm"}
_LOOK_SECONDS = 0.2
_OPEN_SECONDS = 60.0


def chromium() -> str | None:
    """The program: what `OPBRIDGE_CHROMIUM` names, or one that the shell finds."""
    if named := os.environ.get(CHROMIUM):
        return shutil.which(named)
    return next(filter(None, map(shutil.which, _PROGRAMS)), None)


class Page(Models):
    """The page.

    Args:
        provider: What runs the operators: "wasm" or "webgpu".
    """

    def __init__(self, provider: str) -> None:
        folder, program = package.find(), chromium()
        if folder is None or program is None:
            what = "Chromium" if program is None else "onnxruntime-web"
            how = "apt install chromium" if program is None else package.install_command()
            raise UsageError(f"{what} is not installed. Install it with: {how}")
        self.owner = os.getpid()
        self._server = _Server(folder, provider)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._profile = tempfile.mkdtemp(prefix="opbridge-chromium-")
        # However this process ends, its end of the pipe closes, and the folder is removed.
        self._tidying = subprocess.Popen(
            ["sh", "-c", 'cat > /dev/null; sleep 1; rm -rf "$0"', self._profile],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        # Chromium refuses to start as root with its sandbox. The page loads nothing but what is served here.
        options = [*_OPTIONS, *_OF_PROVIDERS[provider], *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        self._process = subprocess.Popen(
            [program, *options, f"--user-data-dir={self._profile}", self._server.address],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent,
        )
        if not self._server.opened.wait(_OPEN_SECONDS):
            self.close()
            raise RunError(f"Chromium did not open a page within {_OPEN_SECONDS:.0f} seconds.")

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None and not self._server.closed.is_set()

    def load(self, model: str | bytes) -> int:
        content = model if isinstance(model, bytes) else Path(model).read_bytes()
        names = [] if isinstance(model, bytes) else external_files(model)
        weights = [(Path(str(model)).parent / each).read_bytes() for each in names]
        external = [{"path": name, "size": len(data)} for name, data in zip(names, weights, strict=True)]
        self._asked({"size": len(content), "external": external}, [content, *weights])
        self._loads += 1
        return self._loads

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()
        self._server.shutdown()
        self._server.server_close()
        self._tidying.communicate()

    def _asked(self, header: Mapping[str, Any], blocks: Sequence[Any]) -> tuple[dict[str, Any], Read]:
        self._server.requests.put(b"".join(framed(header, blocks)))
        while True:
            with contextlib.suppress(queue.Empty):
                read = _reader(self._server.answers.get(timeout=_LOOK_SECONDS))
                break
            if not self.runs:
                self.close()
                raise RunError("The browser page terminated: it ran out of memory, or crashed.")
        answer = receive(read)
        refuse(answer)
        return answer, read


def _reader(data: bytes) -> Read:
    at = 0

    def read(size: int) -> bytearray:
        nonlocal at
        at += size
        return bytearray(data[at - size : at])

    return read


class _Server(ThreadingHTTPServer):
    """Serves the page, below a path that nobody else knows, and passes messages."""

    daemon_threads = True

    def __init__(self, package_folder: Path, provider: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.path = f"/{secrets.token_urlsafe(24)}/"
        self.address = f"http://127.0.0.1:{self.server_address[1]}{self.path}page.html#{provider}"
        self.requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.opened, self.closed = threading.Event(), threading.Event()
        here = Path(__file__).parent
        self.files = {name: here / name for name in ("page.html", "page.mjs")}
        self.files["tensors.mjs"] = here.parent / "web" / "tensors.mjs"
        dist = package_folder / "dist"
        self.files |= {f"ort/{each.name}": each for each in dist.iterdir() if each.suffix in _TYPES}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: the page's end closes its connections."""


class _Handler(BaseHTTPRequestHandler):
    """One request of the page."""

    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name = self._name()
        if name == "next":
            self.server.opened.set()
            self._answer(self.server.requests.get(), "application/octet-stream")
        elif name == "alive":
            self.rfile.read(1)
            self.server.closed.set()
        elif name in self.server.files:
            path = self.server.files[name]
            self._answer(path.read_bytes(), _TYPES[path.suffix])
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        if self._name() != "answer":
            self.send_error(404)
            return
        self.server.answers.put(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(b"", "text/plain")

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def _name(self) -> str | None:
        """The name below the secret path; None elsewhere."""
        return self.path.removeprefix(self.server.path) if self.path.startswith(self.server.path) else None

    def _answer(self, content: bytes, type_: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", type_)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)


_shared: dict[str, Page] = {}


def shared(provider: str) -> Page:
    """The page of this process for a provider, opened where there is none or it has ended."""
    found = _shared.get(provider)
    if found is None or not found.runs or found.owner != os.getpid():
        found = _shared[provider] = Page(provider)
    return found
