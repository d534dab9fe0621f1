# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's form: one GGUF file with blk.N.NAME.weight.lora_a [rank, in] and .lora_b [out, rank]."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from mebp.adapters.adapter import Adapter, Layer, paired, read_scale
from mebp.errors import Error
from mebp.exporter.text_parts import text_config
from mebp.extras import need_packages
from mebp.gguf.adapter_places import WITHOUT_ADAPTERS
from mebp.gguf.architecture import Architecture
from mebp.gguf.architectures import architecture_named, architecture_of
from mebp.gguf.container import read_container
from mebp.gguf.weights import Weight

_ADVICE = "convert the adapter again"
_ALPHA = "adapter.lora.alpha"
_ACTIVATED = "adapter.alora.invocation_tokens"  # of an adapter that is off up to these; none: it is always on
# The last two only tell servers what the adapter is for.
_KEYS = ("adapter.type", _ALPHA, _ACTIVATED, "adapter.lora.task_name", "adapter.lora.prompt_prefix")


def read_gguf(file: Path, config: Callable[[], Mapping]) -> Adapter:
    """config: gives the base model's config.json, and is called only where the heads have to be known."""
    container = read_container(file)
    kind = container.text("general.type"), container.text("adapter.type")
    if kind != ("adapter", "lora"):
        general, special = (name and name[:60] for name in kind)
        raise Error(f"{file}: is not a LoRA adapter (general.type is {general}, adapter.type {special}); give one")
    for key, value in container.metadata.items():
        if key.startswith("adapter.") and (key not in _KEYS or (key == _ACTIVATED and value)):
            raise Error(f"{file}: {key} is not supported; train the adapter without it")
    architecture = architecture_named(container.text("general.architecture"), f"{file}")
    alpha = read_scale(container.real(_ALPHA, needed=True), f"{file}: {_ALPHA}", _ADVICE)
    found: dict[str, dict[int, dict[str, np.ndarray]]] = {}
    for tensor in container.tensors:
        theirs, _, factor = tensor.name.rpartition(".")
        ours = architecture.from_gguf(theirs)
        if factor not in ("lora_a", "lora_b") or ours is None or not _can_adapt(*ours[:2]):
            raise Error(f"{file}: has '{tensor.name}', and only LoRA of linear layers is supported; train the adapter "
                        "without it")  # fmt: skip
        name, _, part = ours
        found.setdefault(name.removesuffix(".weight"), {}).setdefault(part, {})[factor[-1]] = container.values(tensor)
    layers = {}
    for module, (a, b) in paired(file, _joined(file, architecture, found, config)).items():
        # llama.cpp multiplies by one where alpha is zero.
        layers[module] = Layer(a, b, alpha / a.shape[0] if alpha else 1.0)
    return Adapter(file, layers, None)


def _can_adapt(name: str, weight: Weight) -> bool:
    return weight.is_linear and name.endswith(".weight") and not weight.theirs.startswith("token_embd")


def _joined(
    file: Path,
    architecture: Architecture,
    found: Mapping[str, Mapping[int, Mapping[str, np.ndarray]]],
    config: Callable[[], Mapping],
) -> dict[str, dict[str, np.ndarray]]:
    """The factors of transformers' modules, of llama.cpp's that each may have in several parts."""
    joined = {}
    for module, parts in found.items():
        weight = architecture.weight_of(module)
        if len(weight.names) == 1 and weight.rows is None and weight.columns is None:
            joined[module] = dict(parts[0])
            continue
        place = architecture.place(f"{module}.weight", text_config(config()), f"{file}")
        if len(parts) < len(weight.names):
            raise Error(f"{file}: '{module}' has {len(parts)} of its {len(weight.names)} parts in llama.cpp, and only "
                        "all of them can be read here; adapt the others, too")  # fmt: skip
        every = [parts[number] for number in sorted(parts)]
        whole = paired(file, {f"{module} {number}": dict(each) for number, each in enumerate(every)})
        factors = [*whole.values()]
        if any(not np.array_equal(a, factors[0][0]) for a, _ in factors):
            raise Error(f"{file}: the parts of '{module}' have an A each, and transformers has them in one layer; "
                        "merge the adapter in llama.cpp")  # fmt: skip
        a, b = factors[0][0], place.rows_here([b for _, b in factors])
        joined[module] = {"a": place.columns_here(a), "b": b}
    return joined


def write_gguf(adapter: Adapter, config: Mapping, file: Path) -> None:
    need_packages("writing GGUF", "gguf", "gguf")
    import gguf

    config = text_config(config)
    architecture = architecture_of(config.get("model_type"), f"{adapter.source}")
    alpha = adapter.scale * adapter.rank
    with np.errstate(over="ignore"):
        alpha = float(np.float32(alpha))  # as it is read
    if not alpha or not np.isfinite(alpha):
        raise Error(f"{adapter.source}: has the scale {adapter.scale:g}, which GGUF cannot hold; train the adapter "
                    "with another lora_alpha")  # fmt: skip
    writer = gguf.GGUFWriter(file, architecture.name)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32(_ALPHA, alpha)
    for module, layer in adapter.layers.items():
        weight = architecture.weight_of(module)
        place = architecture.place(f"{module}.weight", config, f"{adapter.source}")
        if weight is not None and not weight.takes_lora:
            raise Error(f"{adapter.source}: adapts '{module}', {WITHOUT_ADAPTERS}")
        if weight is None or place is None or not weight.is_linear:
            raise Error(f"{adapter.source}: adapts '{module}', which GGUF has no name for in architecture "
                        f"'{architecture.name}'; train the adapter without it")  # fmt: skip
        a, b = place.columns_there(layer.a), adapter.b_for(module, alpha / layer.rank)
        for name, rows in zip(place.names, place.rows_there(b), strict=True):
            writer.add_tensor(f"{name}.lora_a", np.ascontiguousarray(a))
            writer.add_tensor(f"{name}.lora_b", np.ascontiguousarray(rows))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
