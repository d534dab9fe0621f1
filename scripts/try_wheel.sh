#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs mebp in a new virtual environment and uses it there: scripts/try_wheel.sh PYTHON FOLDER
#
# FOLDER, which make wheel fills, has in wheels/ all that is installed, in model/ an exported model, and notes.txt, the
# text to train on.
set -euo pipefail
python=$1
cd "$2"

rm -rf venv adapter smollm2.mebp
"$python" -m venv venv
venv/bin/pip --isolated --disable-pip-version-check install -q --no-index --find-links wheels mebp
PATH=$PWD/venv/bin:$PATH
! python -c 'import torch' 2>/dev/null || { echo "torch is there: this environment is not clean" >&2; exit 1; }

# What an import takes in a new process, ten times. `import mebp` has to be under 0.2 s.
measure='import sys, time; t = time.perf_counter(); exec(sys.argv[1]); print(time.perf_counter() - t)'
for statement in 'import mebp' 'import mebp; mebp.Session'; do
  for _ in {1..10}; do python -c "$measure" "$statement"; done | sort -g | awk -v statement="$statement" '
    { seconds[NR] = $1 }
    END {
      printf "%s: %.4f s at best, %.4f s at the median\n", statement, seconds[1], (seconds[5] + seconds[6]) / 2
      if (statement == "import mebp" && seconds[1] > 0.2) { print "this is over 0.2 s"; exit 1 }
    }'
done

mebp --version
mebpc model/model.onnx -o smollm2.mebp | tail -n 3
mebp train smollm2.mebp --data notes.txt --steps 3 --adapter-out adapter
mebp generate smollm2.mebp --prompt 'The wheel' --adapter adapter --max-new-tokens 5
mebp-run --help >help.txt
head -n 1 help.txt

# Without MLX a device says how to get it; with it, both take the same step.
mebp devices --json >devices.json
python - <<'END'
import json
found = {device["name"]: device for device in json.load(open("devices.json"))}
assert "'mebp[cuda]'" in found["mlx-cpu"]["description"], found
END
pip --isolated --disable-pip-version-check install -q --no-index --find-links wheels 'mebp[mlx-cpu]'
mebp devices --test >tested.txt
sed '/^$/,$d' tested.txt
mebp parity smollm2.mebp --devices cpu,mlx-cpu
