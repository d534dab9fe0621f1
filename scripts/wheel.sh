#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel, says what is in it, and trains with it in a virtual environment that has nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$1"; }

say "build"
rm -rf dist
.venv/bin/pip wheel -q --no-deps --config-settings=build-dir=build/wheel -w dist .
wheel=$(echo dist/mebp-*.whl)

say "content: $(basename "$wheel"), $(stat -c %s "$wheel" | numfmt --to=si)B"
.venv/bin/python - "$wheel" <<'END'
import sys
import zipfile

sizes = {}
for file in zipfile.ZipFile(sys.argv[1]).infolist():
    parts = file.filename.split("/")
    compiled = parts[1] in ("bin", "lib") or ".so" in parts[-1]
    name = file.filename if compiled else f"{parts[0]}/ (other files)"
    packed, unpacked = sizes.get(name, (0, 0))
    sizes[name] = packed + file.compress_size, unpacked + file.file_size
for name, (packed, unpacked) in sorted(sizes.items(), key=lambda entry: -entry[1][0]):
    print(f"  {packed / 1e6:6.2f} MB packed {unpacked / 1e6:7.2f} MB  {name}")
END

say "a model to try it on, exported by the development environment"
trial=$(mktemp -d)
trap 'rm -rf "$trial"' EXIT
.venv/bin/mebp export packaged:smollm2 -o "$trial/model/model.onnx" --seq-len 64 2>/dev/null

say "install"
/usr/bin/python3 -m venv "$trial/venv"
"$trial/venv/bin/pip" install -q "$wheel"
cd "$trial"
export PATH="$trial/venv/bin:/usr/bin:/bin" LD_LIBRARY_PATH= PYTHONPATH= MEBP_TOOLS=
unset LD_LIBRARY_PATH PYTHONPATH MEBP_TOOLS

say "import"
for _ in 1 2 3; do
  python -c 'import time; t = time.perf_counter(); import mebp; mebp.Session; print(f"  import mebp, mebp.Session: {time.perf_counter() - t:.3f} s")'
done
! python -c 'import torch' 2>/dev/null || { echo "torch is there: this environment is not clean" >&2; exit 1; }

say "compile, train, generate"
mebpc model/model.onnx -o model.mebp | tail -n 2
printf 'The wheel of a barrow turns on its own. %.0s' {1..40} >notes.txt
mebp train model.mebp --data notes.txt --steps 3 --adapter-out adapter
mebp generate model.mebp --prompt 'The wheel' --adapter adapter --max-new-tokens 5
