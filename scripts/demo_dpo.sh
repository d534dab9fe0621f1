#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A packaged model learns which of two answers is preferred, and is asked about pairs that it has not seen.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

say() { printf '\n== %s\n' "$1"; }
prefer() { python examples/prefer.py demo/dpo.mebp --pairs examples/brindle_rock_pairs_questions.jsonl "$@"; }

mkdir -p demo
say "export SmolLM2-135M-Instruct to ONNX, and compile it to 4 bits"
mebp export packaged:smollm2 -o demo/model/model.onnx --seq-len 256
mebpc demo/model/model.onnx -o demo/dpo.mebp --seq-len 64 --objective dpo

say "before: 30 pairs that are not in training"
prefer

say "train: 150 pairs, four in a step"
mebp train demo/dpo.mebp --objective dpo --data examples/brindle_rock_pairs.jsonl --accumulate 4 --epochs 2 --lr 5e-4 \
  --adapter-out demo/dpo --plot demo/dpo.png --overwrite

say "after: the same 30 pairs"
prefer --adapter demo/dpo
