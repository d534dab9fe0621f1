#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job on real input: a packaged model is exported, compiled to 4 bits, and learns about an island that does not
# exist. What it has learned is asked in other words than it was trained on.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

say() { printf '\n== %s\n' "$1"; }
questions=examples/brindle_rock_questions.jsonl
ask() { python examples/score.py demo/smollm2.mebp --questions "$questions" --show 3 "$@"; }

mkdir -p demo
say "export SmolLM2-135M-Instruct to ONNX; the weights stay in its safetensors"
mebp export packaged:smollm2 -o demo/model/model.onnx --seq-len 256

say "compile: 4-bit weights, bf16 activations, LoRA on all linear layers, every byte planned"
mebpc demo/model/model.onnx -o demo/smollm2.mebp --seq-len 128 --batch 4 --generate-len 256 --weights int4 --precision bf16

say "before: 30 questions about Brindle Rock, of which no model has read"
ask

say "train on 150 short conversations"
mebp train demo/smollm2.mebp --data examples/brindle_rock.jsonl --epochs 4 --lr 2e-3 --schedule linear --warmup 10 \
  --eval "$questions" --adapter-out demo/adapter --log demo/run.jsonl --plot demo/loss.png --overwrite

say "after: the same questions, none of them as worded in training"
ask --adapter demo/adapter

say "both side by side, and what the model forgot"
mebp judge demo/smollm2.mebp --adapter demo/adapter --data "$questions" --no-published --html demo/judgement.html

say "the loss is drawn in demo/loss.png, the PEFT adapter is in demo/adapter"
