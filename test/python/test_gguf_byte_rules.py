# SPDX-License-Identifier: Apache-2.0
"""Which of llama.cpp's rules a tokenizer.json has: it may say one in several ways, and no other passes for one."""

from unicodedata import normalize

import pytest

from mebp.gguf.byte_rules import BYTES, PRE_TOKENIZERS, names_of, rule_called

LLAMA3 = PRE_TOKENIZERS["llama-bpe"].pre_tokenizer
SPLIT, BARE = LLAMA3["pretokenizers"]


def cut(*steps: dict) -> dict:
    return {"type": "Sequence", "pretokenizers": list(steps)}


def with_pattern(pattern: str) -> dict:
    return {**SPLIT, "pattern": {"Regex": pattern}}


def test_each_rule_has_its_name():
    for name, rule in PRE_TOKENIZERS.items():
        assert name in names_of(rule.pre_tokenizer)
        assert all(rule_called(each) is rule for each in (name, *rule.others))
    assert rule_called("chameleon") is None and rule_called("") is None


def test_other_ways_to_say_a_rule():
    names = ["llama-bpe", "dbrx"]
    pattern = SPLIT["pattern"]["Regex"]
    assert names_of(cut({**SPLIT, "behavior": "Removed", "invert": True}, BARE)) == names
    assert names_of(cut(with_pattern(pattern.replace(r"\r", "\r").replace(r"\n", "\n")), BARE)) == names
    assert names_of(cut(cut(SPLIT), {**BARE, "trim_offsets": False})) == names
    assert names_of({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}) == ["gpt-2"]
    rule = PRE_TOKENIZERS["deepseek-llm"].pre_tokenizer
    steps = [{**step, "pattern": {"Regex": normalize("NFC", step["pattern"]["Regex"])}} if "pattern" in step else step
             for step in rule["pretokenizers"]]  # fmt: skip
    assert steps != rule["pretokenizers"] and names_of(cut(*steps)) == ["deepseek-llm"]


CODER = PRE_TOKENIZERS["deepseek-coder"].pre_tokenizer["pretokenizers"]


@pytest.mark.parametrize(
    "found",
    [
        None,
        {"type": "Whitespace"},
        {**BYTES, "add_prefix_space": True},
        {**BYTES, "use_regex": False},
        cut(),
        cut(SPLIT),
        cut(BARE, SPLIT),
        cut(SPLIT, BYTES),
        cut({**SPLIT, "behavior": "Removed"}, BARE),
        cut({**SPLIT, "behavior": "MergedWithNext"}, BARE),
        cut({**SPLIT, "pattern": {"String": SPLIT["pattern"]["Regex"]}}, BARE),
        cut(with_pattern(SPLIT["pattern"]["Regex"] + "|x"), BARE),
        cut(SPLIT, SPLIT, BARE),
        # What its first pattern does not find is not for the next then.
        cut({**CODER[0], "behavior": "Removed", "invert": True}, *CODER[1:]),
    ],
)
def test_rules_that_llama_cpp_has_not(found):
    assert names_of(found) == []
