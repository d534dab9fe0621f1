#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the CPU kernels for AArch64 and runs their tests by qemu, on a CPU that has bf16 products and on one without.
# What it builds beside them, test/e2e/test_kernels.py runs.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(uname -m)" = aarch64 ]; then
  echo "this machine is AArch64: the tests of its own build are these"
  exit 0
fi
scripts/setup.sh aarch64

build=build/aarch64
packages=(libhwy-dev libhwy1 libgtest-dev nlohmann-json3-dev libcli11-dev)

# Debian's packages for AArch64, unpacked and not installed: those for two architectures exclude each other.
fill_sysroot() {
  [ "$(cat "$build/sysroot/packages" 2>/dev/null || true)" != "${packages[*]}" ] || return 0
  echo "fetching libraries for AArch64"
  local apt=$PWD/$build/apt
  rm -rf "$apt" "$build/sysroot"
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/packages"
  cat >"$apt/apt.conf" <<CONF
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "";
Dir::State "$apt";
Dir::State::status "/dev/null";
Dir::Cache "$apt/cache";
CONF
  APT_CONFIG=$apt/apt.conf apt-get update -qq
  (cd "$apt/packages" && APT_CONFIG=$apt/apt.conf apt-get download -qq "${packages[@]}")
  for package in "$apt"/packages/*.deb; do
    dpkg -x "$package" "$build/sysroot"
  done
  echo "${packages[*]}" >"$build/sysroot/packages"
}

mkdir -p "$build"
fill_sysroot
[ -f "$build/build.ninja" ] || cmake --preset aarch64 >/dev/null
ninja -C "$build" --quiet kernel_tests session_gradients
# All on a CPU without products of bf16, then what they change on one with them. Many rows would take minutes.
run_tests() {
  QEMU_CPU=$1 ctest --test-dir "$build/test/runtime/kernels" --output-on-failure --no-tests=error -j "$(nproc)" -E ManyRows "${@:2}"
}
run_tests cortex-a72
run_tests max -R 'InstructionSet|Bf16Products|Fastest|Linear'
