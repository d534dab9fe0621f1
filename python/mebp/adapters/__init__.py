# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters in the forms of PEFT, MLX-LM and llama.cpp.

adapter      what all of them hold: two factors and a scale for each layer
base         the base model's config.json, wherever it is
patterns     of layers' names, as PEFT's settings have them
keys         names of tensors in PEFT's form
peft         adapter_config.json and adapter_model.safetensors
mlx          adapter_config.json and adapters.safetensors
gguf_file    one file for llama.cpp
origin       mebp.json, and which adapters were trained here
conversion   from any of them to another
"""
