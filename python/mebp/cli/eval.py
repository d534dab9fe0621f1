# SPDX-License-Identifier: Apache-2.0
"""mebp eval NAME.mebp --data FILE [--adapter DIR]: loss and perplexity"""

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path, metavar="NAME.mebp")
    parser.add_argument("--data", type=Path, required=True, metavar="FILE", help="as for mebp train")
    parser.add_argument("--adapter", type=Path, metavar="DIR", help="a PEFT folder, as mebp train writes it")
    parser.add_argument("--threads", type=int, metavar="N", help="(all)")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu")
    parser.add_argument("--json", action="store_true", help="for programs")


def run(arguments: argparse.Namespace) -> int:
    import mebp
    from mebp.data import load_dataset
    from mebp.tokenizer import Tokenizer
    from mebp.training.evaluation import evaluate, perplexity

    session = mebp.Session(arguments.bundle, device=arguments.device, threads=arguments.threads, forward_only=True)
    if arguments.adapter:
        session.load_adapter(arguments.adapter)
    data = load_dataset(arguments.data, Tokenizer(arguments.bundle), session.max_sequence)
    loss = evaluate(session, data)
    found = {"loss": loss, "perplexity": perplexity(loss), "tokens": data.counted}
    if arguments.json:
        print(json.dumps(found))
    else:
        for note in data.notes:
            print(note)
        print(f"loss {loss:.4f}  perplexity {found['perplexity']:.3f}  over {data.counted:,} tokens")
    return 0
