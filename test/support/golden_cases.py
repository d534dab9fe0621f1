# SPDX-License-Identifier: Apache-2.0
"""Which golden folders there are, and how they are written by this build: into test/golden/VERSION, of the format.

    PYTHONPATH=test .venv/bin/python -m support.golden_cases [NAME...]

What lies there stays as it is: an archive that exists is left alone, so that every later build meets what an earlier
one wrote. A new kind of bundle, state or step gets a case here; a new minor version of the format gets a folder of its
own, with cases of what it added. test/e2e/test_golden.py runs all of them.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

import mebp
from mebp.compile_options import as_arguments
from mebp.compiler import remote_options
from mebp.tasks import CAUSAL
from mebp.tools import find_tool
from support import encoders, golden, models
from support.golden import FORMAT, ROOT, STEPS, Run
from support.textmodel import make_tokenizer

SIZES = {"hidden_size": 36, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 18,
         "intermediate_size": 40, "vocab_size": 61}  # fmt: skip
SMALL = {**SIZES, "hidden_size": 20, "head_dim": 10, "intermediate_size": 24}  # of whom all weights are trained
DEEP = {**SMALL, "hidden_size": 8, "head_dim": 4, "intermediate_size": 8, "num_hidden_layers": 7, "vocab_size": 20}
TEXT = {**SMALL, "vocab_size": 264, "tie_word_embeddings": True}
ENCODER = {name: value for name, value in SIZES.items() if name not in ("head_dim", "num_key_value_heads")}
EXPERTS = {**SMALL, "moe_intermediate_size": 16, "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2}
LAYERS = ["sliding_attention", "full_attention"]
LENGTH, BATCH = 24, 2
LORA = mebp.LoRA(rank=2, alpha=6)
PRIVATE = mebp.PrivateLoRA(rank_down=3, rank_up=5)
PAIRS = [{"prompt": f"{word}?", "chosen": " Yes.", "rejected": " No, or so."} for word in ("Lamp", "Wick", "Oil")]
PROMPTS = [{"prompt": word} for word in ("The lamp", "A wick", "Oil")]
REWARD = "def reward(completion_ids, **columns):\n    return [sum(ids) / (300 * len(ids)) for ids in completion_ids]\n"


@dataclass(frozen=True)
class Case:
    """A model by its family, how it is compiled, and the run over it."""

    run: Run
    family: str = "llama"
    model: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)  # mebp.compile's
    task: str = CAUSAL
    data: list[dict] = field(default_factory=list)  # data.jsonl, of a model that reads text
    is_split: bool = False


def batch(seed: int, vocabulary: int = SIZES["vocab_size"], length: int = LENGTH, rows: int = BATCH) -> dict:
    generator = np.random.default_rng(seed)
    ids = generator.integers(3, vocabulary, (rows, length))
    labels = ids.copy()
    labels[:, :4] = -100
    return {"input_ids": ids.tolist(), "labels": labels.tolist()}


def packed(seed: int) -> dict:
    """Two samples a row."""
    found = batch(seed)
    starts = [[0] * 10 + [10] * (LENGTH - 10), [0] * 15 + [15] * (LENGTH - 15)]
    return {**found, "starts": starts}


def encoded(task: str) -> Callable[[int], dict]:
    def make(seed: int) -> dict:
        generator = np.random.default_rng(seed)
        ids = generator.integers(4, ENCODER["vocab_size"], (BATCH, LENGTH))
        labels = np.full_like(ids, -100)
        if task == "classify":
            labels[:, 0] = generator.integers(0, 3, BATCH)
        else:
            labels[:, ::3] = generator.integers(0, 3 if task == "token-classify" else ENCODER["vocab_size"], (BATCH, 8))
        starts = [[0] * LENGTH, [0] * 15 + [15] * (LENGTH - 15)]  # the second row is padded
        return {"input_ids": ids.tolist(), "labels": labels.tolist(), "starts": starts}

    return make


def steps(make: Callable[[int], dict | list] = batch, prompt: bool = False, **session: object) -> Run:
    """Of one batch each."""
    prompts = [batch(9)["input_ids"][0][:7]] if prompt else []
    return Run(session={"lr": 0.01, **session}, batches=[make(seed) for seed in range(2 * STEPS)], prompt=prompts)


def micro_batches(seed: int) -> list[dict]:
    """Of two lengths."""
    return [batch(2 * seed), batch(2 * seed + 1, length=11, rows=1)]


def sequences(**session: object) -> Run:
    session = {"lr": 0.01, "accumulate": True, "pending_gradients": True, **session}
    made = [[batch(2 * seed, rows=1), batch(2 * seed + 1, length=13, rows=1)] for seed in range(2 * STEPS)]
    return Run("sequences", session, made)


def objective(name: str, **options: object) -> Run:
    asked = {"data": "data.jsonl", "length": LENGTH, "objective": name, "accumulate": 2, **options}
    return Run("objective", {"lr": 0.01, "optimizer": "adamw"}, objective=asked)


def writes(name: str, **options: object) -> Run:
    """An objective of rewards."""
    return objective(name, reward=["rewards.py:reward"],
                     objective_options={"temperature": 0.8, "max_completion": 8, **options})  # fmt: skip


FULL = {"train": "full", "weights": "f32", "train_targets": "*"}
GENERATES = {"generate_len": 40}
CASES: dict[str, Case] = {
    # How weights and activations are stored.
    "int4": Case(steps(prompt=True), options=GENERATES),
    "int4-f32": Case(steps(), options={"precision": "f32"}),
    "int4-sym": Case(steps(), "qwen2", options={"weights": "int4-sym"}),
    "int8": Case(steps(), "gemma3_text", {**SIZES, "layer_types": LAYERS, "sliding_window": 9}, {"weights": "int8"}),
    "bf16": Case(steps(), "phi3", options={"weights": "bf16"}),
    "f32": Case(steps(), "gpt2", {"n_embd": 20, "n_head": 2, "n_inner": 24, "n_positions": 32, "vocab_size": 61},
                {"weights": "f32", "precision": "f32"}),
    "some-otherwise": Case(steps(), options={"weights_for": {"*.layers.0.*": "bf16", "lm_head": "int8"}}),
    # What a plan chooses.
    "chunks": Case(steps(), options={"chunk_size": 7, "checkpoint_spacing": 2}),
    "spaced": Case(steps(lambda seed: batch(seed, vocabulary=20)), model=DEEP,
                   options={"checkpoint_spacing": 3, "lora": mebp.LoRA(rank=1, targets=["o_proj"])}),
    "kept": Case(steps(), options={"memory_budget": "16MB", "spill": "none"}),
    "spilled": Case(steps(spills=True), options={"spill": "checkpoints"}),
    "all-spilled": Case(steps(spills=True), options={"spill": "all"}),
    "resident": Case(steps(), options={"resident_limit": "384KiB"}),
    "packing": Case(steps(packed), options={"packing": True}),
    # Optimizers, and what a step does with its gradients.
    "sgd": Case(steps(optimizer="sgd", momentum=0.9), options={"optimizer": "sgd", "momentum": 0.9}),
    "lion": Case(steps(optimizer="lion"), options={"optimizer": "lion"}),
    "mezo": Case(steps(optimizer="mezo"), options={"optimizer": "mezo"}),
    "micro-batches": Case(steps(micro_batches, accumulate=True, clip=0.5), options={"accumulate": True, "clip": True}),
    "clip-recompute": Case(steps(clip=0.5, clip_recompute=True)),
    # What is trained.
    "full": Case(steps(), "qwen3", options=FULL),
    "full-bf16": Case(steps(), options={**FULL, "weights": "bf16"}),
    # The embedding alone has so many numbers that its moments are kept in 8 bits.
    "full-adamw8bit": Case(steps(), "llama", TEXT, {**FULL, "weights": "bf16", "optimizer": "adamw8bit"}),
    "galore": Case(steps(optimizer="galore"), options={**FULL, "optimizer": "galore", "galore_rank": 8}),
    "galore-svd": Case(steps(optimizer="galore", galore_refresh="svd"),
                       options={**FULL, "optimizer": "galore", "galore_rank": 8}),
    "qgalore": Case(steps(optimizer="qgalore"),
                    options={"train": "full", "weights": "int8", "optimizer": "qgalore", "galore_rank": 8}),
    "head": Case(steps(), options={"lora": mebp.LoRA(rank=2, targets=["q_proj", "lm_head"])}),
    "experts": Case(steps(), "qwen3_moe", EXPERTS,
                    {"lora": mebp.LoRA(rank=2, targets=["experts.gate_up_proj", "experts.down_proj", "q_proj"]),
                     "router_aux_loss_coef": 0.01}),
    "latent": Case(steps(prompt=True), "deepseek_v2", {
        "hidden_size": 20, "num_hidden_layers": 2, "vocab_size": 61, "intermediate_size": 24, "q_lora_rank": 12,
        "kv_lora_rank": 7, "qk_nope_head_dim": 6, "v_head_dim": 10, "moe_intermediate_size": 8}, GENERATES),
    "private-lora": Case(steps(prompt=True), options={"adapter": PRIVATE, **GENERATES}),
    "split": Case(steps(split=True), options={"adapter": PRIVATE, **GENERATES}, is_split=True),
    # Sequences, objectives and tasks.
    "sequences": Case(sequences()),
    "value-head": Case(sequences(value_adapter=True), options={"value_head": True, "entropy_bonus": True}),
    "sft": Case(objective("sft"), data=[{"prompt": each["prompt"], "completion": each["chosen"]} for each in PAIRS]),
    "dpo": Case(objective("dpo", objective_options={"beta": 0.5}), options={"objective": "dpo"}, data=PAIRS),
    "orpo": Case(objective("orpo"), options={"objective": "orpo"}, data=PAIRS),
    "grpo": Case(writes("grpo", group=2), options={"objective": "grpo", **GENERATES}, data=PROMPTS),
    "ppo": Case(writes("ppo"), options={"objective": "ppo", "value_head": True, **GENERATES}, data=PROMPTS),
    "classify": Case(steps(encoded("classify")), "bert", task="classify"),
    "token-classify": Case(steps(encoded("token-classify")), "modernbert", task="token-classify"),
    "fill-mask": Case(steps(encoded("fill-mask")), "roberta", task="fill-mask"),
}  # fmt: skip


def compile_case(case: Case, folder: Path) -> None:
    """model.mebp, and both halves of a split model."""
    source = folder / "source"
    if case.task != CAUSAL:
        sizes = {**ENCODER, **case.model, **({"local_attention": 8} if case.family == "modernbert" else {})}
        encoders.build(case.family, task=case.task, **sizes).save_pretrained(source)
    else:
        sizes = TEXT if case.data else SMALL if "train" in case.options else SIZES
        models.save(models.build(case.family, **(case.model or sizes)), source)
    if case.data:
        make_tokenizer(source)
    exported = folder / "exported" / "model.onnx"
    mebp.export(source, exported, seq_len=LENGTH, batch=BATCH, task=case.task)
    options = {"seed": 3, "rates": "none", **case.options}
    if "adapter" not in options and options.get("train") != "full":
        options.setdefault("lora", LORA)
    mebp.compile(exported, folder / "model.mebp", **options)
    if case.is_split:
        adapter = options.pop("adapter")
        given = {**options, **remote_options(adapter), "threads": 1}
        halves = [f"--split={adapter.kind}", "--device-first=1"]
        command = [find_tool("mebpc"), exported, "-o", folder / "model.mebp", *as_arguments(given), *halves]
        subprocess.run(command, check=True)


def write(name: str, target: Path) -> None:
    case = CASES[name]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "made"
        folder.mkdir()
        compile_case(case, folder)
        if case.data:
            (folder / "data.jsonl").write_text("".join(json.dumps(each) + "\n" for each in case.data))
            (folder / "rewards.py").write_text(REWARD)
        outcome = golden.run(folder, case.run, Path(scratch), saves=True)
        (folder / "golden.json").write_text(json.dumps({"run": asdict(case.run), "outcome": asdict(outcome)}))
        pack(folder, target)
    print(f"{name}: {target.stat().st_size} bytes, losses {[round(float.fromhex(loss), 4) for loss in outcome.losses]}")


def pack(folder: Path, target: Path) -> None:
    """What the model was made of stays out."""
    with tarfile.open(target, "w:xz", preset=9) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.relative_to(folder).parts[0] not in ("source", "exported"):
                archive.add(path, path.relative_to(folder), filter=without_owner)


def without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o644
    return entry


if __name__ == "__main__":
    os.environ["MEBP_KERNELS"] = "reference"  # before the first session, which reads it
    folder = ROOT / FORMAT
    folder.mkdir(exist_ok=True)
    for name in sys.argv[1:] or CASES:
        archive = folder / f"{name}.tar.xz"
        if not archive.exists():
            write(name, archive)
