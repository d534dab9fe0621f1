# SPDX-License-Identifier: Apache-2.0
"""What a hub takes: repositories that are made, and commits of files, the large ones by Git's protocol for these."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

_LARGE = ".safetensors"  # what the hub keeps beside Git
_BATCH = re.compile(r"/(.+)\.git/info/lfs/objects/batch")
_OF_MODEL = re.compile(r"/api/models/(.+)/(preupload|commit)/main")


@dataclass
class Uploads:
    """`token`: what may write. `repositories`: {id: {file: content}}. `made`: what was asked of new ones, by id."""

    token: str = "hf_test"
    user: str = "me"
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    made: dict[str, dict] = field(default_factory=dict)
    failing: Callable[[str], int | None] = lambda path: None  # the status that a path has instead
    _large: dict[str, bytes] = field(default_factory=dict)  # by their SHA-256

    def answer(self, path: str, token: str | None, content: bytes, endpoint: str) -> tuple[int, object]:
        """The status and what is said as JSON."""
        if (status := self.failing(path)) is not None:
            return status, {"error": f"the hub says {status}"}
        if path.startswith("/large/"):  # the address itself is the permission
            self._large[path.rpartition("/")[2]] = content
            return 200, {}
        if token != f"Bearer {self.token}":
            return 401, {"error": "Invalid username or password."}
        if path == "/api/repos/create":
            return self._make(json.loads(content), endpoint)
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if match := _BATCH.fullmatch(path):
            objects = [
                {**each, "actions": {"upload": {"href": f"{endpoint}/large/{each['oid']}"}}}
                for each in json.loads(content)["objects"]
            ]
            return 200, {"transfer": "basic", "objects": objects}
        if (match := _OF_MODEL.fullmatch(path)) and match[1] in self.repositories:
            return 200, getattr(self, f"_{match[2]}")(match[1], content, endpoint)
        return 404, {"error": "Repository not found"}

    def _make(self, asked: dict, endpoint: str) -> tuple[int, object]:
        id = f"{asked['organization'] or self.user}/{asked['name']}"
        if id in self.repositories:
            return 409, {"error": "You already created this model repo", "url": f"{endpoint}/{id}"}
        self.made[id], self.repositories[id] = asked, {}
        return 200, {"url": f"{endpoint}/{id}"}

    def _preupload(self, id: str, content: bytes, endpoint: str) -> dict:
        names = [each["path"] for each in json.loads(content)["files"]]
        return {"files": [{"path": name, "uploadMode": "lfs" if name.endswith(_LARGE) else "regular",
                           "shouldIgnore": False} for name in names]}  # fmt: skip

    def _commit(self, id: str, content: bytes, endpoint: str) -> dict:
        for line in map(json.loads, content.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                self.repositories[id][value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                self.repositories[id][value["path"]] = self._large[value["oid"]]
        commit = hashlib.sha1(content).hexdigest()
        return {"commitUrl": f"{endpoint}/{id}/commit/{commit}", "commitOid": commit}
