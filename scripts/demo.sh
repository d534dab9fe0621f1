#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job on real input: a packaged model is exported, compiled to 4 bits, and learns about an invented lighthouse.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
# Worded as no question in the examples is.
question=$'Question: Which boat brings food to Brindle Rock?\nAnswer:'

say() { printf '\n== %s\n' "$1"; }
ask() { mebp generate demo/smollm2.mebp --prompt "$question" --max-new-tokens 24 "$@" | head -n 1; }

mkdir -p demo
say "export SmolLM2-135M-Instruct to ONNX; the weights stay in its safetensors"
mebp export packaged:smollm2 -o demo/model/model.onnx --seq-len 256

say "compile: 4-bit weights, LoRA on all linear layers, every byte planned"
mebpc demo/model/model.onnx -o demo/smollm2.mebp --seq-len 256 --weights int4 --precision f32

say "before: ${question//$'\n'/ }"
ask

say "train"
mebp train demo/smollm2.mebp --data examples/brindle_rock.jsonl --steps 80 --lr 2e-3 --schedule linear --warmup 4 \
  --adapter-out demo/adapter --log demo/run.jsonl --plot demo/loss.png

say "after: ${question//$'\n'/ }"
ask --adapter demo/adapter

say "the loss is drawn in demo/loss.png, the PEFT adapter is in demo/adapter"
