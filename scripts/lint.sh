#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Holds the sources to ruff's rules and to the two formats, in seconds. `scripts/lint.sh all` asks clang-tidy as well,
# for minutes, about all that build/ compiles, and mypy and basedpyright about what they read of mebp in a user's lines.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:/usr/lib/llvm-22/bin:$PATH"

ruff check --quiet
ruff format --quiet --diff
git ls-files -z '*.cpp' '*.h' | xargs -0 clang-format --dry-run --Werror
if [ "${1:-}" = all ]; then
  mypy --python-executable .venv/bin/python
  basedpyright --pythonpath .venv/bin/python --warnings
  run-clang-tidy -quiet -p build -j "$(nproc)" "^$PWD/(compiler|dialects|examples|format|layout|platform|python|runtime|test|tools)/"
fi
