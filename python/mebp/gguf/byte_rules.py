# SPDX-License-Identifier: Apache-2.0
"""How text is cut before byte-level BPE: the rules of tokenizer.json that llama.cpp has, which it calls by names."""

from collections.abc import Mapping
from dataclasses import dataclass
from unicodedata import normalize

BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_DIGITS = {"type": "Digits", "individual_digits": True}
_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_WORDS = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}DIGITS|{_SIGNS}|{_REST}"
# A word ends where capital letters follow others.
_CAPITALS, _OTHERS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASES = (rf"[^\r\n\p{{L}}\p{{N}}]?{_CAPITALS}*{_OTHERS}+END|[^\r\n\p{{L}}\p{{N}}]?{_CAPITALS}+{_OTHERS}*END|"
          rf"\p{{N}}DIGITS| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_REST}")  # fmt: skip
_CODE_SIGN = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""

_DEEPSEEK_HAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
# Of DeepSeek LLM: letters that are capital or small, of some scripts.
_DEEPSEEK_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376"
    "\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-"
    "\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a"
    "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc"
    "\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f"
    "\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b"
    "\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
    "\U000118a0-\U000118df\U0001e900-\U0001e943"
)


def _cut(*steps: str | dict) -> dict:
    """One after the other; a text is a pattern."""
    splits = [step if isinstance(step, dict) else
              {"type": "Split", "pattern": {"Regex": step}, "behavior": "Isolated", "invert": False}
              for step in steps]  # fmt: skip
    return {"type": "Sequence", "pretokenizers": [*splits, {**BYTES, "use_regex": False}]}


@dataclass(frozen=True)
class Rule:
    """pre_tokenizer: as tokenizer.json has it.

    ignores_merges: a piece that is a token is one, whatever the merges make of it. others: names of the same rule in
    files. composed: published tokenizers join a letter and its accent before. differs: llama.cpp cuts some words
    otherwise than transformers.
    """

    pre_tokenizer: dict
    ignores_merges: bool = False
    others: tuple[str, ...] = ()
    composed: bool = False
    differs: bool = False


# By the names that are written (src/llama-vocab.cpp).
PRE_TOKENIZERS = {
    "gpt-2": Rule(
        BYTES,
        others=("phi-2", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "gigachat", "a.x-4.0", "mellum", "mpt",
                "olmo", "jais", "trillion", "granite-docling", "exaone4"),
    ),
    "smollm": Rule(
        {"type": "Sequence", "pretokenizers": [_DIGITS, BYTES]},
        others=("starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"),
    ),
    "qwen2": Rule(
        _cut(_WORDS.replace("DIGITS", "")),
        others=("stablelm2", "deepseek-r1-qwen", "kormo", "megrez", "hunyuan", "solar-open", "grok-2", "f2llmv2"),
        composed=True,
    ),
    "llama-bpe": Rule(
        _cut(_WORDS.replace("DIGITS", "{1,3}")),
        ignores_merges=True,
        others=("llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"),
    ),
    "dbrx": Rule(_cut(_WORDS.replace("DIGITS", "{1,3}")), others=("smaug-bpe",)),
    "qwen35": Rule(
        _cut(rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|"
             rf"{_REST}"),
        composed=True,
    ),
    "tekken": Rule(_cut(_CASES.replace("END", "").replace("DIGITS", "")), ignores_merges=True, differs=True),
    "gpt-4o": Rule(
        _cut(_CASES.replace("END", f"{_CONTRACTIONS}?").replace("DIGITS", "{1,3}")),
        others=("llama4", "kanana2", "minimax-m2", "talkie"),
        differs=True,
    ),
    "deepseek-llm": Rule(
        _cut(r"[\r\n]", rf"\s?[{_DEEPSEEK_LETTERS}]+",
             "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$", _DEEPSEEK_HAN, _DIGITS)
    ),
    "deepseek-coder": Rule(_cut(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _DEEPSEEK_HAN, _DIGITS)),
    "deepseek-v3": Rule(
        _cut(r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
             rf"{_CODE_SIGN}|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_REST}"),
        others=("hunyuan-dense", "joyai-llm"),
    ),
    "seed-coder": Rule(_cut(rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|"
                            rf"{_REST}")),
}  # fmt: skip
_NAMES = {other: name for name, rule in PRE_TOKENIZERS.items() for other in (name, *rule.others)}


def rule_called(name: str) -> Rule | None:
    """By what a file calls it; None for a name that is not known here."""
    return PRE_TOKENIZERS.get(_NAMES.get(name, ""))


def names_of(pre_tokenizer: object) -> list[str]:
    """llama.cpp's names of a tokenizer.json's rule; several, where they differ in what they do with merges."""
    steps = _steps(pre_tokenizer)
    return [name for name, rule in PRE_TOKENIZERS.items() if _steps(rule.pre_tokenizer) == steps]


def _steps(found: object) -> list:
    """Without what changes no token."""
    steps = _flat(found)
    is_one = [isinstance(step, Mapping) and step.get("type") == "Split" for step in steps].count(True) == 1
    return [_plain(step, is_one) if isinstance(step, Mapping) else step for step in steps]


def _flat(found: object) -> list:
    if not isinstance(found, Mapping) or found.get("type") != "Sequence":
        return [found]
    return [step for each in found.get("pretokenizers", []) for step in _flat(each)]


def _plain(step: Mapping, is_one: bool) -> dict:
    """is_one: it is the only Split. The patterns above that are alone find a text as a whole, so that nothing is
    between what they find."""
    if step.get("type") == "ByteLevel":
        return {"use_regex": True, **{key: value for key, value in step.items() if key != "trim_offsets"}}
    if step.get("type") != "Split":
        return dict(step)
    pattern, behavior, invert = (step.get(key) for key in ("pattern", "behavior", "invert"))
    if isinstance(pattern, Mapping) and isinstance(pattern.get("Regex"), str):
        composed = normalize("NFC", pattern["Regex"])  # as some copies of DeepSeek's have it
        pattern = {"Regex": composed.replace("\r", r"\r").replace("\n", r"\n")}
    if is_one and (behavior, invert) == ("Removed", True):
        behavior = "Isolated"
    return {**step, "pattern": pattern, "behavior": behavior, "invert": invert and behavior != "Isolated"}
