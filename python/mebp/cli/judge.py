# SPDX-License-Identifier: Apache-2.0
"""mebp judge MODEL --adapter DIR --data FILE: did training work?"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from mebp.cli.connection import add_connection
from mebp.cli.session import add_adapter, add_compiling, add_data, add_machine, add_model, data_of, open_session, use
from mebp.errors import Error
from mebp.words import say

if TYPE_CHECKING:
    from mebp.data import Dataset
    from mebp.data.sources import Source
    from mebp.judging import Condition, Judgement, Question
    from mebp.merging.compiling import Stage
    from mebp.merging.served import ServedLosses
    from mebp.rewards import Rewards

_NO_TEXT = "none"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser, also="; of a bundle: the model that it was made of, as it was published")
    add_data(parser, 'questions that were not trained on, each with what is right: "accept", "match" or "choices"')
    add_adapter(parser)
    add = parser.add_argument
    add(
        "--also",
        metavar="FILE",
        help="text that was not trained on, to see what the model forgets, or none (default: 200 short texts of "
        "several kinds that come with mebp)",
    )
    add(
        "--gate",
        metavar="CONDITIONS",
        help="exit with status 1 where one of these fails, as in 'right>=0.9,forgets<=0.02': of right, forgets, loss, "
        "perplexity, general_loss, general_perplexity, and of base_right and so on, without the adapter",
    )
    add(
        "--reward",
        metavar="FUNCTION",
        help="judge the answers by this function, as mebp train --reward has it: 0 is wrong, 1 is right",
    )
    add("--reward-timeout", type=float, metavar="SECONDS", help="end a reward command after so long (default: 300)")
    add("--max-new-tokens", type=int, metavar="N", help="write at most N tokens of an answer (default: 64)")
    add("--html", type=Path, metavar="FILE", help="write a page with the figures and all answers to this file")
    add(
        "--no-published",
        action="store_true",
        help="do not measure the adapter beside the weights as they were published, which exports the model once more",
    )
    add("--json", action="store_true", help="print JSON")
    add_machine(parser)
    add_connection(parser)
    add_compiling(parser.add_argument_group("options of mebpc, for a model").add_argument)


def run(arguments: argparse.Namespace) -> int:
    from mebp.building.using import is_adapter
    from mebp.cli.main import DISAGREES
    from mebp.judging import FIGURES, MOST_NEW_TOKENS, judge, prepare, read_gate, read_questions
    from mebp.judging.told import told
    from mebp.numbers import whole_number
    from mebp.outputs import PAGE, check_output
    from mebp.sequences import check_text
    from mebp.tokenizer import Tokenizer
    from mebp.waiting import stages

    gate = read_gate(arguments.gate, FIGURES) if arguments.gate is not None else []
    most = MOST_NEW_TOKENS if arguments.max_new_tokens is None else arguments.max_new_tokens
    whole_number("--max-new-tokens", most, at_least=1)
    data, general = data_of(arguments), _general(arguments.also)
    if arguments.html:
        check_output("--html", arguments.html, PAGE, {"--data": data, "--also": general})
    rewards = _rewards(arguments)
    questions = read_questions(data, judged=rewards is not None)
    if rewards:
        rewards.check_columns(list(questions[0].columns))
    base = arguments.base
    if not is_adapter(arguments.bundle):
        if base is not None and (arguments.no_published or arguments.connect or arguments.adapter is None):
            raise Error("--base names the published model, beside which nothing is measured here; leave it out")
        arguments.base = None  # the published weights
    use(arguments, _trainable(data, questions))
    _check_gate(gate, questions, rewards, general, arguments.adapter)
    tokenizer = Tokenizer(arguments.bundle)
    with stages("opening", elsewhere=lambda stage: None) as stage:
        adapter, arguments.adapter = arguments.adapter, None  # which is loaded between the two measurements
        session = open_session(arguments)
        check_text(session)
        prepared = prepare(questions, data, general, session, tokenizer, rewards is not None, most)
        judgement = judge(session, tokenizer, prepared, adapter, rewards, stage)
        del session  # the next ones need its memory
        served = None
        if adapter and prepared.rows and not arguments.no_published and not arguments.connect:
            served = _served(arguments.bundle, adapter, data, base, prepared.dataset(tokenizer), stage)
    names = [str(each) for each in (arguments.bundle.name, adapter, data.short) if each is not None]
    if arguments.html:
        from mebp.judging.page import write_page

        write_page(arguments.html, judgement, names, gate, served)
    if arguments.json:
        found = {"gate": _gate_as_json(gate, judgement), "served": served.numbers() if served else None}
        say(json.dumps(judgement.as_json() | found))
    else:
        say("\n".join([*prepared.notes, *told(judgement, gate, served=served)]))
        if arguments.html:
            say(f"{arguments.html}: open it in a browser")
    return 0 if all(each.holds(judgement.figures) for each in gate) else DISAGREES


def _served(
    bundle: Path, adapter: Path, data: "Source", base: str | None, rows: "Dataset", stage: "Stage"
) -> "ServedLosses | None":
    from mebp.building import is_bundle
    from mebp.files import user_path
    from mebp.merging.served import measure_served

    named = None if base is None or is_bundle(user_path(base)) else base
    try:
        return measure_served(bundle, adapter, data, named, stage, rows)
    except (Error, OSError) as error:  # what was asked for is there
        say(f"mebp: note: the losses beside other weights were not measured: {error}", error=True)
        return None


def _general(also: str | None) -> "Source | None":
    from mebp.data.sources import Source
    from mebp.judging import GENERAL

    return None if also == _NO_TEXT else Source.of(GENERAL if also is None else also)


def _rewards(arguments: argparse.Namespace) -> "Rewards | None":
    from mebp.rewards import TIMEOUT, load_rewards

    if arguments.reward is None:
        if arguments.reward_timeout is not None:
            raise Error("--reward-timeout needs --reward; give both, or neither")
        return None
    timeout = TIMEOUT if arguments.reward_timeout is None else arguments.reward_timeout
    return load_rewards([arguments.reward], timeout)


def _trainable(data: "Source", questions: "list[Question]") -> "Source | None":
    """What a new bundle is made for: data that training reads, too."""
    from mebp.data.loading import check_samples

    if all(question.sample is None for question in questions):
        return None
    try:
        check_samples(data)
    except Error:
        return None
    return data


def _check_gate(
    gate: "list[Condition]",
    questions: "list[Question]",
    rewards: "Rewards | None",
    general: "Source | None",
    adapter: Path | None,
) -> None:
    """Refuses a condition on what this call does not measure."""
    from mebp.judging import FIGURES, check_figures

    missing: dict[str, str] = {}
    if rewards is None and all(question.check is None for question in questions):
        missing["right"] = "no sample says what is right; give them accept, match or choices"
    if all(question.sample is None for question in questions):
        missing["loss"] = missing["perplexity"] = "no sample has a right answer in whole; write it as a turn, too"
    if general is None:
        names = ("general_loss", "general_perplexity", "forgets")
        missing |= dict.fromkeys(names, "--also none leaves general text out; give a file")
    missing |= {f"base_{name}": why for name, why in missing.items()}
    if adapter is None:
        compared = (name for name in FIGURES if name == "forgets" or name.startswith("base_"))
        missing |= dict.fromkeys(compared, "compares with and without an adapter; give --adapter")
    check_figures(gate, missing)


def _gate_as_json(gate: "list[Condition]", judgement: "Judgement") -> list[dict[str, object]]:
    return [{"condition": str(each), "holds": each.holds(judgement.figures)} for each in gate]
