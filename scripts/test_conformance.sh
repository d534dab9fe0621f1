#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_conformance.sh [DEVICE...] [-- OPTIONS OF GOOGLETEST]: holds each device (default: cpu and mlx-cpu) to the CPU's
# naive kernels: every kernel, every program of bundles that the compiler makes, steps. Of the CPU each family of kernels
# that runs here.
set -euo pipefail
cd "$(dirname "$0")/.."

tests=build/bin/conformance_tests
[ -x "$tests" ] || { echo "$tests is not there: run make first" >&2; exit 2; }
devices=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  devices+=("$1")
  shift
done
[ $# = 0 ] || shift
[ ${#devices[@]} -gt 0 ] || devices=(cpu mlx-cpu)

# Made anew where the compiler is newer.
bundles=build/conformance
if [ ! -e "$bundles/made" ] || [ build/bin/mebpc -nt "$bundles/made" ]; then
  rm -rf "$bundles"
  mkdir -p "$bundles"
  .venv/bin/python test/conformance/make_bundles.py build/bin/mebpc "$bundles" >"$bundles/log" 2>&1 ||
    { cat "$bundles/log" >&2; exit 1; }
  touch "$bundles/made"
fi
export MEBP_TEST_BUNDLES=$PWD/$bundles MEBP_CACHE=$PWD/build/test-cache

totals=()
failed=0
hold() { # NAME DEVICE, and what googletest takes
  local name=$1 log=$bundles/$1.log
  shift
  echo "== $name"
  "$tests" --device "$@" >"$log" 2>&1 || { failed=1; cat "$log"; }
  totals+=("$(printf '%-16s %s of %s cases passed, %s results compared' "$name" \
    "$(grep -c '^\[       OK \]' "$log")" "$(grep -c '^\[ RUN      \]' "$log")" \
    "$(sed -n 's/.* \([0-9]*\) results, worst .*/\1/p' "$log" | awk '{ all += $1 } END { print all + 0 }')")")
}
for device in "${devices[@]}"; do
  if [ "$device" = cpu ]; then
    for family in $("$tests" --families); do
      MEBP_KERNELS=$family hold "cpu, $family" cpu "$@"
    done
  else
    hold "$device" "$device" "$@"
  fi
done
printf '%s\n' "${totals[@]}"
exit "$failed"
