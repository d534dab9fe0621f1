#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A packaged model learns by a reward alone to answer in one short sentence: no answer is ever shown to it.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

say() { printf '\n== %s\n' "$1"; }
ask() { mebp generate demo/grpo.mebp --chat --prompt "How do you make a kite?" --max-new-tokens 48 "$@"; }

mkdir -p demo
say "export SmolLM2-135M-Instruct to ONNX, and compile it to 4 bits"
mebp export packaged:smollm2 -o demo/model/model.onnx --seq-len 256
mebpc demo/model/model.onnx -o demo/grpo.mebp --seq-len 96 --generate-len 96

say "before: a question that training does not ask"
ask

say "train: eight answers to a question in each step, and the reward for one sentence of ten words"
mebp train demo/grpo.mebp --data examples/open_questions.jsonl --objective grpo \
  --reward examples/rewards.py:one_short_sentence --max-completion 48 --steps 60 --lr 5e-4 \
  --adapter-out demo/grpo --plot demo/reward.png --overwrite

say "after: the same question"
ask --adapter demo/grpo

say "the reward is drawn in demo/reward.png, the PEFT adapter is in demo/grpo"
