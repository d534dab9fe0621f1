#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures build/aarch64 for AArch64 Linux with glibc: by Debian's cross compiler, with Debian's libraries for AArch64.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh aarch64

build=build/aarch64
packages=(libhwy-dev libhwy1 libgtest-dev nlohmann-json3-dev libpcre2-dev libpcre2-8-0 libutf8proc-dev libutf8proc2)

# Unpacked and not installed: Debian's packages for two architectures exclude each other.
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
