#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_aarch64.sh [kernels] [runtime] [devices] [musl] (default: kernels runtime): tests on AArch64, by qemu.
#   kernels  those of the CPU kernels, on a CPU that has bf16 products and on one without
#   runtime  those of the runtime, with glibc
#   devices  a device that is lost and one with planted faults: minutes of the processor
#   musl     both with musl and another compiler, linked statically (scripts/cross.sh)
# test/e2e/test_kernels.py runs what `kernels` builds beside them.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(uname -m)" = aarch64 ]; then
  echo "this machine is AArch64: the tests of its own build are these"
  exit 0
fi
[ $# -gt 0 ] || set -- kernels runtime

# What cannot be tried by qemu 7.2:
not_by_qemu=(
  RunTest.RefusesThreadsThatTheSystemDoes # in 200 MB of addresses; qemu takes more before it starts
  Spill.RefusesAStepThatItCannotReadBack  # it answers that MADV_POPULATE_READ succeeded and does nothing
)
# What cannot be tried in a static program with musl, nor any device in a library of its own:
not_by_musl=(
  CommaLocale.ChangesNoNumber           # musl has no locale that writes numbers with a comma
  Devices.RefuseALibraryWithoutABackend # a static program opens no library
)

# Many rows would take minutes. Where make test draws half of its slow tests, it is every second of these.
test_kernels() { # FOLDER CPU, and what ctest takes
  local drawn=() commit
  if [ -n "${MEBP_DRAW_CASES:-}" ]; then
    commit=$(git rev-parse HEAD 2>/dev/null || echo 0)
    drawn=(-I "$((1 + 0x${commit: -1} % 2)),,2")
  fi
  QEMU_CPU=$2 ctest --test-dir "$1/test/runtime/kernels" --output-on-failure --no-tests=error -j "$(nproc)" -E ManyRows \
    "${drawn[@]}" "${@:3}"
}

test_runtime() { # FOLDER, programs of tests, --, tests to leave out
  local folder=$1 log=$1/tests.log status=0 programs=()
  shift
  while [ "$1" != -- ]; do
    programs+=("$1")
    shift
  done
  shift
  : >"$log"
  for program in "${programs[@]}"; do
    MEBP_CACHE=$PWD/$folder/cache qemu-aarch64 -L /usr/aarch64-linux-gnu "$folder/$program" --gtest_brief=1 \
      --gtest_filter="*-$(IFS=: && echo "$*")" >>"$log" 2>&1 || status=1
  done
  [ "$status" = 0 ] || cat "$log"
  awk -v name="$folder" -v excluded="$# ($*)" '
    /^\[=+\]/ { run += $2 } /^\[  PASSED  \]/ { passed += $4 } /^\[  SKIPPED \] [0-9]+ test/ { skipped += $4 }
    END { printf "%s: %d of %d tests passed, %d skipped; left out: %s\n", name, passed, run, skipped, excluded }' "$log"
  return "$status"
}

for part in "$@"; do
  case $part in
  kernels)
    scripts/configure_aarch64.sh
    ninja -C build/aarch64 --quiet kernel_tests session_gradients
    # All on a CPU without products of bf16, then what they change on one with them.
    test_kernels build/aarch64 cortex-a72
    test_kernels build/aarch64 max -R 'InstructionSet|Bf16Products|Fastest|Linear'
    ;;
  runtime)
    scripts/configure_aarch64.sh
    ninja -C build/aarch64 --quiet runtime_tests
    test_runtime build/aarch64 bin/runtime_tests -- "${not_by_qemu[@]}"
    ;;
  devices)
    scripts/configure_aarch64.sh
    ninja -C build/aarch64 --quiet lost_device_tests self_test_tests
    test_runtime build/aarch64 test/runtime/lost_device/lost_device_tests test/runtime/self_test/self_test_tests --
    ;;
  musl)
    scripts/cross.sh aarch64-linux-musl
    test_kernels build/cross/aarch64-linux-musl max
    test_runtime build/cross/aarch64-linux-musl bin/runtime_tests -- "${not_by_qemu[@]}" "${not_by_musl[@]}"
    ;;
  *)
    echo "test_aarch64.sh: there is no part '$part'; choose kernels, runtime, devices or musl" >&2
    exit 2
    ;;
  esac
done
