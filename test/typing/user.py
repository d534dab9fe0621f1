# SPDX-License-Identifier: Apache-2.0
"""Lines that a user writes, for mypy and basedpyright to read: scripts/lint.sh all. The last ones are wrong."""

from pathlib import Path

import numpy as np

import mebp

mebp.export("packaged:smollm2", Path("model") / "model.onnx", seq_len=256)
mebp.compile("model/model.onnx", "model.mebp", weights="int4", lora=mebp.LoRA(rank=8, targets=["q_proj"]))
run = mebp.train("model.mebp", "chat.jsonl", epochs=3, callback=lambda record: record.loss < 0.3)
talks = [{"messages": [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Ann."}]}]
mebp.train("model.mebp", talks, eval=["The gate is locked at nine."], ask=[{"prompt": "Who?"}])
mebp.train("model.mebp", ["a.jsonl:0.2", Path("b.jsonl"), [{"text": "The lamp is lit."}]])
last: float = run.records[-1].loss
session = mebp.Session("model.mebp", lr=1e-4)
ids = np.ones((1, 8), np.int32)
loss, gradients = session.loss_and_gradients(ids, ids)
norm: float = loss + float(np.linalg.norm(next(iter(gradients.values()))))
seconds: float = session.step(ids, ids).seconds
tokens: list[int] = session.generate(ids, max_new_tokens=4)[0].tolist()
agrees: bool = mebp.verify("model.mebp").agrees
size: int = mebp.merge("model.mebp", "adapter", "merged.gguf", "q8_0").bytes
names: list[str] = [device.name for device in mebp.devices() if device.is_there]

mebp.compile("model.onnx", "model.mebp", seq_len="long")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
mebp.LoRA(rank="8")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
mebp.train("model.mebp", [3])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
session.save_adapter(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
