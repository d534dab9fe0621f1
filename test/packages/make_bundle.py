# SPDX-License-Identifier: Apache-2.0
"""Makes the bundle that the packages are tested with: small, with steps long enough to be cancelled in their middle.

make_bundle.py NAME.mebp
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import mebp
from support import models

model = models.build(
    "llama", hidden_size=384, intermediate_size=1024, num_hidden_layers=6, head_dim=48, num_attention_heads=8
)
with tempfile.TemporaryDirectory() as folder:
    mebp.export(model, f"{folder}/model.onnx", seq_len=128, batch=2)
    options = {"precision": "f32", "lora": mebp.LoRA(rank=4), "generate_len": 64}
    mebp.compile(f"{folder}/model.onnx", sys.argv[1], seq_len=128, batch=2, **options)
