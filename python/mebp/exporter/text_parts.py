# SPDX-License-Identifier: Apache-2.0
"""Models that take more than text, of which the text is trained. A tensor of it has three names:

whole   in the class that takes everything, which config.json names: in a bundle, in an export and in adapters
text    in the class that takes text alone, which has the same numbers: in what transformers traces and verifies
stored  in files of weights, where some versions of transformers had others
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mebp.tensor_names import PEFT_PREFIX


@dataclass(frozen=True)
class TextPart:
    """Where the whole class has its text.

    module: what names of the text begin with in the whole class, before a dot.
    text: what they begin with in the text's; empty: with nothing.
    plain: the model type whose class has the same numbers, where the text has no causal class of its own.
    rules: fields of that one's configuration which say what the whole class does always.
    """

    module: str
    text: str = "model"
    plain: str | None = None
    rules: Mapping[str, object] = field(default_factory=dict)

    def text_name(self, name: str) -> str:
        """Of a whole name, of a tensor or in an adapter. A head that stands outside has one name."""
        return _moved(name, f"{self.module}.", f"{self.text}." if self.text else "")

    def whole_name(self, name: str) -> str:
        """The other way."""
        return _moved(name, f"{self.text}." if self.text else "", f"{self.module}.")


_INSIDE = TextPart("model.language_model")
# By the model type that config.json begins with.
TEXT_PARTS: Mapping[str, TextPart] = {
    "gemma3": _INSIDE,
    "gemma4": _INSIDE,
    "llama4": TextPart("language_model", ""),
    "mistral3": _INSIDE,
    "qwen3_5": _INSIDE,
    "qwen3_5_moe": _INSIDE,
    "qwen3_vl": TextPart("model.language_model", plain="qwen3"),
    "qwen3_vl_moe": TextPart("model.language_model", plain="qwen3_moe", rules={"norm_topk_prob": True}),
}

_DISTINCT = (_INSIDE, TEXT_PARTS["llama4"])
_STORED = {"model.language_model.": "model.", "language_model.model.": "model.", "language_model.lm_head.": "lm_head."}
# What lies beside the text: towers, what joins them to it, and layers that predict tokens further ahead.
_CARRIED = re.compile(
    r"(model\.)?(vision_tower|vision_model|visual|audio_tower|multi_modal_projector|embed_vision|embed_audio|mtp)\."
)


def text_part_of(config: Mapping) -> TextPart | None:
    """Of a model with this config.json; None where it takes text alone."""
    return TEXT_PARTS.get(str(config.get("model_type")))


def is_of_text(config: Mapping) -> bool:
    """Whether a config.json with a text part names the class that takes text alone, by which its weights are stored."""
    named = config.get("architectures")
    return isinstance(named, list) and any(str(name).endswith("ForCausalLM") for name in named)


def text_part_of_names(names: Iterable[str]) -> TextPart | None:
    """By what modules or tensors of the whole class are called; None where these are the text's names."""
    return next((part for name in names for part in _DISTINCT if part.text_name(name) != name), None)


def text_part_named(module: str | None) -> TextPart | None:
    """By what a bundle says."""
    return next((part for part in _DISTINCT if part.module == module), None)


def text_config(config: Mapping) -> Mapping:
    """A config.json's fields of the text alone; itself where there are no others."""
    inner = config.get("text_config")
    if not isinstance(inner, Mapping):
        return config
    outer = {name: config[name] for name in _OUTER if name in config and config[name] is not None}
    return {**inner, **outer}


def config_alone(config: Mapping) -> dict[str, object]:
    """The config.json of a model that is no more than the text of one with a text part."""
    part, text = TEXT_PARTS[config["model_type"]], dict(text_config(config))
    text.pop("architectures", None)  # those of the whole
    if part.plain is not None:
        text |= {**part.rules, "model_type": part.plain}
    return {**text, "dtype": config["dtype"]} if "dtype" in config else text


# Fields of the whole that are about its text.
_OUTER = ("tie_word_embeddings", "bos_token_id", "eos_token_id", "pad_token_id")


def text_name_of_stored(name: str) -> str | None:
    """The text's name of a tensor in a file of a whole model; None where it is not of the text."""
    if is_carried(name):
        return None
    for begin, ours in _STORED.items():
        if name.startswith(begin):
            return ours + name.removeprefix(begin)
    return name


def is_carried(name: str) -> bool:
    """Whether a tensor in a file lies beside the text: merging copies it."""
    return _CARRIED.match(name) is not None


def _moved(name: str, begin: str, other: str) -> str:
    prefix = PEFT_PREFIX if name.startswith(PEFT_PREFIX) else ""
    own = name.removeprefix(prefix)
    return prefix + other + own.removeprefix(begin) if own.startswith(begin) else name
