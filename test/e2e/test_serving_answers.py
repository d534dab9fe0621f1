# SPDX-License-Identifier: Apache-2.0
"""A trained SmolLM2, merged, in llama.cpp's server: the answers of mebp."""

import mebp
from mebp.data.chat_template import ChatTemplate
from mebp.data.turn_ends import turn_ends
from support.llama_server import llama_server

COUNT = 24
ASK, SAY = {"role": "user", "content": "What is the capital of France?"}, {"role": "assistant", "content": "Paris."}
CONVERSATIONS = {
    "none": [ASK],
    "system": [{"role": "system", "content": "You answer like a keeper of a lighthouse."}, ASK],
    "several turns": [ASK, SAY, {"role": "user", "content": "And what is it known for?"}],
    "tool": [ASK, {**SAY, "content": "Let me look that up."}, {"role": "tool", "content": "Paris, 2.1 million"}],
    "thought": [ASK, {**SAY, "reasoning_content": "France's capital."}, {"role": "user", "content": "Are you sure?"}],
}  # fmt: skip


def test_llama_cpp_gives_our_greedy_answers(smollm2, tmp_path, show):
    data = tmp_path / "data.txt"
    data.write_text("The keeper of the lighthouse trims the wick and lights the lamp before sunset. " * 40)
    mebp.train(smollm2.bundle, data, steps=2, lr=1e-3, adapter_out=tmp_path / "adapter", progress=False)
    mebp.merge(smollm2.bundle, tmp_path / "adapter", tmp_path / "smollm2.gguf", "f32")
    text = (tmp_path / "Modelfile").read_text()
    assert 'SYSTEM "You are a helpful AI assistant named SmolLM, trained by Hugging Face"\n' in text
    session = mebp.Session(smollm2.bundle)
    session.load_adapter(tmp_path / "adapter")
    template = ChatTemplate(smollm2.tokenizer)
    stop, same = turn_ends(smollm2.tokenizer, template).stop, 0
    with llama_server(tmp_path / "smollm2.gguf") as server:
        for name, messages in CONVERSATIONS.items():
            prompt = template.render(messages, add_generation_prompt=True)
            ids = smollm2.tokenizer.encode(prompt)
            assert server.tokens(server.prompt(messages)) == ids, name
            written = session.generate([ids], COUNT, stop)[0, len(ids) :].tolist()
            ours, theirs = smollm2.tokenizer.decode(written).strip(), server.answer(messages, COUNT).strip()
            assert ours == theirs, name
            same += 1
    show(f"SmolLM2-135M trained and merged, f32 GGUF: llama.cpp's greedy answers to {same} conversations are mebp's")
