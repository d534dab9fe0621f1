#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs all tests, goes on after a failure, and ends with the totals.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

results=()
failed=0
run() {
  local name=$1 started=$SECONDS
  shift
  echo "== $name"
  if "$@"; then
    results+=("$name: passed in $((SECONDS - started)) s")
  else
    results+=("$name: FAILED in $((SECONDS - started)) s")
    failed=1
  fi
}

run "formats and rules (ruff, clang-format)" scripts/lint.sh
run "C++ and compiler (googletest, lit)" ctest --test-dir build --output-on-failure --no-tests=error -j "$(nproc)"
run "the runtime with sanitizers (googletest)" scripts/test_sanitizers.sh
run "kernels on AArch64 (googletest, qemu)" scripts/test_aarch64.sh
run "MLX backend (googletest)" scripts/test_mlx.sh
run "Python and end to end (pytest)" .venv/bin/python -m pytest test/python test/e2e

printf '\n'
printf '%s\n' "${results[@]}"
exit "$failed"
