# SPDX-License-Identifier: Apache-2.0
"""Completions from a file, and all that may be wrong with them."""

import json

import numpy as np
import pytest

from mebp.data.rollouts import as_json, load_rollouts
from mebp.errors import Error
from mebp.tokenizer import Tokenizer
from support.textmodel import make_tokenizer

GOOD = {"text": "four", "reward": 1.0}
END = 256


@pytest.fixture
def tokenizer(tmp_path):
    make_tokenizer(tmp_path / "tokenizer")
    return Tokenizer(tmp_path)


def load(tmp_path, tokenizer, *rows, **others):
    path = tmp_path / "rollouts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_rollouts(path, tokenizer, **{"length": 40, **others})


def group(*completions, **others):
    return {"prompt": "2+2=", "completions": [GOOD, *completions], **others}


def test_texts_and_ids_become_the_same(tmp_path, tokenizer):
    ids = [*tokenizer.encode("four"), END]
    row = group({"ids": ids, "reward": 1.0}, {"ids": ids, "text": "four", "reward": None}, answer=4)
    data = load(tmp_path, tokenizer, row)
    [rollout] = data.rows
    assert rollout.prompt.ids.tolist() == tokenizer.encode("2+2=") and rollout.prompt.columns == {"answer": 4}
    assert [each.ids.tolist() for each in rollout.completions] == [ids] * 3
    assert [each.text for each in rollout.completions] == ["four"] * 3
    np.testing.assert_array_equal([each.rewards for each in rollout.completions], [[1.0], [1.0], [np.nan]])
    assert rollout.completions[0].mask.all() and rollout.completions[0].advantage is None
    assert data.notes == [
        f'{tmp_path / "rollouts.jsonl"}: 3 of 3 completions have no "logps", so they are taken as the policy\'s own'
    ]


def test_what_is_known_of_a_completion_is_kept(tmp_path, tokenizer):
    known = {
        "ids": [1, 2, 3],
        "logps": [-0.5, None, 0.0],
        "mask": [1, 0, True],
        "rewards": [1, None],
        "advantage": -0.25,
    }
    data = load(tmp_path, tokenizer, {"prompt_ids": [5, 6], "completions": [known, known]})
    prompt, completion = data.rows[0].prompt, data.rows[0].completions[1]
    assert prompt.ids.tolist() == [5, 6] and prompt.written == tokenizer.decode([5, 6])
    np.testing.assert_array_equal(completion.logps, np.array([-0.5, np.nan, 0.0], np.float32))
    assert completion.mask.tolist() == [True, False, True] and completion.advantage == -0.25
    np.testing.assert_array_equal(completion.rewards, [1.0, np.nan])
    assert completion.where == f"{tmp_path / 'rollouts.jsonl'}:1, completion 2" and not data.notes


def test_what_is_written_is_read_again(tmp_path, tokenizer):
    known = {"ids": [1, 2], "logps": [-0.1, None], "mask": [1, 0], "rewards": [0.1, None], "advantage": 0.3}
    bare = {"text": "four", "rewards": [0.0, 1.0], "advantage": -0.3}
    turns = [{"role": "user", "content": "2+2="}]
    data = load(
        tmp_path, tokenizer, *({"prompt": turns, "completions": [known, bare], "answer": answer} for answer in "45")
    )
    again = load(tmp_path, tokenizer, *map(as_json, data.rows))
    assert again.digest == data.digest
    assert [row.prompt.columns for row in again.rows] == [{"answer": "4"}, {"answer": "5"}]
    assert again.rows[0].prompt.written == turns


def test_tokens_may_be_others_than_the_tokenizer_would_make(tmp_path):
    """A sampler is free to write a word in pieces."""
    make_tokenizer(tmp_path / "tokenizer", merges=[("f", "o")])
    tokenizer = Tokenizer(tmp_path)
    pieces = [*tokenizer.encode("f"), *tokenizer.encode("o")]
    assert tokenizer.encode("fo") != pieces
    completion = {"ids": pieces, "text": "fo", "reward": 1}
    assert load(tmp_path, tokenizer, group(completion)).rows[0].completions[1].ids.tolist() == pieces


def test_the_digest_is_of_all_that_is_trained_with(tmp_path, tokenizer):
    rows = [
        group({"ids": [1, 2], "reward": 1.0}),
        group({"ids": [1, 3], "reward": 1.0}),
        group({"ids": [1, 2], "reward": 2.0}),
        group({"ids": [1, 2], "reward": 1.0, "logps": [-1.0, -1.0]}),
        group({"ids": [1, 2], "reward": 1.0, "mask": [1, 0]}),
    ]
    digests = [load(tmp_path, tokenizer, row).digest for row in rows]
    assert len(set(digests)) == len(rows) and load(tmp_path, tokenizer, rows[0]).digest == digests[0]


