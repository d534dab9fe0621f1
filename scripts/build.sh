#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds into build/ and makes `mebp`, `mebpc`, `mebp-run` and the Python package reachable in .venv. `build.sh product`
# leaves out what only tests need.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

# Configured anew where the environment is newer: nanobind lies in it. Ninja sees every other change by itself.
if [ ! -e build/build.ninja ] || [ .venv/stamp -nt build/build.ninja ]; then
  # A build folder that came from elsewhere cannot be used. Those of CMakePresets.json lie in it, too.
  if [ -e build/CMakeCache.txt ] && ! grep -qsx "CMAKE_HOME_DIRECTORY:INTERNAL=$root" build/CMakeCache.txt; then
    rm -rf build
  fi
  cmake --preset release -DMEBP_WERROR="${MEBP_WERROR:-OFF}" >/dev/null
  touch build/build.ninja
fi
cmake --build build ${1:+--target "$1"}
# Where editors and clang-tidy look for it.
ln -sfn build/compile_commands.json compile_commands.json

for tool in mebpc mebp-run; do
  ln -sfn "$root/build/bin/$tool" ".venv/bin/$tool"
done
for extension in build/python/mebp/_runtime*.so build/lib/libmebp_mlx.* build/lib/libmebp_grpc.*; do
  [ -e "$extension" ] || continue
  ln -sfn "$root/$extension" "python/mebp/$(basename "$extension")"
done
packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$root/python" >"$packages/mebp.pth"
cat >.venv/bin/mebp <<END
#!$root/.venv/bin/python
import sys
from mebp.cli import main
sys.exit(main())
END
chmod +x .venv/bin/mebp
