# SPDX-License-Identifier: Apache-2.0
"""What may be wrong in an adapter's folder: in its settings, and in its file of safetensors."""

import copy
import json
import random
import struct

DEEP = "DEEP"  # stands for a value that Python's own writer could not write
PIECES = {
    DEEP: "[" * 3000 + "]" * 3000,
    "HUGE": "1" + "0" * 400,
    "DIGITS": "1" * 5000,
    "FAR": "1e400",
    "NAN": "NaN",
    "SURROGATE": '"\\ud800"',
    "OBJECT": '{"a":' * 3000 + "1" + "}" * 3000,
}
ODD = [
    *PIECES, None, True, False, 0, 1, -1, 2, 1.5, -0.0, 1e-320, 1e-40, 1e30, 1e300, 1 << 31, 1 << 63, 1 << 64, "",
    "LORA", "lora", "a\nb", "\x1b[2J", "\0", "\u202e", "a" * 5000, "../../etc", "/", "llama", "gpt2", "gemma3_text",
    "deepseek_v3", "mamba", [], [1], ["q_proj"], [None], {}, {"a": 1}, {"": {}}, {"(a+)+$": 1}, {"(": 1},
    {".*.*.*.*.*.*.*.*": 2}, {"a" * 501: 1}, {str(number): 1 for number in range(300)}, {"q_proj": "HUGE"},
    {"q_proj": None}, {"q_proj": 1e300}, {"q_proj": 1e-300}, {"up_proj": 0}, {"[": 1}, {"up_proj": [1]},
    {"scale": "HUGE"}, {"scale": 0}, {"scale": 1e300}, {"scale": "2"}, {"scale": True}, {"scale": "NAN"},
]  # fmt: skip
SHAPES = [[], [0], [2], [0, 32], [2, 0], [1, 32], [2, 32], [32, 2], [64, 2], [1, 2, 32], [1] * 9, [1] * 70,
          [1 << 31, 1], [1 << 62, 0], [1 << 63, 2], [0, 1 << 64], [-1, 2], ["2", 32], [None], [2.0, 32.0], [1000, 1],
          "2", None, {"a": 1}]  # fmt: skip
NAMES = ["", "a", "__metadata__", "lora_a", ".lora_a", "base_model.model..lora_A.weight", "a\nb", "\x1b[2J", "a" * 5000,
         "base_model.model.model.layers.0.mlp.up_proj.lora_A.bias", "base_model.model.lm_head.lora_A.weight",
         "base_model.model.model.embed_tokens.lora_A.weight", "SURROGATE",
         f"base_model.model.model.layers.{'9' * 900}.mlp.up_proj.lora_A.weight",
         "base_model.model.model.layers.\u0663.mlp.up_proj.lora_A.weight", "model.embed_tokens.lora_a",
         "model.layers.0.mlp.up_proj.lora_c", "base_model.model.model.layers.0.self_attn.kv_b_proj.lora_A.weight",
         "base_model.model.transformer.h.0.attn.c_attn.lora_A.weight", "lm_head.lora_a"]  # fmt: skip


def text_of(value: object) -> str:
    text = json.dumps(value)
    for name, piece in PIECES.items():
        text = text.replace(f'"{name}"', piece)
    return text


def mutate_object(content: dict, choose: random.Random) -> tuple[str, str]:
    content, said = json.loads(json.dumps(content)), []
    for _ in range(choose.choice([1, 1, 1, 2, 3])):
        name = choose.choice([*content, "new_field", "arrow_config", "layer_replication"])
        how = choose.random()
        if how < 0.15:
            content.pop(name, None)
            said.append(f"no {name}")
        elif how < 0.3 and isinstance(content.get(name), dict):
            inner = choose.choice([*content[name], "new"])
            content[name][inner] = copy.deepcopy(choose.choice(ODD))
            said.append(f"{name}.{inner} is {str(content[name][inner])[:60]}")
        else:
            content[name] = copy.deepcopy(choose.choice(ODD))
            said.append(f"{name} is {str(content[name])[:60]}")
    text = text_of(content)
    if choose.random() < 0.05:
        at = choose.randrange(len(text))
        text = choose.choice([text[:at], text[:at] + "\\" + text[at:], f"[{text}]", "", text * 2, "\ufeff" + text])
        said.append(f"cut or changed at {at}")
    return text, ", ".join(said)


def mutate_tensors(header: dict[str, dict], data: bytes, choose: random.Random) -> tuple[bytes, str]:
    """A file of safetensors, and what is odd in it."""
    header, said = dict(header), []
    for _ in range(choose.choice([0, 0, 1, 1, 2])):
        name = choose.choice(list(header))
        entry = header.get(name, {})
        change = choose.randrange(7)
        if change == 0:
            header.pop(name, None)
        elif change == 1:
            header[choose.choice(NAMES)] = header.pop(name, None)
        elif change == 2:
            header[name] = copy.deepcopy(choose.choice(ODD))
        elif change == 3 and isinstance(entry, dict):
            header[name] = {**entry, "shape": choose.choice(SHAPES)}
        elif change == 4 and isinstance(entry, dict):
            ends = choose.choice(
                [[0, 256], [-256, 0], [0, 1 << 63], [256, 0], [0], "01", [1e400, 0], [0.0, 256.0], None]
            )
            header[name] = {**entry, "data_offsets": ends}
        elif change == 5 and isinstance(entry, dict):
            header[name] = {
                **entry,
                "dtype": choose.choice(["F16", "BF16", "I8", "F64", "", "a\nb", "x" * 5000, 1, None]),
            }
        else:
            odd = struct.pack("<f", choose.choice([float("inf"), float("nan"), 3e38, 1e-45]))
            data = odd + data[4:] if choose.random() < 0.5 else odd * (len(data) // 4)
        said.append(f"change {change} of {name[:60]!r}")
    text = text_of(header).encode()
    length = choose.choice([len(text)] * 20 + [0, 1 << 20, 1 << 63, len(text) - 1, len(text) + 1])
    if choose.random() < 0.03:
        data = data[: choose.randrange(len(data))]
        said.append("cut off")
    return struct.pack("<Q", length) + text + data, ", ".join(said)
