# SPDX-License-Identifier: Apache-2.0
"""Uses a trained adapter in plain transformers and PEFT, and compares its greedy answers with this project's.

    python examples/compare_with_peft.py NAME.mebp --adapter DIR --questions FILE

The base model is the bundle's, its weights as the kernels see them, in float32: so compile with --precision f32. Exits
with 1 where an answer differs by any token.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from score import MAX_NEW_TOKENS, Assistant, read_questions

import mebp
from mebp.tokenizer import Tokenizer


class PeftAssistant:
    """The same bundle and adapter, computed by torch alone."""

    def __init__(self, session: mebp.Session, tokenizer: Tokenizer, adapter: Path) -> None:
        # They take seconds to import; a wrong argument is told before.
        import torch
        from peft import PeftModel
        from transformers import AutoConfig, AutoModelForCausalLM

        config = AutoConfig.from_pretrained(tokenizer.folder, trust_remote_code=False)
        options = {"dtype": torch.float32, "attn_implementation": "sdpa"}
        base = AutoModelForCausalLM.from_config(config, trust_remote_code=False, **options)
        base.load_state_dict({name: torch.from_numpy(values) for name, values in session.base_weights().items()})
        self._model = PeftModel.from_pretrained(base, adapter).eval()

    def answer(self, prompt: Sequence[int], stop_tokens: set[int]) -> list[int]:
        """As Assistant.answer."""
        import torch

        ids = torch.tensor([prompt])
        generated = self._model.generate(  # transformers takes no gradients here
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=MAX_NEW_TOKENS,
            do_sample=False,
            eos_token_id=sorted(stop_tokens),
            pad_token_id=min(stop_tokens),
        )
        return generated[0, len(prompt) :].tolist()


def run(arguments: argparse.Namespace) -> bool:
    """Whether all answers agree."""
    questions = read_questions(arguments.questions)
    tokenizer = Tokenizer(arguments.bundle)
    session = mebp.Session(arguments.bundle, threads=arguments.threads, return_gradients=False)
    session.load_adapter(arguments.adapter)
    ours, theirs = Assistant(session, tokenizer), PeftAssistant(session, tokenizer, arguments.adapter)
    same = 0
    for question in questions:
        own = ours.answer(question.text)
        other = theirs.answer(ours.prompt(question.text), ours.stop_tokens)
        same += own == other
        if own != other:
            print(f"> {question.text}\nmebp: {tokenizer.decode(own)}\nPEFT: {tokenizer.decode(other)}\n")
    print(f"{same} of {len(questions)} answers are the same in PEFT, token for token")
    return same == len(questions)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare an adapter's answers with those in transformers and PEFT.")
    parser.add_argument("bundle", type=Path, metavar="NAME.mebp", help="the bundle that mebpc wrote")
    parser.add_argument("--adapter", type=Path, required=True, metavar="DIR")
    parser.add_argument("--questions", type=Path, required=True, metavar="FILE", help="as for score.py")
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads to use (default: all)")
    return parser.parse_args()


def main() -> int:
    try:
        return 0 if run(parse()) else 1
    except mebp.Error as error:
        print(f"compare_with_peft.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
