# SPDX-License-Identifier: Apache-2.0
"""torch's side of bench/speed.py: a process that makes a step whenever it is told to, in bf16 unless it says f32.

    PYTHONPATH=bench python -m parts.speed.torch_steps THREADS DEVICE peft FOLDER TOKENS [OPTION ...]
    PYTHONPATH=bench python -m parts.speed.torch_steps THREADS cpu mezo FOLDER TOKENS [f32]
    PYTHONPATH=bench python -m parts.speed.torch_steps THREADS cpu matmul TOKENS INPUTSxOUTPUTS ... [f32]

FOLDER is a transformers model, DEVICE torch's cpu, cuda or mps. peft is a step of AdamW, mezo one of MeZO, LoRA r=8 on
all linear layers, batch 1. OPTIONs are checkpointing; compiled: torch.compile that may keep half of the activations;
last:N: adapters in so many last layers alone; f32: all of it in f32; and no-autocast: PEFT's
autocast_adapter_dtype=False, adapters in bf16, too. matmul answers with FLOP/s by shape.
"""

import sys
import time

import torch
from parts.speed.contender import Step, serve

RATE, PERTURBATION = 2e-4, 1e-3
MATMUL_SECONDS = 0.15  # of measuring a shape


def load(folder: str, options: list[str], device: str = "cpu") -> torch.nn.Module:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, logging

    logging.disable_progress_bar()
    dtype = torch.float32 if "f32" in options else torch.bfloat16
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, trust_remote_code=False, use_safetensors=True)
    model.to(device).config.use_cache = False
    if "checkpointing" in options:
        model.gradient_checkpointing_enable()
        model.enable_input_require_grads()
    adapted = {"target_modules": "all-linear"}
    if last := next((int(option.removeprefix("last:")) for option in options if option.startswith("last:")), 0):
        layers = model.config.num_hidden_layers  # beside names of layers alone, PEFT takes their numbers
        names = {name.rpartition(".")[2] for name, each in model.named_modules() if isinstance(each, torch.nn.Linear)}
        adapted = {
            "target_modules": sorted(names - {"lm_head"}),
            "layers_to_transform": [*range(layers - last, layers)],
        }
    lora = LoraConfig(r=8, lora_alpha=16, task_type="CAUSAL_LM", **adapted)
    model = get_peft_model(model, lora, autocast_adapter_dtype="no-autocast" not in options).train()
    if "compiled" in options:
        from torch._functorch import config

        config.activation_memory_budget = 0.5
        model.compile(dynamic=False)
    return model


def random_ids(model: torch.nn.Module, tokens: int) -> torch.Tensor:
    return torch.randint(0, model.config.vocab_size, (1, tokens)).to(model.device)


def device_peak(device: str) -> int:
    """What its tensors took at the most; of mps, which does not tell, what its driver has taken."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return torch.mps.driver_allocated_memory() if device == "mps" else 0


def peft(device: str, folder: str, tokens: str, *options: str) -> Step:
    model = load(folder, options, device)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=RATE, weight_decay=0.0)

    def step() -> dict:
        ids = random_ids(model, int(tokens))
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if device != "cpu":
            getattr(torch, device).synchronize()
        return {"device_bytes": device_peak(device)}

    return step


def mezo(_: str, folder: str, tokens: str, *options: str) -> Step:
    """Two forwards along a direction that is drawn again from its seed instead of being kept."""
    model = load(folder, options)
    trainables = [parameter for parameter in model.parameters() if parameter.requires_grad]
    seeds = iter(range(1 << 30))

    def move(seed: int, scale: float) -> None:
        generator = torch.Generator().manual_seed(seed)
        for parameter in trainables:
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype), alpha=scale)

    @torch.no_grad()
    def step() -> None:
        ids, seed = random_ids(model, int(tokens)), next(seeds)
        move(seed, PERTURBATION)
        above = model(input_ids=ids, labels=ids).loss
        move(seed, -2 * PERTURBATION)
        below = model(input_ids=ids, labels=ids).loss
        slope = float(above - below) / (2 * PERTURBATION)
        move(seed, PERTURBATION - RATE * slope)

    return step


def matmul(_: str, tokens: str, *arguments: str) -> Step:
    shapes = [argument for argument in arguments if argument != "f32"]
    dtype = torch.float32 if "f32" in arguments else torch.bfloat16
    sizes = {shape: [int(size) for size in shape.split("x")] for shape in shapes}
    operands = {
        shape: (torch.randn(int(tokens), inputs, dtype=dtype), torch.randn(outputs, inputs, dtype=dtype))
        for shape, (inputs, outputs) in sizes.items()
    }

    def rate(shape: str) -> float:
        left, right = operands[shape]
        fastest, end = float("inf"), time.perf_counter() + MATMUL_SECONDS
        while (start := time.perf_counter()) < end:
            torch.nn.functional.linear(left, right)
            fastest = min(fastest, time.perf_counter() - start)
        return 2 * int(tokens) * sizes[shape][0] * sizes[shape][1] / fastest

    return lambda: {"flops": {shape: rate(shape) for shape in shapes}}


def main() -> None:
    threads, device, kind, *arguments = sys.argv[1:]
    torch.set_num_threads(int(threads))
    torch.manual_seed(0)
    serve({"peft": peft, "mezo": mezo, "matmul": matmul}[kind](device, *arguments))


if __name__ == "__main__":
    main()
