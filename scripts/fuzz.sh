#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh NAME: runs test/fuzz's target of that name for MEBP_FUZZ_SECONDS (an hour). New inputs stay in
# build/fuzz/found/NAME, where the next run begins; what fails is written as build/fuzz/found/NAME-crash-... (-timeout-,
# -oom-). Mend the reader and keep that file in test/fuzz/corpus/NAME, under a name that tells what it did.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1 found=build/fuzz/found

scripts/setup.sh fuzz
[ -f build/fuzz/build.ninja ] || cmake --preset fuzz >/dev/null
cmake --build build/fuzz --target "fuzz_$name" >/dev/null

mkdir -p "$found/$name"
# Every execution writes its file, so the folder for these should be in memory.
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
export ASAN_OPTIONS=malloc_context_size=4:quarantine_size_mb=16
status=0
build/fuzz/bin/"fuzz_$name" -max_total_time="${MEBP_FUZZ_SECONDS:-3600}" -max_len=16384 -timeout=60 \
  -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$found/$name-" \
  "$found/$name" "test/fuzz/corpus/$name" >"$found/$name.log" 2>&1 || status=1
[ "$status" = 0 ] || tail -n 40 "$found/$name.log"
grep -a 'cov: ' "$found/$name.log" | tail -n 1
grep -aE 'number_of_executed_units|peak_rss_mb' "$found/$name.log" || true
exit "$status"
