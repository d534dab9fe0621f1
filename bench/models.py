# SPDX-License-Identifier: Apache-2.0
"""Which of transformers' causal language models, and of its encoders with a head, can be trained: each type is tried
with a tiny random model. The latter are called by what the head is for: "TYPE, fill-mask".

    .venv/bin/python bench/models.py [TYPE ...] [--missing | --check] [--part 1/10] [--variants]

Tries the types that are named, or all: with each kind of layers that a type can have, and with each published
configuration of it in bench/parts/public_shapes.py, but for its sizes. What it finds replaces their entries in
python/mebp/models.json, which `mebp models` prints; `make docs` writes docs/models.md from it; -o FILE keeps it
elsewhere. Entries of another transformers are dropped. A run that was stopped goes on with --missing, which leaves out
types that have an entry. --part 3/10 tries every tenth type, from the third. --check keeps nothing: it ends with status
1 where a type has another outcome than its entry; `make soak` runs it. --variants tries other configurations of each
type that trains exactly, too, which takes four times as long.
"""

import argparse
import json
import os
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

import transformers
from parts.models.configuration import known_types
from parts.models.worker import Worker, serve

from mebp.files import replaced_file
from mebp.models import TABLE, Models, ModelType, tried_models


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("types", nargs="*", metavar="TYPE", help="such as llama (all)")
    parser.add_argument("-o", "--output", type=Path, default=TABLE, metavar="FILE", help="(python/mebp/models.json)")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--missing", action="store_true", help="only types that have no entry yet")
    only.add_argument("--check", action="store_true", help="compare with the entries, and keep nothing")
    parser.add_argument("--part", metavar="I/N", default="1/1", help="every N-th type, from the I-th")
    parser.add_argument("--variants", action="store_true", help="other configurations of what trains exactly, too")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.types if name not in known_types()]
    if unknown:
        parser.error(f"transformers has no causal language model of type {unknown[0]}, and no encoder")
    part, parts = map(int, arguments.part.split("/"))
    found = {each.name: each for each in read_entries(arguments.output)}
    chosen = (arguments.types or known_types())[part - 1 :: parts]
    worker, changed = Worker(partial(serve, variants=arguments.variants)), []
    for name in chosen:
        if arguments.missing and name in found:
            continue
        entry = worker.attempt(name)
        print(f"{name}: {entry.outcome} {entry.reason}", flush=True)
        if arguments.check:
            changed += [name] if name not in found or entry.outcome != found[name].outcome else []
            continue
        found[name] = entry
        write_entries(arguments.output, found)
    worker.stop()
    if arguments.check:
        print(f"{len(chosen)} types tried, {len(changed)} otherwise than kept", *changed)
        sys.exit(1 if changed else 0)
    print(tried_models(arguments.output).summary())


def read_entries(table: Path) -> list[ModelType]:
    models = tried_models(table) if table.exists() else Models("", 0, [])
    return list(models.types) if models.transformers == transformers.__version__ else []


def write_entries(table: Path, found: dict[str, ModelType]) -> None:
    entries = [_said(asdict(found[name])) for name in sorted(found)]
    lines = ",\n".join(f"    {json.dumps(entry, ensure_ascii=False)}" for entry in entries)
    head = {"transformers": transformers.__version__, "known": len(known_types())}
    fields = "".join(f'  "{name}": {json.dumps(value)},\n' for name, value in head.items())
    with replaced_file(table, "make room there") as file:
        file.write_text(f'{{\n{fields}  "types": [\n{lines}\n  ]\n}}\n', encoding="utf-8")


def _said(entry: dict) -> dict:
    """Without what is empty."""
    if published := entry.get("published"):
        entry = {**entry, "published": [_said(each) for each in published]}
    return {key: value for key, value in entry.items() if value}


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch's threads would wait for each other by spinning
    main()
