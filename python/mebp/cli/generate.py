# SPDX-License-Identifier: Apache-2.0
"""mebp generate NAME.mebp --prompt TEXT"""

import argparse
from pathlib import Path

from mebp.errors import Error

_DEFAULT_NEW_TOKENS = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path, metavar="NAME.mebp")
    parser.add_argument("--prompt", required=True, metavar="TEXT")
    parser.add_argument("--adapter", type=Path, metavar="DIR", help="a PEFT folder, as mebp train writes it")
    parser.add_argument("--max-new-tokens", type=int, metavar="N", help=f"({_DEFAULT_NEW_TOKENS}, or what fits)")
    parser.add_argument("--threads", type=int, metavar="N", help="(all)")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu")


def run(arguments: argparse.Namespace) -> int:
    import mebp
    from mebp.tokenizer import Tokenizer

    tokenizer = Tokenizer(arguments.bundle)
    session = mebp.Session(arguments.bundle, device=arguments.device, threads=arguments.threads, return_gradients=False)
    if arguments.adapter:
        session.load_adapter(arguments.adapter)
    prompt = tokenizer.encode(arguments.prompt)
    if not prompt:
        raise Error("--prompt is empty; give some text")
    room = session.max_sequence - len(prompt)
    if room < 1:
        raise Error(
            f"--prompt has {len(prompt)} tokens and {arguments.bundle} is compiled for sequences of "
            f"{session.max_sequence}; shorten it or compile with a longer --seq-len"
        )
    count = min(_DEFAULT_NEW_TOKENS, room) if arguments.max_new_tokens is None else arguments.max_new_tokens
    ids = session.generate([prompt], max_new_tokens=count, eos_token_id=tokenizer.stop_tokens)
    print(tokenizer.decode(ids[0, len(prompt) :].tolist()).strip())
    return 0
