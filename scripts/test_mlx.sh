#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the runtime with the MLX backend into build/mlx and compares it with the CPU's reference kernels, on bundles
# that the compiler of build/ makes. MLX comes from its wheel for the CPU, into a virtual environment of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

[ -x build/bin/mebpc ] || { echo "build/bin/mebpc is not there: run make first" >&2; exit 2; }
version=$(sed -n 's/^find_package(MLX \([0-9.]*\) .*/\1/p' runtime/backends/mlx/CMakeLists.txt)
build=build/mlx
environment=$build/venv

if [ "$(cat "$environment/version" 2>/dev/null || true)" != "$version" ]; then
  echo "installing MLX $version"
  rm -rf "$environment"
  "${PYTHON:-python3}" -m venv "$environment"
  PIP_DISABLE_PIP_VERSION_CHECK=1 "$environment/bin/pip" install -qq "mlx[cpu]==$version"
  echo "$version" >"$environment/version"
fi
# Asked without importing it: MLX has no such file of its own.
mlx=$("$environment/bin/python" -c 'import importlib.util as u; print(u.find_spec("mlx").submodule_search_locations[0])')

[ -f "$build/build.ninja" ] || cmake --preset mlx -DCMAKE_PREFIX_PATH="$mlx" >/dev/null
ninja -C "$build" --quiet mlx_tests

# Made anew where the compiler is newer.
bundles=$build/bundles
if [ ! -e "$bundles/made" ] || [ build/bin/mebpc -nt "$bundles/made" ]; then
  rm -rf "$bundles"
  mkdir -p "$bundles"
  .venv/bin/python test/runtime/backends/make_bundles.py build/bin/mebpc "$bundles" >"$bundles/log" 2>&1 ||
    { cat "$bundles/log" >&2; exit 1; }
  touch "$bundles/made"
fi
MEBP_TEST_BUNDLES=$PWD/$bundles ctest --test-dir "$build/test/runtime/backends" --output-on-failure --no-tests=error "$@"
