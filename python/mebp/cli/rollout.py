# SPDX-License-Identifier: Apache-2.0
"""mebp rollout NAME.mebp --data FILE -o FILE"""

import argparse
import json
from dataclasses import fields
from pathlib import Path

from mebp.cli.session import add_data, add_machine, data_of
from mebp.compile_options import flag
from mebp.training.objective_options import objective_helps, objective_kinds
from mebp.words import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("bundle", type=Path, metavar="NAME.mebp")
    add_data(parser, 'JSON lines with "prompt", and columns for rewards')
    add("-o", "--output", type=Path, required=True, metavar="FILE", help="write a line for each prompt to this file")
    add("--adapter", type=Path, metavar="DIR", help="write with this PEFT adapter")
    add("--seed", type=int, default=0, metavar="N", help="seed of the draws (default: 0)")
    add_machine(parser)
    from mebp.rollouts import RolloutOptions

    own, kinds = {each.name for each in fields(RolloutOptions)}, objective_kinds()
    for name, value, help in objective_helps(["grpo"]):
        if name in own:
            add(flag(name), type=kinds[name], metavar=value, help=help.replace(" with grpo", ""))


def run(arguments: argparse.Namespace) -> int:
    from mebp.data.prompts import load_prompts
    from mebp.data.rollouts import as_json
    from mebp.files import make_parent, replaced_file
    from mebp.outputs import check_no_input
    from mebp.rollouts import RolloutOptions, Writer
    from mebp.session import Session
    from mebp.tokenizer import Tokenizer

    given = {each.name: getattr(arguments, each.name) for each in fields(RolloutOptions)}
    options = RolloutOptions(**{name: value for name, value in given.items() if value is not None})
    data = data_of(arguments)
    check_no_input("-o", arguments.output, {"--data": data})
    session = Session(arguments.bundle, device=arguments.device, threads=arguments.threads, forward_only=True)
    if arguments.adapter:
        session.load_adapter(arguments.adapter)
    tokenizer = Tokenizer(arguments.bundle)
    prompts = load_prompts(data, tokenizer, session.max_sequence, vocabulary=session.vocabulary).rows
    writer = Writer(session, tokenizer, options)
    advice = "choose another -o"
    make_parent(arguments.output, advice)
    with replaced_file(arguments.output, advice) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        for index, prompt in enumerate(prompts):
            rollout = writer.write(prompt, arguments.seed, 0, index)
            file.write(json.dumps(as_json(rollout), ensure_ascii=False) + "\n")
    say(f"{arguments.output}: {len(prompts):,} prompts, {options.group} completions of each")
    return 0
