# SPDX-License-Identifier: Apache-2.0
"""Chat templates in pieces, in C: text, ids and labels are those of Python's data path by the template itself."""

import json
import random
from collections.abc import Iterator

import pytest

from mebp.arrays import IGNORED_LABEL
from mebp.data.chat_template import ChatTemplate
from mebp.data.checking_pieces import generate, pieces_of
from mebp.data.finding_pieces import MARK, UncomposedError
from mebp.data.forms import Conversation
from mebp.data.turn_ends import turn_ends
from mebp.errors import Error
from mebp.tokenizer import Tokenizer
from support.chat_library import ChatLibrary, labels_by_python
from support.composed import FAMILIES
from support.text_tokenizer import TextTokenizer
from support.trl_templates import BEGIN, ENDS, FOLDER, marked_tokenizer

COUNT = 50  # conversations of each template
TRL = sorted(file.stem for file in FOLDER.glob("*.jinja") if not file.stem.endswith("_training"))
WITH_DATE = {"gptoss", "llama3_2", "muse_glimmer"}


@pytest.fixture(scope="module")
def backend():
    return marked_tokenizer()


@pytest.fixture
def tokenizer(backend, tmp_path, name) -> Tokenizer:
    (tmp_path / "tokenizer").mkdir()
    backend.save(str(tmp_path / "tokenizer" / "tokenizer.json"))
    end = next((text for prefix, text in ENDS.items() if name.startswith(prefix)), "<|im_end|>")
    settings = {"eos_token": end, "bos_token": BEGIN}
    (tmp_path / "tokenizer" / "tokenizer_config.json").write_text(json.dumps(settings))
    source = FAMILIES[name] if name in FAMILIES else (FOLDER / f"{name}.jinja").read_text()
    (tmp_path / "tokenizer" / "chat_template.jinja").write_text(source)
    return Tokenizer(tmp_path)


@pytest.mark.parametrize("name", [*FAMILIES, *TRL])
def test_text_ids_and_labels_are_those_of_python(tokenizer, name):
    if name in WITH_DATE:
        with pytest.raises(UncomposedError):
            pieces_of(tokenizer)
        return
    pieces, template = pieces_of(tokenizer), ChatTemplate(tokenizer)
    prompts, ends = ChatTemplate(tokenizer, variables={"enable_thinking": False}), turn_ends(tokenizer, template)
    library = ChatLibrary(json.dumps(pieces.to_json()).encode())
    own = TextTokenizer(tokenizer.folder)
    assert library.ends() == sorted(ends.stop)
    conversations = generate(pieces, MARK.findall(template.source), COUNT)
    for messages in conversations:
        if messages[-1]["role"] == "user":
            prompt = prompts.render(messages, add_generation_prompt=True)
            assert library.text(messages, True) == prompt
            assert library.prompt(messages, own) == tokenizer.encode(prompt)
    for everything in (False, True):
        samples = [*maskings(conversations)]
        expected = labels_by_python(samples, tokenizer, template, ends, everything)
        for sample, labels in zip(samples, expected, strict=True):
            ids, counted = library.labels(sample.messages, own, sample.masked, everything)
            if ends.following and len(sample.messages) - 1 in sample.masked and not everything:
                # Python writes the mark of a next turn behind answers that are learned alone.
                mark, last = tokenizer.encode(ends.following), counted.pop()
                assert [ids.pop()] == mark and last == IGNORED_LABEL
            assert (ids, counted) == labels
    library.close()
    own.close()


def maskings(conversations) -> Iterator[Conversation]:
    """With all answers, the last one alone (--loss-on last), and some that marks leave out."""
    chance = random.Random(1)
    for messages in conversations:
        answers = [index for index, each in enumerate(messages) if each["role"] == "assistant"]
        for masked in ((), answers[:-1], chance.sample(answers, len(answers) // 2)) if answers else ():
            yield Conversation("a conversation", messages, masked=frozenset(masked))


@pytest.mark.parametrize("name", ["chatml"])
def test_what_the_library_refuses_is_named(tokenizer, name):
    library = ChatLibrary(json.dumps(pieces_of(tokenizer).to_json()).encode())
    with pytest.raises(Error) as refused:
        library.text([{"role": "user", "content": "Look."}, {"role": "tool", "content": "{}"}])
    assert str(refused.value) == 'turn 1 has the role "tool"; chat.json has system, user and assistant'
    library.close()
