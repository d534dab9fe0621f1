#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds, runs the tests, goes on after a failure, and ends with the minutes of each part. It fails where all of them took
# more than MEBP_TEST_MINUTES though ccache had nearly all that was compiled. Of each file of test/e2e (test/support/draw.py)
# and of the kernels on AArch64 it tries half, another half for each commit; MEBP_ALL_CASES=1 has it try all.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH" MEBP_ALL_JUDGES=1 # where a reference is missing, its tests fail

# Two slow cores that others share take twice as long as usual. The aim is 15: lower them as tests become faster.
if [ -n "${MEBP_ALL_CASES:-}" ]; then
  most_minutes=${MEBP_TEST_MINUTES:-150}
else
  export MEBP_DRAW_CASES=1
  most_minutes=${MEBP_TEST_MINUTES:-80}
fi
results=()
failed=0
minutes() { echo "$(($1 / 60)).$(($1 % 60 / 6))"; } # of SECONDS
finish() {                                          # NAME SECONDS STATUS
  local result="passed"
  if [ "$3" != 0 ]; then
    result="FAILED"
    failed=1
  fi
  results+=("$1: $result in $(minutes "$2") min")
  echo "== ${results[-1]}" # at once, for a run that is stopped
}
cache_misses() { ccache --print-stats 2>/dev/null | awk '$1 == "cache_miss" { print $2 }'; } # nothing without ccache
misses=$(cache_misses)
run() {
  local name=$1 started=$SECONDS status=0
  shift
  echo "== $name"
  "$@" || status=$?
  finish "$name" $((SECONDS - started)) "$status"
}
# What builds and runs by itself goes on beside the others, which leave a core idle here and there. Its output comes when it
# has ended.
beside=build/beside
mkdir -p "$beside"
rm -f "$beside"/*
trap 'jobs -p | xargs -r kill 2>/dev/null' EXIT
trap 'exit 130' INT # which pytest takes for itself
start_beside() {
  local name=$1
  shift
  {
    local started=$SECONDS status=0
    "$@" >"$beside/$name.log" 2>&1 || status=$?
    echo "$((SECONDS - started)) $status" >"$beside/$name.end"
  } &
}
finish_beside() { # what start_beside began
  local seconds status log
  wait
  for log in "$beside"/*.log; do
    echo "== $(basename "$log" .log)"
    cat "$log"
    read -r seconds status <"${log%.log}.end"
    finish "$(basename "$log" .log)" "$seconds" "$status"
  done
}

run "build" scripts/build.sh
[ "$failed" = 0 ] || exit 1
run "Go, for Ollama's templates (Debian)" scripts/setup.sh go
start_beside "the runtime with sanitizers (googletest)" scripts/test_sanitizers.sh
run "formats and rules (ruff, clang-format)" scripts/lint.sh
run "C++ and compiler (googletest, lit)" ctest --test-dir build --output-on-failure --no-tests=error -j "$(nproc)"
run "kernels on AArch64 (googletest, qemu)" scripts/test_aarch64.sh kernels # before pytest, which runs what it builds
start_beside "the runtime on AArch64 (googletest, qemu)" scripts/test_aarch64.sh runtime
start_beside "Android package (JUnit)" scripts/test_jni.sh
start_beside "MLX for CUDA and Metal (symbols)" .venv/bin/python scripts/check_mlx_symbols.py --folder build/mlx_wheels
# Tests move to the process that has none left: by files, one file of minutes at the end would leave a core idle.
run "Python and end to end (pytest)" .venv/bin/python -m pytest -n 2 --dist worksteal test/python test/e2e
finish_beside
run "conformance of devices (googletest)" scripts/test_conformance.sh

results+=("all: $(minutes "$SECONDS") min")
# Ten objects take about a minute.
if [ -n "$misses" ] && [ $(($(cache_misses) - misses)) -le 10 ] && [ "$SECONDS" -gt $((most_minutes * 60)) ]; then
  results+=("FAILED: with a warm cache \`make test\` may take $most_minutes min; make tests faster (pytest --durations=30 \
names the slowest), or set MEBP_TEST_MINUTES on a machine that is slower")
  failed=1
fi
printf '\n'
printf '%s\n' "${results[@]}"
exit "$failed"
