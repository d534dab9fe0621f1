# SPDX-License-Identifier: Apache-2.0
"""GGUF, the files that llama.cpp reads: models and adapters, in and out.

architectures  the model types that are read and written, with a table for each
architecture   what such a table has; its rows are in weights, and its keys in keys
dense, lfm2, qwen_hybrid     the tables; experts and gemma have parts of them
container      a file's metadata and where its tensors lie, read with every size checked
metadata       config.json as llama.cpp's keys
vocabulary     tokenizer.json as llama.cpp's keys
model          a whole model, written tensor by tensor
source         a file as a folder for transformers
ahead          layers of a file that nothing here trains
codes          which of a file's codes a bundle keeps
"""

GGUF_SUFFIX = ".gguf"
ROPE_FACTORS = "rope_freqs.weight"  # a tensor that transformers has no place for: it makes these itself

# What to do where a file cannot be read as llama.cpp reads it, or written so that llama.cpp would.
READ_ADVICE = "export the model's Hugging Face folder"
WRITE_ADVICE = "write a folder for transformers instead (-o DIR)"

# What a model's matrices are written as, as options call it: llama.cpp's name of the type, and of its file_type.
GGUF_TYPES = {
    "f32": ("F32", "ALL_F32"),
    "bf16": ("BF16", "MOSTLY_BF16"),
    "f16": ("F16", "MOSTLY_F16"),
    "q8_0": ("Q8_0", "MOSTLY_Q8_0"),
    "q4_1": ("Q4_1", "MOSTLY_Q4_1"),
    "q4_0": ("Q4_0", "MOSTLY_Q4_0"),
}
