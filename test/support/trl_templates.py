# SPDX-License-Identifier: Apache-2.0
"""Chat templates of many families, as TRL ships them, and a tokenizer that has a token for each of their marks."""

import re
from collections.abc import Sequence

from tokenizers import AddedToken, Tokenizer

from support import judges
from support.textmodel import byte_tokenizer

FOLDER = judges.FOLDER / "trl" / "chat_templates"
MARK = re.compile(
    r"<[|｜][^<>\s]{1,40}[|｜]>|\[gMASK\]|<sop>|</?(?:think|tool_call|tool_response)>|<(?:start|end)_of_turn>"
    r"|<\|?(?:turn|channel|tool_call|tool_response)\|?>|<\|\"\|>"
)
BEGIN = "<bos>"
ENDS = {
    "cohere": "<|END_OF_TURN_TOKEN|>",
    "deepseek": "<｜end▁of▁sentence｜>",
    "diffusion": "<turn|>",
    "gemma": "<end_of_turn>",
    "glm": "<|endoftext|>",
    "gptoss": "<|return|>",
    "idefics": "<end_of_utterance>",
    "llama": "<|eot_id|>",
    "llava": "</s>",
    "muse": "<|eot|>",
    "phi": "<|endoftext|>",
}


def marked_tokenizer(merges: Sequence[tuple[str, str]] = ()) -> Tokenizer:
    """A token for each byte, and one for each mark of any template."""
    files = list(FOLDER.glob("*.jinja"))
    if not files:
        judges.missing("TRL's templates are not there")
    texts = {BEGIN, *ENDS.values()}.union(*(MARK.findall(file.read_text()) for file in files))
    found = byte_tokenizer(merges)
    found.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in sorted(texts)])
    return found