REFUSED = [
    ({"completions": [GOOD, GOOD]}, ': has no "prompt"; give one'),
    ({"prompt_ids": [], "completions": [GOOD, GOOD]}, ": the prompt is empty"),
    (
        {"prompt_ids": ["a"], "completions": [GOOD, GOOD]},
        ': "prompt_ids" is not a list of token ids; give whole numbers',
    ),
    ({"prompt": "a"}, ': "completions" is null; a group needs at least 2, for an advantage compares them'),
    (group(), ': "completions" is a list of 1; a group needs at least 2, for an advantage compares them'),
    (group(GOOD, GOOD), ": has 3 completions where the first prompt has 2; give each prompt as many"),
    (group("four"), ', completion 2: is a string; give {"text" or "ids", ...}'),
    (group({"reward": 1}), ', completion 2: has no "text" and no "ids"; give one of them, and leave out what is empty'),
    (group({"text": "", "reward": 1}), ', completion 2: has no "text" and no "ids"; give one of them'),
    (group({"ids": [], "reward": 1}), ", completion 2: the completion is empty"),
    (group({"ids": [1, -1], "reward": 1}), ', completion 2: "ids" is not a list of token ids; give whole numbers'),
    (
        group({"ids": [1, 300], "reward": 1}),
        ", completion 2: the completion has token 300, beyond the model's vocabulary",
    ),
    (group({"ids": [1] * 37, "reward": 1}), ", completion 2: has 41 tokens with its prompt where the bundle takes 40;"),
    (
        group({"ids": [1, 2], "text": "four"}),
        ', completion 2: its "text" is not what its "ids" say; leave the text out',
    ),
    (group({"ids": [1, 2], "logps": [-1.0]}), ', completion 2: "logps" has 1 numbers for 2 tokens; give one each'),
    (group({"text": "ab", "logps": [-1.0]}), ', completion 2: "logps" has 1 numbers for 3 tokens; give the "ids" that'),
    (group({"ids": [1, 2], "logps": -1.0}), ', completion 2: "logps" is a number; give a list with a number for each'),
    (
        group({"ids": [1, 2], "logps": [-1.0, 0.5]}),
        ', completion 2: "logps" has 0.5 at token 2, and no probability is above 1; give natural logarithms',
    ),
    (
        group({"ids": [1, 2], "logps": [-1.0, "a"]}),
        ", completion 2: a number in \"logps\" is 'a'; give a finite number",
    ),
    (group({"ids": [1, 2], "mask": [1]}), ', completion 2: "mask" has 1 numbers for 2 tokens; give one each'),
    (group({"ids": [1, 2], "mask": [1, 2]}), ', completion 2: "mask" has something else than 0 and 1; give 0 where'),
    (group({"text": "a", "reward": float("nan")}), ", completion 2: its reward is nan; give a finite number"),
    (group({"text": "a", "reward": "good"}), ", completion 2: its reward is 'good'; give a finite number"),
    (group({"text": "a", "reward": 1, "rewards": [1]}), ', completion 2: has both "reward" and "rewards"; keep one'),
    (group({"text": "a", "rewards": 1}), ', completion 2: "rewards" is a number; give a list of numbers'),
    (group({"text": "a"}), ", completion 2: has 0 rewards where the first has 1; give each as many"),
    (group({"text": "a", "rewards": [1, 2]}), ", completion 2: has 2 rewards where the first has 1; give each as many"),
    (group({"ids": [1, 2**70], "reward": 1}), ', completion 2: "ids" is not a list of token ids; give whole numbers'),
    ({"prompt_ids": [2**31], "completions": [GOOD, GOOD]}, ': "prompt_ids" is not a list of token ids; give whole'),
    ({"prompt": 3, "prompt_ids": [1], "completions": [GOOD, GOOD]}, ': "prompt" is a number; give a string'),
    (group({"text": "a", "reward": float("inf")}), ", completion 2: its reward is inf; give a finite number"),
    (group({"text": "a", "reward": 10**400}), f", completion 2: its reward is 1{'0' * 39}; give a finite number"),
    (group({"text": "a", "reward": 1e31}), ", completion 2: its reward is 1e+31; give one of at most 1e+30"),
    (
        group({"ids": [1, 2], "logps": [-1e31, None]}),
        ', completion 2: a number in "logps" is -1e+31; give one of at most 1e+30',
    ),
    (group({**GOOD, "advantage": 1}), ", completion 2: not all completions have an advantage; give one to each, or"),
    (group({**GOOD, "advantage": "big"}), ", completion 2: \"advantage\" is 'big'; give a finite number"),
]


@pytest.mark.parametrize(("row", "line"), REFUSED)
def test_what_cannot_be_trained_on_is_refused(tmp_path, tokenizer, row, line):
    with pytest.raises(Error) as error:
        load(tmp_path, tokenizer, group(GOOD), row, vocabulary=300)
    assert str(error.value).startswith(f"{tmp_path / 'rollouts.jsonl'}:2{line}")
