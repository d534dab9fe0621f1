# SPDX-License-Identifier: Apache-2.0
"""GGUF, the files that llama.cpp reads: models and adapters, in and out.

architectures  the model types that are read and written, with a table for each
architecture   what such a table has; its rows are in weights, and its keys in keys
dense, gemma2, gemma4, granite, lfm2, mixtures, olmo2, qwen_hybrid, smollm3     the tables; experts and gemma have parts
container      a file's metadata and where its tensors lie, read with every size checked
metadata       config.json as llama.cpp's keys
vocabulary     tokenizer.json as llama.cpp's keys: byte_rules, pieces and lines have the kinds
adapter_places where the C library finds an adapter's layers in such a file
model          a whole model, written tensor by tensor
quantized_types  which type each of its tensors has
numbers        metadata that is set once a file is there
source         a file as a folder for transformers
ahead          layers of a file that nothing here trains
codes          which of a file's codes a bundle keeps
"""

GGUF_SUFFIX = ".gguf"
ROPE_FACTORS = "rope_freqs.weight"  # a tensor that transformers has no place for: it makes these itself

# What to do where a file cannot be read as llama.cpp reads it, or written so that llama.cpp would.
READ_ADVICE = "export the model's Hugging Face folder"
WRITE_ADVICE = "write a folder for transformers instead (-o DIR)"

# What a model's matrices are written as, as options call it: llama.cpp's name of the type of most of them, and of its
# file_type.
GGUF_TYPES = {
    "f32": ("F32", "ALL_F32"),
    "bf16": ("BF16", "MOSTLY_BF16"),
    "f16": ("F16", "MOSTLY_F16"),
    "q8_0": ("Q8_0", "MOSTLY_Q8_0"),
    "q6_k": ("Q6_K", "MOSTLY_Q6_K"),
    "q5_k_m": ("Q5_K", "MOSTLY_Q5_K_M"),
    "q5_k_s": ("Q5_K", "MOSTLY_Q5_K_S"),
    "q5_1": ("Q5_1", "MOSTLY_Q5_1"),
    "q5_0": ("Q5_0", "MOSTLY_Q5_0"),
    "q4_k_m": ("Q4_K", "MOSTLY_Q4_K_M"),
    "q4_k_s": ("Q4_K", "MOSTLY_Q4_K_S"),
    "q4_1": ("Q4_1", "MOSTLY_Q4_1"),
    "q4_0": ("Q4_0", "MOSTLY_Q4_0"),
}
