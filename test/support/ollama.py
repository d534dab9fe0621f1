# SPDX-License-Identifier: Apache-2.0
"""A program in Ollama's place that records what it is asked: the real one cannot be installed where tests run. What it
prints is what Ollama 0.33.0-rc2 prints by its source."""

import json
import sys
from pathlib import Path

PROGRAM = """#!{python}
import json, shutil, sys, time
from pathlib import Path
place = Path({place!r})
settings = json.loads((place / "settings.json").read_text())
command, *given = sys.argv[1:]
with (place / "calls").open("a") as calls:
    calls.write(json.dumps([command, *given]) + "\\n")
def fail(text):
    sys.stderr.write("\\x1b[?25lgathering model components \\r\\n" + "Error: " + text + "\\n")
    sys.exit(1)
if command == "--version":
    print(settings["version"])
elif command == "show":
    if settings.get("show"):
        fail(settings["show"])
    if not (place / "models" / given[0]).exists():
        fail(f"model '{{given[0]}}' not found")
elif command == "create":
    name, _, modelfile = given
    lines = Path(modelfile).read_text().splitlines()
    source = Path(modelfile).with_name(lines[1].removeprefix("FROM ./"))
    model = place / "models" / name
    model.mkdir()
    shutil.copy(source, model / "model.gguf")
    (model / "Modelfile").write_text("\\n".join(lines))
    if settings.get("create"):
        fail(settings["create"])
    time.sleep(settings.get("seconds", 0))
elif command == "run":
    if settings.get("run"):
        fail(settings["run"])
    print(settings.get("answer", "I can keep a lamp."))
elif command == "rm":
    shutil.rmtree(place / "models" / given[0])
"""


class OllamaProgram:
    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "models").mkdir()
        (place / "calls").touch()
        program = place / "ollama"
        program.write_text(PROGRAM.format(python=sys.executable, place=str(place)))
        program.chmod(0o755)
        self.set(version="ollama version is 0.34.1")

    def set(self, **settings: object) -> None:
        (self.place / "settings.json").write_text(json.dumps({"version": "ollama version is 0.35.2", **settings}))

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.place / "calls").read_text().splitlines()]

    @property
    def models(self) -> list[str]:
        return sorted(each.name for each in (self.place / "models").iterdir())
