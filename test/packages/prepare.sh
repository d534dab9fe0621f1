#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the packages are tested with, from build/ into build/packages: the installed runtime in prefix/, bundle.mebp, and
# text/, which make_text.py describes.
set -euo pipefail
cd "$(dirname "$0")/../.."

[ -x build/bin/mebpc ] || { echo "build/bin/mebpc is not there: run make first" >&2; exit 2; }
build=build/packages
mkdir -p "$build"
cmake --install build --prefix "$build/prefix" >/dev/null

# Made anew where the compiler is newer.
if [ build/bin/mebpc -nt "$build/bundle.mebp" ]; then
  .venv/bin/python test/packages/make_bundle.py "$build/bundle.mebp" >"$build/bundle.log" 2>&1 ||
    { cat "$build/bundle.log" >&2; exit 1; }
  touch "$build/bundle.mebp"
fi
if [ build/bin/mebpc -nt "$build/text/losses.tsv" ] || [ test/packages/make_text.py -nt "$build/text/losses.tsv" ]; then
  .venv/bin/python test/packages/make_text.py "$build/text" >"$build/text.log" 2>&1 ||
    { cat "$build/text.log" >&2; exit 1; }
fi
