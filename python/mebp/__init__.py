# SPDX-License-Identifier: Apache-2.0
"""mebp: exact fine-tuning of language models in very little memory.

    import mebp

    mebp.export("packaged:smollm2", "model/model.onnx", seq_len=256)    # transformers -> ONNX, weights in place
    mebp.compile("model/model.onnx", "model.mebp", weights="int4")      # ONNX -> bundle, every byte planned

    session = mebp.Session("model.mebp", lr=2e-4)
    print(session.plan)                                                 # what the memory goes to
    for ids, labels in batches:                                         # integers [batch, sequence], as in transformers
        print(session.step(ids, labels))
    session.save_adapter("adapter")                                     # for peft

    run = mebp.train("model.mebp", "data.jsonl", epochs=3, adapter_out="adapter")       # the same from a file
    mebp.merge("model.mebp", "adapter", "merged")                       # for transformers; merged.gguf: for llama.cpp
    mebp.convert_adapter("adapter", "adapter.gguf", "gguf")             # for llama.cpp; "mlx": for MLX-LM
    mebp.verify("model.mebp").agrees                                    # with torch in float64
    mebp.parity("model.mebp", ["cpu", "mlx"]).agrees                    # one device with another

Each name is imported when it is first used, so `import mebp` costs nothing and training never imports torch. Sizes are
bytes, MB are 10^6 of them. What goes wrong is an mebp.Error, one line that names the thing and says what to do.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what __getattr__ finds, for those who read and do not run
    from mebp.adapters.conversion import convert_adapter
    from mebp.compiler import LoRA, compile
    from mebp.device import devices, test_device
    from mebp.device_parity import parity
    from mebp.errors import Error
    from mebp.exporter import export
    from mebp.merging import merge
    from mebp.remote_adapters.private_lora import PrivateLoRA
    from mebp.session import Session
    from mebp.step_result import StepResult
    from mebp.training.call import train
    from mebp.verification import verify
    from mebp.verification.files import verify_files
    from mebp.version import __version__ as __version__

# Modules are not named after the functions in them: importing `mebp.export` as a module would hide `mebp.export()`.
_HOMES = {
    "Error": "errors",
    "LoRA": "compiler",
    "PrivateLoRA": "remote_adapters.private_lora",
    "Session": "session",
    "StepResult": "step_result",
    "compile": "compiler",
    "convert_adapter": "adapters.conversion",
    "devices": "device",
    "export": "exporter",
    "merge": "merging",
    "parity": "device_parity",
    "test_device": "device",
    "train": "training.call",
    "__version__": "version",
    "verify": "verification",
    "verify_files": "verification.files",
}

__all__ = [  # in full, which is what type checkers read
    "Error",
    "LoRA",
    "PrivateLoRA",
    "Session",
    "StepResult",
    "compile",
    "convert_adapter",
    "devices",
    "export",
    "merge",
    "parity",
    "test_device",
    "train",
    "verify",
    "verify_files",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'mebp' has no attribute '{name}'")
    value: object = getattr(import_module(f"mebp.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
