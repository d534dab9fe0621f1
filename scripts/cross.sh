#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cross.sh [TARGET...]: links the runtime and mebp-run for other systems (default: aarch64-linux-musl aarch64-macos) by
# zig's C++ compiler, which brings each system's headers and C library; prints sizes, runs what qemu can run, and lists
# what a Mac's system has to have. docs/porting.md says what was run where.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/lib/llvm-22/bin"

zig_version=0.17.1
environment=build/cross/venv
zig=$environment/ziglang/zig
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(aarch64-linux-musl aarch64-macos)

if [ ! -x "$zig" ]; then
  echo "fetching zig $zig_version"
  mkdir -p build/cross
  .venv/bin/python -m pip install -qq --disable-pip-version-check --target "$environment" "ziglang==$zig_version"
fi
for target in "${targets[@]}"; do
  build=build/cross/$target
  echo "== $target"
  # The size of what is shipped: no assertions of containers, one section a function.
  [ -f "$build/build.ninja" ] || cmake -G Ninja -B "$build" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/zig.cmake" -DMEBP_ZIG="$PWD/$zig" -DMEBP_TARGET="$target" \
    -DMEBP_BUILD_COMPILER=OFF -DMEBP_BUILD_PYTHON=OFF -DMEBP_BUILD_TESTS=OFF >/dev/null
  ninja -C "$build" --quiet mebp-run
  run=$build/bin/mebp-run
  llvm-strip -o "$build/mebp-run.stripped" "$run"
  echo "mebp-run, stripped: $(stat -c %s "$build/mebp-run.stripped") bytes"
  case $target in
  *macos)
    llvm-otool -L "$run" | tail -n +2
    llvm-nm --undefined-only "$run" | sed 's/^ *U //' | sort >"$build/symbols.txt"
    echo "asks the system for $(wc -l <"$build/symbols.txt") symbols: $build/symbols.txt"
    ;;
  *) qemu-aarch64 "$run" --version ;;
  esac
done
