#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cross.sh [TARGET...]: compiles and links the runtime, mebp-run and the tests for other systems (default:
# aarch64-linux-gnu aarch64-linux-musl aarch64-macos small). The first by Debian's cross compiler, the next by zig's,
# which brings each system's headers and C library. Prints sizes, and lists what a Mac's system has to have.
# `small` is mebp-run and libmebp.so by the preset small-aarch64 (docs/size.md); MEBP_BUNDLES="A.mebp;B.mebp" builds them
# once more with the kernels of these bundles alone. scripts/test_aarch64.sh runs what qemu can run.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/lib/llvm-22/bin"

zig_version=0.17.1
environment=build/cross/venv
zig=$environment/ziglang/zig
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(aarch64-linux-gnu aarch64-linux-musl aarch64-macos small)

print_size() {
  "${3:-llvm-strip}" -o "$1.stripped" "$1"
  echo "$2, stripped: $(stat -c %s "$1.stripped") bytes"
}
build_small() { # FOLDER BUNDLES
  cmake --preset small-aarch64 -B "$1" -DMEBP_SYSROOT="$PWD/build/aarch64/sysroot" -DMEBP_BUNDLES="$2" >/dev/null
  ninja -C "$1" --quiet mebp-run mebp_shared
  print_size "$1/bin/mebp-run" mebp-run aarch64-linux-gnu-strip
  print_size "$1/libmebp.so" libmebp.so aarch64-linux-gnu-strip
}
fetch_zig() {
  [ ! -x "$zig" ] || return 0
  echo "fetching zig $zig_version"
  mkdir -p build/cross
  .venv/bin/python -m pip install -qq --disable-pip-version-check --target "$environment" "ziglang==$zig_version"
}
for target in "${targets[@]}"; do
  echo "== $target"
  if [ "$target" = small ]; then
    scripts/configure_aarch64.sh
    build_small build/small-aarch64 ""
    [ -z "${MEBP_BUNDLES:-}" ] || {
      echo "== small, for $MEBP_BUNDLES"
      build_small build/small-aarch64-bundles "$MEBP_BUNDLES"
    }
    continue
  fi
  if [ "$target" = aarch64-linux-gnu ]; then
    build=build/aarch64
    scripts/configure_aarch64.sh
  else
    build=build/cross/$target
    fetch_zig
    # The size of what is shipped: no assertions of containers, one section a function.
    [ -f "$build/build.ninja" ] || cmake -G Ninja -B "$build" -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/zig.cmake" -DMEBP_ZIG="$PWD/$zig" -DMEBP_TARGET="$target" \
      -DMEBP_BUILD_COMPILER=OFF -DMEBP_BUILD_PYTHON=OFF >/dev/null
  fi
  ninja -C "$build" --quiet mebp-run kernel_tests net_tests runtime_tests lost_device_tests self_test_tests conformance_tests
  run=$build/bin/mebp-run
  print_size "$run" mebp-run
  if [[ $target == *macos ]]; then
    llvm-otool -L "$run" | tail -n +2
    llvm-nm --undefined-only "$run" | sed 's/^ *U //' | sort >"$build/symbols.txt"
    echo "asks the system for $(wc -l <"$build/symbols.txt") symbols: $build/symbols.txt"
  fi
done
