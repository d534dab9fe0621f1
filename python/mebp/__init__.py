# SPDX-License-Identifier: Apache-2.0
"""mebp: exact fine-tuning of language models in very little memory.

    mebp.export(model, "DIR/model.onnx")            transformers -> ONNX, weights in place
    mebp.compile("DIR/model.onnx", "NAME.mebp")     ONNX -> bundle
    mebp.Session("NAME.mebp").step(ids, labels)     train

Each name is imported when it is first used, so `import mebp` costs nothing and training never imports torch.
"""

from importlib import import_module

# Modules are not named after the functions in them: importing `mebp.export` as a module would hide `mebp.export()`.
_HOMES = {
    "Error": "errors",
    "LoRA": "compiler",
    "Session": "session",
    "StepResult": "session",
    "compile": "compiler",
    "export": "exporter",
    "merge": "merging",
}

__all__ = sorted(_HOMES)
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'mebp' has no attribute '{name}'")
    value = getattr(import_module(f"mebp.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
