# SPDX-License-Identifier: Apache-2.0
"""Where an answer ends, for all that asks: training, chat, rollouts and rewards."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mebp.chat import Chat
from mebp.data import load_dataset
from mebp.data.preferences import load_preferences
from mebp.data.prompts import Prompt
from mebp.data.rollouts import load_rollouts
from mebp.data.turn_ends import PromptEnds
from mebp.objectives.groups import GRPO, GRPOOptions
from mebp.rollouts import RolloutOptions, Writer
from mebp.tokenizer import Tokenizer
from mebp.training.objectives.episodes import Episodes
from mebp.training.objectives.groups import Groups
from support.turns import ANSWERED, ASKED, CALLS, SPECIAL, TWICE, learned, make, names

# As GLM 4: nothing of its own ends an answer.
GLM = (
    "{% for m in messages %}{{ '<|observation|>' if m.role == 'tool' else '<|' + m.role + '|>' }}"
    "{{ '\n' + m.content }}{% if m.tool_calls %}{{ '\ncalls' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
OWN = GLM.replace("{% endfor %}", "{{ '<|end|>\n' }}{% endfor %}")
SEVERAL = GLM.replace("{% endfor %}", "{% if m.role == 'assistant' %}{{ '<|end|><|stop|>' }}{% endif %}{% endfor %}")
SPACED = GLM.replace("{% for m in messages %}", "{% for m in messages %}{{ '' if loop.first else '\n\n' }}")
SPACED = SPACED.replace("{{ '<|assistant|>' }}", "{{ '\n\n<|assistant|>' }}")
LOSING = "{{ '<|user|>' }}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"  # as for images alone


def test_the_next_turn_s_mark_ends_an_answer(tmp_path):
    tokenizer = make(tmp_path, GLM)
    calling = [{**ANSWERED[1], "tool_calls": CALLS}]
    result = [{"role": "tool", "content": "4"}]
    masked = [*TWICE[:3], {**TWICE[3], "weight": 0}]
    found = learned(tmp_path, tokenizer, ANSWERED, TWICE, ASKED + calling, ASKED + calling + result + TWICE[3:], masked)
    assert found == [
        "\nMe.<|user|>",
        "\nMe.<|user|>\nSo.<|user|>",
        "\nMe.\ncalls<|observation|>",
        "\nMe.\ncalls<|observation|>\nSo.<|user|>",
        "\nMe.<|user|>",
    ]
    assert names(tokenizer, Chat(tokenizer).stop_tokens()) == {"<|endoftext|>", "<|user|>", "<|observation|>"}
    ended = [*ASKED, {"role": "assistant", "content": "Me.<|user|>"}]
    assert learned(tmp_path, tokenizer, ended) == ["\nMe.<|user|>"]


def test_space_before_the_next_turn_s_mark_belongs_to_the_end(tmp_path):
    tokenizer = make(tmp_path, SPACED)
    assert learned(tmp_path, tokenizer, TWICE) == ["\nMe.\n\n<|user|>\nSo.\n\n<|user|>"]
    assert names(tokenizer, Chat(tokenizer).stop_tokens()) == {"<|endoftext|>", "<|user|>", "<|observation|>"}


@pytest.mark.parametrize(
    ("template", "settings", "ends", "answer"),
    [
        (OWN, {}, {"<|end|>"}, "\nMe.<|end|>"),
        (OWN, {"eos_token_id": [261]}, {"<|end|>", "<|stop|>"}, "\nMe.<|end|>"),
        (SEVERAL, {}, {"<|end|>"}, "\nMe.<|end|><|stop|>"),
        (SEVERAL, {"eos_token_id": [256, 261]}, {"<|stop|>"}, "\nMe.<|end|><|stop|>"),
        (LOSING, {}, set(), None),
    ],
    ids=["the template's", "the configuration's, too", "two side by side", "the second is the model's", "none"],
)
def test_what_the_template_and_the_configuration_name(tmp_path, template, settings, ends, answer):
    tokenizer = make(tmp_path, template, **settings)
    assert names(tokenizer, Chat(tokenizer).stop_tokens()) == {"<|endoftext|>", *ends}
    if answer:
        assert learned(tmp_path, tokenizer, ANSWERED) == [answer]


@pytest.mark.parametrize(("template", "end"), [(OWN, "<|end|>"), (GLM, "<|user|>")])
def test_a_mark_that_is_not_special_ends_an_answer(tmp_path, template, end):
    tokenizer = make(tmp_path, template, special=SPECIAL[:1], plain=SPECIAL[1:])
    assert end in names(tokenizer, Chat(tokenizer).stop_tokens())
    assert learned(tmp_path, tokenizer, TWICE) == [f"\nMe.{end}\nSo.{end}"]


@pytest.mark.parametrize(("template", "has_end"), [(OWN, True), (GLM, True), (GLM.replace("<|", "<"), False)])
def test_a_template_without_an_end_is_said(tmp_path, template, has_end):
    tokenizer = make(tmp_path, template)
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps({"messages": ANSWERED}))
    reason = "no end mark stands behind the last answer, so the model does not learn to stop there"
    assert load_dataset(path, tokenizer, 60).notes == ([] if has_end else [f"{path}: in 1 of 1 samples {reason}"])


class Says:
    """A session that says the same whatever it is asked."""

    max_positions = max_sequence = 60
    max_batch, generates = 4, True

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids, self._said = ids, 0

    def keys_and_values(self) -> "Says":
        return self

    def logits(self, ids: np.ndarray, drafts: int = 0) -> np.ndarray:
        found = np.full((len(ids), 300), -100.0, np.float32)
        found[:, self._ids[self._said % len(self._ids)]] = 0
        self._said += 1
        return found


def test_a_rollout_ends_where_a_chat_does(tmp_path):
    tokenizer = make(tmp_path, OWN)
    said = tokenizer.encode("Me.<|end|>\n")
    ids = np.array(tokenizer.encode("<|user|>\nWho?<|assistant|>"), np.int32)
    for written, expected in ((ASKED, said[:-1]), ("Who?", said * 2)):
        writer = Writer(Says(said), tokenizer, RolloutOptions(group=2, max_completion=2 * len(said)))
        for each in writer.write(Prompt("here", written, ids, {}), 0, 0, 0).completions:
            assert each.ids.tolist() == expected


def test_a_completion_that_is_handed_in_ends_as_its_turn_does(tmp_path):
    tokenizer = make(tmp_path, GLM)
    path = tmp_path / "rollouts.jsonl"
    texts = [{"text": "Me."}, {"text": "Me.<|user|>"}, {"text": "Me.<|endoftext|>"}]
    lines = [{"prompt": ASKED, "completions": texts}, {"prompt": "Who?", "completions": texts}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    turns, text = load_rollouts(path, tokenizer, 60).rows
    ends = [tokenizer.backend.id_to_token(each.ids[-1]) for each in turns.completions]
    assert ends == ["<|user|>", "<|user|>", "<|endoftext|>"] and len(turns.completions[1].ids) == 4
    ends = [tokenizer.backend.id_to_token(each.ids[-1]) for each in text.completions]
    assert ends == ["<|endoftext|>"] * 3 and len(text.completions[2].ids) == 4


def handed(folder: Path, tokenizer: Tokenizer) -> list:
    """Two completions of a turn: one as the template ends it, one that was cut off; each with a reward."""
    ids = tokenizer.encode("Me.<|end|>")
    completions = [{"ids": each, "reward": 1, "logps": [-1] * len(each)} for each in (ids, ids[:-1])]
    path = folder / "rollouts.jsonl"
    path.write_text(json.dumps({"prompt": ASKED, "completions": completions}))
    return load_rollouts(path, tokenizer, 60).rows


def test_grpo_takes_a_turn_s_end_for_the_completion_s(tmp_path):
    tokenizer = make(tmp_path, OWN)
    groups = Groups.__new__(Groups)
    groups._grpo, groups._ends = GRPO(GRPOOptions(mask_truncated_completions=True)), PromptEnds(tokenizer)
    groups._set_references = lambda session, kept: None
    kept = groups._keep(None, handed(tmp_path, tokenizer))
    assert [each.mask.tolist() for each in kept] == [[True] * 4, [False] * 3]


def test_ppo_takes_a_turn_s_end_for_the_completion_s(tmp_path):
    tokenizer = make(tmp_path, OWN)
    written = handed(tmp_path, tokenizer)
    episodes = Episodes.__new__(Episodes)
    episodes._ends, episodes._room, episodes._length = PromptEnds(tokenizer), 8, 60
    kept = [episodes._episode(group.prompt.ids, each) for group in written for each in group.completions]
    assert episodes._ended(kept, [group.prompt for group in written]) == [True, False]


CHATML = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + CONTENT + '<|im_end|>\n' }}{% endfor %}"
ASKING = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' + OPENED }}{% endif %}"
# As R1-Distill and DeepSeek V3, which leave thoughts out; as Nemotron 3, which writes an empty one; and as Qwen 3.5,
# whose last answer alone has one.
LEFT_OUT = CHATML.replace("CONTENT", "m.content.split('</think>')[-1]") + ASKING.replace("OPENED", "'<think>\n'")
EMPTY = "('<think></think>' if m.role == 'assistant' and '<think>' not in m.content else '') + m.content"
WITH_EMPTY = CHATML.replace("CONTENT", EMPTY) + ASKING.replace("OPENED", "'<think>\n'")
LAST = "('<think>\n\n</think>\n\n' if m.role == 'assistant' and loop.last else '') + m.content"
CLOSED = CHATML.replace("CONTENT", LAST) + ASKING.replace("OPENED", "'<think>\n\n</think>\n\n'")
THINKING = [*ASKED, {"role": "assistant", "content": "<think>\nHm.\n</think>\nMe."}]


@pytest.mark.parametrize(
    ("template", "turns", "answer"),
    [
        (LEFT_OUT, TWICE, "Me.<|im_end|>So.<|im_end|>"),
        (LEFT_OUT, THINKING, "\nMe.<|im_end|>"),
        (WITH_EMPTY, TWICE, "Me.<|im_end|>So.<|im_end|>"),
        (WITH_EMPTY, THINKING, "Hm.\n</think>\nMe.<|im_end|>"),
        (CLOSED, ANSWERED, "Me.<|im_end|>"),
        (CLOSED.replace("<think>", "<|START_THINKING|>").replace("</think>", "<|END_THINKING|>"), ANSWERED,
         "Me.<|im_end|>"),
        (LEFT_OUT.replace("think>", "seed:think>"), ANSWERED, "Me.<|im_end|>"),
        ("{% for m in messages %}{{ '<|im_start|>' + m.content }}{% endfor %}",
         [{"role": "user", "content": "Say <think>"}, ANSWERED[1]], "<|im_start|>Me.<|im_start|>"),
    ],
    ids=["left out", "left out, with one", "empty", "empty, with one", "closed", "other marks", "a name", "a question"],
)  # fmt: skip
def test_a_prompt_that_opens_a_thought(tmp_path, template, turns, answer):
    tokenizer = make(tmp_path, template, special=("<|endoftext|>", "<|im_start|>", "<|im_end|>"), plain=("<think>",))
    assert learned(tmp_path, tokenizer, turns) == [answer]


@pytest.mark.parametrize(("template", "end"), [(LEFT_OUT, "<|im_end|>\n"), (GLM, "<|user|>")])
def test_preferences_by_such_templates(tmp_path, template, end):
    tokenizer = make(tmp_path, template, special=(*SPECIAL, "<|im_start|>", "<|im_end|>"))
    path = tmp_path / "pairs.jsonl"
    chosen, rejected = ([{"role": "assistant", "content": text}] for text in ("Me.", "No."))
    path.write_text(json.dumps({"prompt": ASKED, "chosen": chosen, "rejected": rejected}))
    (row,) = load_preferences(path, tokenizer, 60).rows
    texts = [tokenizer.backend.decode(ids, skip_special_tokens=False) for ids in (row.prompt, row.chosen, row.rejected)]
    call = [{**chosen[0], "tool_calls": CALLS}]
    path.write_text(json.dumps({"prompt": ASKED, "chosen": call, "rejected": rejected}))
    (called,) = load_preferences(path, tokenizer, 60).rows
    if template == GLM:
        assert tokenizer.backend.decode(called.chosen, skip_special_tokens=False) == "\nMe.\ncalls<|observation|>"
    line = "" if template == LEFT_OUT else "\n"
    assert texts[0].endswith("assistant\n" if template == LEFT_OUT else "<|assistant|>")
    assert texts[1:] == [f"{line}Me.{end}", f"{line}No.{end}"]
