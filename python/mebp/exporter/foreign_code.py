# SPDX-License-Identifier: Apache-2.0
"""What a config.json says beside the model's shape: which code computes it, and what is fetched for it. Whoever wrote
the file has no say in that here."""

from pathlib import Path

from mebp.words import say

_KEYS = frozenset((
    # Attention and experts, where org/repo is a kernel of the hub. Each key, and the field that it ends in.
    "attn_implementation", "_attn_implementation", "_attn_implementation_internal",
    "experts_implementation", "_experts_implementation", "_experts_implementation_internal",
    "use_kernels", "kernel_config",
    # Modules of the model's repository, or of another.
    "auto_map", "custom_pipelines", "custom_generate", "_auto_class",
    # Packages that read weights. The settings of the whole model are looked at before.
    "quantization_config", "compression_config",
    # Part of a vision model, whose config.json is fetched.
    "backbone", "backbone_kwargs", "use_timm_backbone", "use_pretrained_backbone",
    # Other files of the folder.
    "configuration_files", "transformers_weights",
    # Of transformers' classes: other names for keys, and which parts have settings of their own.
    "attribute_map", "sub_configs",
))  # fmt: skip
_NAMED = ("label2id",)  # whose keys are anybody's words
_SHOWN, _LONGEST = 8, 80


def without_code(fields: dict) -> tuple[dict, list[str]]:
    """A copy of a config.json that chooses no code and fetches nothing, and what was left out, as text_config.KEY."""
    left_out: list[str] = []

    def copy(value: object, path: str) -> object:
        if isinstance(value, list):
            return [copy(each, path) for each in value]
        if not isinstance(value, dict):
            return value
        kept = {}
        for key, each in value.items():
            if _chooses(key):
                left_out.append(f"{path}{key}")
            else:
                kept[key] = each if key in _NAMED else copy(each, f"{path}{key}.")
        return kept

    return copy(fields, ""), left_out


def _chooses(key: str) -> bool:
    # What Python's objects are made of; __float__ is how transformers writes infinity.
    return key in _KEYS or (key.startswith("__") and key != "__float__")


def name_left_out(file: Path, left_out: list[str]) -> None:
    """One line on standard error; none where nothing was."""
    if not left_out:
        return
    names = [name.encode("unicode_escape").decode()[:_LONGEST] for name in left_out[:_SHOWN]]
    more = [f"{len(left_out) - _SHOWN} more"] if len(left_out) > _SHOWN else []
    listed = ", ".join(names + more)
    verb = "is ignored, for it chooses" if len(left_out) == 1 else "are ignored, for they choose"
    say(f"note: {file}: {listed} {verb} code or what is fetched, and not the model's shape", error=True)
