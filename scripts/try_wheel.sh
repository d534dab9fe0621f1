#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs mebp in a new virtual environment and uses it there: scripts/try_wheel.sh PYTHON FOLDER
#
# FOLDER, which make wheel fills, has in wheels/ all that is installed, in model/ an exported model, notes.txt, the text to
# train on, and libraries of our names that must never run.
set -euo pipefail
python=$1
cd "$2"

rm -rf venv adapter smollm2.mebp stranger-ran
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
# Neither a device that is not installed nor a connection takes the library that lies here.
printf '\1\0\0\0%.0s' {1..256} >ids.bin
mebpc model/model.onnx -o split.mebp --adapter private-lora --split private-lora | tail -n 1
for trial in 'smollm2.mebp --device mlx-cpu' 'split.edge.mebp --connect 127.0.0.1:9 --plain-text'; do
  ! mebp-run $trial --tokens ids.bin --steps 1 >refused.txt 2>&1 || { echo "$trial ran" >&2; exit 1; }
  tail -n 1 refused.txt
done
pip --isolated --disable-pip-version-check install -q --no-index --find-links wheels 'mebp[mlx-cpu]'
mebp devices --test >tested.txt
sed '/^$/,$d' tested.txt
mebp parity smollm2.mebp --devices cpu,mlx-cpu
[ ! -e stranger-ran ] || { echo "a library of the current folder ran" >&2; exit 1; }
