#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks which folder of C++ includes which against the edges that are allowed here, and that neither folders nor files
include each other in a circle, nor any file is too long. Prints what is wrong; --graph prints every edge instead."""

import argparse
import collections
import fnmatch
import pathlib
import re
import sys

# Folder: what it may include; * is one name. A folder may have what any pattern that fits it allows.
ALLOWED = {
    "dialects/nn": ["format"],
    "dialects/train": ["dialects/nn", "format"],
    "dialects/exec": ["dialects/train", "format"],
    "compiler": ["format"],
    "compiler/*": ["compiler", "dialects/*", "format"],
    "compiler/emit": ["compiler/bundle", "compiler/plan"],
    "compiler/plan": ["layout"],
    "compiler/pipeline": ["compiler/*"],
    "compiler/split": ["compiler/rewrite"],
    "tools/*": ["format"],
    "tools/mebpc": ["compiler", "compiler/pipeline", "runtime/include/mebp"],
    "tools/mebp-opt": ["compiler/pipeline", "dialects/*"],
    "tools/mebp-run": ["runtime/core", "runtime/include/mebp", "runtime/net"],
    "python/src": ["runtime/include/mebp", "runtime/gguf", "runtime/net", "format"],
    "examples": ["runtime/include/mebp"],
    "examples/*": ["runtime/include/mebp"],
    "packages/android/mebp/src/main/cpp": ["runtime/include/mebp"],
    "format": ["platform"],
    "layout": ["format"],
    "runtime/*": ["runtime/core", "platform", "format"],
    "runtime/core": ["runtime/include/mebp"],
    "runtime/bundle": ["runtime/exec"],
    "runtime/backends": ["runtime/backends/*", "runtime/exec", "runtime/include/mebp"],
    "runtime/backends/*": ["runtime/core", "runtime/exec", "platform", "format"],
    "runtime/backends/*/*": ["runtime/exec", "platform", "format"],
    "runtime/backends/cpu": ["runtime/backends/cpu/*"],
    "runtime/backends/cpu/*": ["runtime/backends/cpu/kernel"],
    "runtime/backends/cpu/interpreter": ["runtime/core"],
    "runtime/backends/cpu/kernel": ["runtime/core"],
    "runtime/backends/cpu/vector": ["runtime/backends/cpu/products", "runtime/backends/cpu/reference"],
    "runtime/backends/mlx": ["runtime/include/mebp"],
    "runtime/backends/mlx/*": ["runtime/backends/mlx"],
    "runtime/train": [
        "layout",
        "runtime/backends",
        "runtime/bundle",
        "runtime/exec",
        "runtime/include/mebp",
        "runtime/optim",
        "runtime/split",
    ],
    "runtime/split": ["runtime/include/mebp"],
    "runtime/generate": ["layout", "runtime/bundle", "runtime/exec", "runtime/train"],
    "runtime/adapter": ["runtime/bundle", "runtime/train"],
    "runtime/api": [
        "layout",
        "runtime/adapter",
        "runtime/backends",
        "runtime/bundle",
        "runtime/calibrate",
        "runtime/generate",
        "runtime/include/mebp",
        "runtime/optim",
        "runtime/serve",
        "runtime/train",
    ],
    "runtime/serve": ["runtime/bundle", "runtime/generate", "runtime/include/mebp", "runtime/train"],
    "runtime/calibrate": [
        "runtime/backends",
        "runtime/backends/self_test",
        "runtime/exec",
        "runtime/include/mebp",
        "runtime/optim",
    ],
    "runtime/net": ["runtime/include/mebp"],
    "runtime/net/grpc": ["runtime/core", "runtime/net", "runtime/include/mebp", "format"],
    "runtime/optim": ["runtime/include/mebp"],
    "runtime/text/patterns": ["runtime/text/unicode"],
    "runtime/text/tokenizer": ["runtime/text/patterns", "runtime/text/unicode"],
    "runtime/text/*": ["runtime/core", "runtime/include/mebp", "format"],
    "runtime/text/chat": ["runtime/text/data", "runtime/text/tokenizer"],
    "runtime/text/source": ["runtime/text/chat", "runtime/text/data", "runtime/text/tokenizer"],
}

# Edges that should go. One that is gone has to leave this list.
EXCEPTIONS = set()

# Where files of one folder may include each other in a circle.
ONE_THING = (
    "dialects/*/*",  # ops and their interfaces know each other
    "runtime/include/mebp/*",  # mebp.h has all of the C API, and each part of it begins with mebp.h
    "runtime/backends/cpu/products/*",  # a table of families, and these
    "runtime/backends/cpu/vector/attention*",  # likewise
)

GRAPH = ("format", "dialects", "compiler", "runtime", "tools", "python/src", "examples", "packages")
SOURCES = GRAPH + ("python", "test", "bench", "scripts", "docs")
CODE = {".h", ".cpp", ".c"}
LINES = {".td", ".py", ".sh", ".mlir", ".proto", ".kt", ".swift"} | CODE
MOST_LINES = 500
LONG = set()  # tables that are longer


def files_of(root, folders, suffixes):
    found = {path for folder in folders for path in (root / folder).rglob("*") if path.suffix in suffixes}
    return sorted(path for path in found if path.is_file() and "__pycache__" not in path.parts)


def included_folder(root, path, name):
    """The folder of an included file of ours, generated ones too; None for any other."""
    if name.startswith("mebp/"):
        return "runtime/include/mebp"
    if name.split("/")[0] in GRAPH and "/" in name:
        return str(pathlib.PurePosixPath(name).parent)
    beside = path.parent / name
    return beside.parent.relative_to(root).as_posix() if beside.exists() else None


def included_file(root, path, name):
    """An included file of ours; None for any other, and for those that are generated."""
    places = (root / name, root / "runtime/include" / name, path.parent / name)
    return next((place for place in places if place.exists()), None)


def find_unit_edges(root):
    """{(unit, included unit)}; a header and its source are one unit, PATH without an ending."""
    edges = set()
    for path in files_of(root, GRAPH, CODE):
        unit = path.relative_to(root).with_suffix("").as_posix()
        for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE):
            if included := included_file(root, path, name):
                other = included.resolve().relative_to(root).with_suffix("").as_posix()
                if other != unit and not any(fits(unit, one) and fits(other, one) for one in ONE_THING):
                    edges.add((unit, other))
    return edges


def find_edges(root):
    """{(folder, included folder): ["file:line includes name", ...]}"""
    edges = collections.defaultdict(list)
    for path in files_of(root, GRAPH, CODE):
        folder = path.parent.relative_to(root).as_posix()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            included = match and included_folder(root, path, match.group(1))
            if included and included != folder:
                place = f"{path.relative_to(root)}:{number} includes {match.group(1)}"
                edges[folder, included].append(place)
    return edges


def fits(folder, pattern):
    return folder.count("/") == pattern.count("/") and fnmatch.fnmatch(folder, pattern)


def is_allowed(folder, included):
    return any(
        fits(folder, pattern) and any(fits(included, target) for target in targets)
        for pattern, targets in ALLOWED.items()
    )


def find_cycle(edges):
    """A list of folders, each of which includes the next, the first one twice; or nothing."""
    targets = collections.defaultdict(list)
    for folder, included in sorted(edges):
        targets[folder].append(included)
    done = set()

    def search(folder, way):
        if folder in way:
            return way[way.index(folder) :] + [folder]
        if folder not in done:
            for included in targets[folder]:
                if cycle := search(included, way + [folder]):
                    return cycle
            done.add(folder)
        return []

    return next((cycle for folder in sorted(targets) if (cycle := search(folder, []))), [])


def check(root, exceptions=EXCEPTIONS):
    """What is wrong, a line each."""
    edges = find_edges(root)
    problems = []
    for edge, places in sorted(edges.items()):
        if edge not in exceptions and not is_allowed(*edge):
            problems += [f"{place}: {edge[0]} may not include {edge[1]}" for place in places]
    problems += [f"the exception {a} -> {b} is gone: take it out" for a, b in sorted(exceptions - set(edges))]
    if cycle := find_cycle(set(edges) - exceptions):
        problems.append("folders include each other: " + " -> ".join(cycle))
    if cycle := find_cycle(find_unit_edges(root)):
        problems.append("files include each other: " + " -> ".join(cycle))
    for path in files_of(root, SOURCES, LINES):
        name, lines = path.relative_to(root).as_posix(), len(path.read_text().splitlines())
        if lines > MOST_LINES and name not in LONG:
            problems.append(f"{name}: has {lines} lines, more than {MOST_LINES}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graph", action="store_true")
    arguments = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent
    if arguments.graph:
        for (folder, included), places in sorted(find_edges(root).items()):
            print(f"{folder} -> {included} ({len(places)})")
        return 0
    problems = check(root)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
