# SPDX-License-Identifier: Apache-2.0
"""A store as Ollama's, of manifests and blobs, with whatever may be wrong in one."""

import hashlib
import json
from pathlib import Path

KIND = "application/vnd.ollama.image."
USUAL = "registry.ollama.ai/library"


class OllamaStore:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "blobs").mkdir(parents=True)

    def layer(self, kind: str, content: bytes) -> dict[str, object]:
        """Its entry in a manifest; the content becomes a blob."""
        digest = hashlib.sha256(content).hexdigest()
        self.blob(digest).write_bytes(content)
        return {"mediaType": KIND + kind, "digest": f"sha256:{digest}", "size": len(content)}

    def blob(self, digest: object) -> Path:
        return self.folder / "blobs" / f"sha256-{str(digest).removeprefix('sha256:')}"

    def put(self, place: str, *layers: object, **also: object) -> Path:
        """The manifest of these layers; place: HOST/NAMESPACE/MODEL/TAG."""
        file = self.folder / "manifests" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        kind = "application/vnd.docker.distribution.manifest.v2+json"
        file.write_text(json.dumps({"schemaVersion": 2, "mediaType": kind, "layers": layers, **also}))
        return file

    def put_model(self, content: bytes, place: str = f"{USUAL}/tiny/latest") -> Path:
        """A GGUF file as Ollama keeps one; the blob."""
        layer = self.layer("model", content)
        config = self.layer("config", b'{"model_format": "gguf"}')
        self.put(place, layer, self.layer("template", b"{{ .Prompt }}"), config=config)
        return self.blob(layer["digest"])
