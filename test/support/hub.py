# SPDX-License-Identifier: Apache-2.0
"""A hub on this machine: the few addresses that huggingface_hub asks for a model or data, who asked for which, and what
it sends."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from support.hub_uploads import Uploads

_API = re.compile(r"/api/(?:models|datasets)/(?P<id>[^/]+/[^/]+)/(?P<what>revision|tree)/(?P<revision>.+)")
_FILE = re.compile(r"(?:/datasets)?/(?P<id>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")


class Hub:
    """`models`: {id: {commit: folder}}; `branches`: {id: {name: commit}}. `asked`: all paths that were asked for.
    `uploads`: what was sent."""

    def __init__(self) -> None:
        self.models: dict[str, dict[str, Path]] = {}
        self.branches: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []
        self.uploads = Uploads()
        self.endpoint = ""

    def commit(self, id: str, folder: Path, branch: str = "main") -> str:
        """Puts `folder` there, and `branch` to it; returns the commit."""
        commit = hashlib.sha1(f"{id} {folder}".encode()).hexdigest()
        self.models.setdefault(id, {})[commit] = folder
        self.branches.setdefault(id, {})[branch] = commit
        return commit

    def resolved(self) -> list[str]:
        """The revisions that somebody had resolved to a commit."""
        found = (_API.fullmatch(path) for path in self.asked)
        return [match["revision"] for match in found if match and match["what"] == "revision"]

    def answer(self, path: str) -> tuple[bytes, dict[str, str]] | None:
        if match := _API.fullmatch(path):
            found = self._find(match["id"], match["revision"])
            if found is None:
                return None
            commit, folder = found
            files = {str(file.relative_to(folder)): file for file in sorted(folder.rglob("*")) if file.is_file()}
            if match["what"] == "revision":
                said = {"id": match["id"], "sha": commit, "siblings": [{"rfilename": name} for name in files]}
            else:
                said = [{"type": "file", "path": name, "size": file.stat().st_size, "oid": _digest(file)}
                        for name, file in files.items()]  # fmt: skip
            return json.dumps(said).encode(), {"Content-Type": "application/json"}
        if match := _FILE.fullmatch(path):
            found = self._find(match["id"], match["revision"])
            if found is None or not (found[1] / match["file"]).is_file():
                return None
            file = found[1] / match["file"]
            return file.read_bytes(), {"ETag": f'"{_digest(file)}"', "X-Repo-Commit": found[0]}
        return None

    def _find(self, id: str, revision: str) -> tuple[str, Path] | None:
        commit = self.branches.get(id, {}).get(revision, revision)
        folder = self.models.get(id, {}).get(commit)
        return (commit, folder) if folder else None


def _digest(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()


@contextmanager
def serving() -> Iterator[Hub]:
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            hub.asked.append(path)
            content, headers = hub.answer(path) or (b"{}", {"X-Error-Code": "RevisionNotFound"})
            self.send_response(404 if "X-Error-Code" in headers else 200)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_HEAD = do_GET  # noqa: N815

        def do_POST(self) -> None:
            path = unquote(urlsplit(self.path).path)
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, said = hub.uploads.answer(path, self.headers.get("Authorization"), sent, hub.endpoint)
            content = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_PUT = do_POST  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def use(hub: Hub, cache: Path, monkeypatch) -> None:
    """This process, and those that it starts, take it for the hub, with a new cache."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    for name, value in {
        "HF_ENDPOINT": hub.endpoint,
        "HF_HUB_CACHE": str(cache),
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Iterator[Hub]:
    with serving() as hub:
        use(hub, tmp_path / "hub-cache", monkeypatch)
        yield hub
