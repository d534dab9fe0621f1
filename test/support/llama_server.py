# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's server, from the wheel of xllamacpp: what it makes of conversations, with the template in a GGUF file."""

import json
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.judges import judge

Message = Mapping[str, object]


class LlamaServer:
    def __init__(self, server: object) -> None:
        self._server = server

    def prompt(self, messages: Sequence[Message], tools: Sequence[Mapping] | None = None, **given: object) -> str:
        """Up to where the assistant's answer begins; `given` are variables of the template."""
        asked = {"messages": _stated(messages), "chat_template_kwargs": given}
        return self._post("/apply-template", {**asked, **({"tools": tools} if tools else {})})["prompt"]

    def tokens(self, text: str) -> list[int]:
        """Of a prompt, with what the model wants before any text."""
        return self._post("/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"]

    def answer(self, messages: Sequence[Message], count: int) -> str:
        """The likeliest one, of up to `count` tokens."""
        asked = {"messages": _stated(messages), "temperature": 0, "max_tokens": count, "seed": 1}
        return self._server.handle_chat_completions(asked)["choices"][0]["message"]["content"]

    def _post(self, path: str, body: object) -> dict:
        request = urllib.request.Request(
            self._server.listening_address + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)


@contextmanager
def llama_server(model: Path, length: int = 1024) -> Iterator[LlamaServer]:
    """The server of one GGUF file, which keeps keys and values in float32."""
    package = judge("xllamacpp")
    options = package.CommonParams()
    options.model.path, options.n_ctx, options.n_parallel, options.use_jinja = str(model), length, 1, True
    options.n_gpu_layers, options.warmup, options.verbosity, options.fit_params = 0, False, -1, False
    options.cache_type_k = options.cache_type_v = package.ggml_type.GGML_TYPE_F32
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 2
    server = package.Server(options)
    try:
        yield LlamaServer(server)
    finally:
        del server


def _stated(messages: Sequence[Message]) -> list[Message]:
    """As OpenAI's interface has them: arguments of calls are texts."""
    return [
        {**message, "tool_calls": [{**call, "function": {**call["function"], "arguments": json.dumps(
            call["function"]["arguments"])}} for call in message["tool_calls"]]}
        if "tool_calls" in message else message
        for message in messages
    ]  # fmt: skip
