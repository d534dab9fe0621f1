# SPDX-License-Identifier: Apache-2.0
"""How long a sequence a plan has room for, by objective: Qwen3-8B's shape, bf16 weights, LoRA r=32, AdamW."""

import bisect
import json
import re
from pathlib import Path

import mebp
from mebp.tools import find_tool, run_tool

ROOM = 80_000_000_000  # bytes, the weights among them
LIMIT, STEP = 262_144, 4096  # tokens: the model's longest, and how finely the others are looked for
WANTED = {"sft": 142_000, "dpo": 128_000, "grpo": 128_000}
STREAMBP = {"sft": 142_400, "dpo": 60_900, "grpo": 16_500}  # as its paper has them, in 80 GB
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 4096,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 12288,
    "vocab_size": 151936,
    "rope_theta": 1e6,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "max_position_embeddings": LIMIT,
    "torch_dtype": "bfloat16",
}


def longest_sequences(folder: Path) -> list[str]:
    """A table, in Markdown. The plans are for 2 threads and spill nothing."""
    exported = folder / "Qwen3-8B" / "onnx" / "model.onnx"
    if not exported.exists():
        config = folder / "Qwen3-8B" / "config"
        config.mkdir(parents=True, exist_ok=True)
        (config / "config.json").write_text(json.dumps(CONFIG))
        mebp.export(config, exported, seq_len=256, shape_only=True)
    budget = ROOM - _plan(exported, "--seq-len", 256)["weights"]
    rows = []
    for objective, wanted in WANTED.items():
        if objective == "grpo":  # whose text is as long as what it trains on
            lengths = range(STEP, LIMIT + 1, STEP)
            fits = bisect.bisect_left(lengths, True, key=lambda tokens: not _grpo_fits(exported, tokens, budget))
            tokens = lengths[fits - 1]
            plan = _grpo(exported, tokens, budget)
        else:
            command = _command(exported, objective) + ["--max-seq-for", f"{budget}B"]
            tokens = int(re.match(r"\d+", run_tool(command))[0])
            plan = _plan(exported, "--seq-len", tokens, "--memory-budget", f"{budget}B", objective=objective)
        rows.append(
            f"| {objective} | {tokens:,} | {plan['peak'] / 1e9:.1f} | {plan['schedule']} | {wanted:,} "
            f"| {STREAMBP[objective]:,} |"
        )
    header = "| objective | longest, tokens | planned beside the weights, GB | schedule | wanted | StreamBP |"
    return [header, "| --- | ---: | ---: | --- | ---: | ---: |", *rows]


def _grpo_fits(exported: Path, tokens: int, budget: int) -> bool:
    try:
        _grpo(exported, tokens, budget)
    except mebp.Error:
        return False
    return True


def _grpo(exported: Path, tokens: int, budget: int) -> dict:
    lengths = "--seq-len", tokens, "--generate-len", tokens
    return _plan(exported, *lengths, "--memory-budget", f"{budget}B", objective="grpo")


def _command(exported: Path, objective: str) -> list[str]:
    options = "--weights bf16 --lora-rank 32 --lora-alpha 64 --spill none --threads 2 --rates none"
    return [find_tool("mebpc"), str(exported), "--plan-only", *options.split(), "--objective", objective]


def _plan(exported: Path, *options: object, objective: str = "sft") -> dict:
    """The printed plan's peak and weights, in bytes, and its schedule. Raises mebp.Error where none fits."""
    printed = run_tool(_command(exported, objective) + list(map(str, options)))
    found = {name: 1e6 * float(re.search(rf"^  {name} +([\d.]+) MB", printed, re.M)[1]) for name in ("peak", "weights")}
    schedule = printed.splitlines()[1].partition(": ")[2]
    return {name: int(size) for name, size in found.items()} | {"schedule": schedule}
