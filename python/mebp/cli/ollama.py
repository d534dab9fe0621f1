# SPDX-License-Identifier: Apache-2.0
"""mebp ollama MODEL --adapter DIR"""

import argparse

from mebp.cli.merge import check_adapter, say_notes
from mebp.cli.session import add_adapter, add_compiling, add_model, use
from mebp.errors import Error
from mebp.gguf import GGUF_TYPES
from mebp.waiting import stages
from mebp.words import answer, say

QUESTION = "What can you help me with?"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_adapter(parser)
    parser.add_argument("--name", help="the model's name in Ollama, which is a new one (default: the given one's)")
    parser.add_argument(
        "--dtype",
        choices=list(GGUF_TYPES),
        default="q8_0",
        help="type of the merged weights (default: q8_0, which takes a byte for each)",
    )
    parser.add_argument("--ask", metavar="TEXT", default=QUESTION, help=f"what to ask it (default: {QUESTION})")
    add_compiling(parser.add_argument_group("options of mebpc, for a model").add_argument)


def run(arguments: argparse.Namespace) -> int:
    check_adapter(arguments)
    if not arguments.ask.strip():
        raise Error("--ask is empty; give a question")
    import mebp
    from mebp.cache import make_cache_folder
    from mebp.files import scratch_folder
    from mebp.gguf import GGUF_SUFFIX
    from mebp.serving.modelfile import model_name
    from mebp.serving.ollama import Ollama
    from mebp.tools import cache_folder

    name = model_name(arguments.bundle.absolute().stem) if arguments.name is None else arguments.name
    ollama = Ollama()
    ollama.check_free(name)
    use(arguments)
    make_cache_folder()
    with scratch_folder(cache_folder(), ".ollama-") as folder, stages("merging") as stage:
        output = folder / f"{model_name(name)}{GGUF_SUFFIX}"
        result = mebp.merge(arguments.bundle, arguments.adapter, output, arguments.dtype)
        if result.modelfile is None:
            raise Error(f"{arguments.bundle}: has no tokenizer, so nobody can talk to it; export the model with one")
        stage(f"ollama create {name}")
        ollama.create(name, result.modelfile.path)
    say(f"{name}: {result.bytes / 1e6:,.1f} MB, made by ollama create; talk to it with ollama run {name}")
    say_notes(result, name)
    say(f"> {arguments.ask}", error=True)
    answer(ollama.ask(name, arguments.ask, thinks=not result.modelfile.no_thoughts))
    return 0
