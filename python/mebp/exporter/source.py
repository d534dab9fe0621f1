# SPDX-License-Identifier: Apache-2.0
"""What the user calls a model, made into a folder with config.json and weights."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from transformers import CONFIG_MAPPING, PreTrainedConfig, PreTrainedModel

from mebp.errors import Error, explained
from mebp.exporter import mlx, mxfp4, rounded
from mebp.exporter.config import read_config
from mebp.exporter.encoders import check_encoder, is_encoder
from mebp.exporter.finding import Found, find_model
from mebp.exporter.naming import shared_name, shared_path
from mebp.exporter.text_parts import TextPart, is_of_text, text_part_of
from mebp.files import check_space, own_file, read_json
from mebp.gguf.source import called, unpack_gguf
from mebp.tasks import CAUSAL, ENCODING, FILL_MASK, TASKS
from mebp.words import say

_QUANTIZATION = ("quantization_config", "compression_config")
# What a class was called before transformers had it. BLOOM was published with its base model's.
_OLDER_CLASSES = {"RWForCausalLM": "FalconForCausalLM", "StableLMEpochForCausalLM": "StableLmForCausalLM",
                  "BloomModel": "BloomForCausalLM"}  # fmt: skip


@dataclass(frozen=True)
class Source:
    """A model on disk; `name` is what reports call it, `origin` what an export says that it was made of (Found). Where
    it takes more than text, `config` is the text's, and `part` says where that is; `is_whole`, whether the class that
    config.json names is the one that takes everything."""

    name: str
    origin: str
    folder: Path
    config: PreTrainedConfig
    part: TextPart | None = None
    is_whole: bool = False
    of_mlx: dict | None = None  # what config.json says of its codes
    rounded: dict | None = None  # and of FP8 or NF4
    blocks: Mapping[str, str] = field(default_factory=dict)  # types of a GGUF file's, by the tensors' names
    is_as_file: bool = False  # --weights file is the storage that keeps what is there


def resolve(model: str | Path | PreTrainedModel, scratch: Path, shape_only: bool, task: str = CAUSAL) -> Source:
    """Finds, downloads, unpacks or saves (below `scratch`) the model; raises Error where it cannot be exported."""
    if isinstance(model, PreTrainedModel):
        folder = Path(tempfile.mkdtemp(dir=scratch))
        _save(model, folder, shape_only)
        named = model.name_or_path or model.config.model_type
        origin = shared_path(Path(named)) if Path(named).is_dir() else shared_name(named)
        return _open(Path(named).name, origin, folder, task)
    if not isinstance(model, (str, Path)):
        kind = type(model).__name__
        raise Error(f"{kind} is not a model; give a folder, a hub id or a PreTrainedModel (merged)")
    found = find_model(model, shape_only)
    if found.note:
        say(f"note: {found.note}", error=True)
    if found.is_gguf:
        if task != CAUSAL:
            raise Error(f"{model}: a GGUF file has no encoder; give a Hugging Face folder with --task {task}")
        with found.as_typed():
            return _unpack(found, scratch, shape_only)
    return _open(found.name, found.origin, found.place, task)


def _unpack(found: Found, scratch: Path, shape_only: bool) -> Source:
    file, folder = found.place, Path(tempfile.mkdtemp(dir=scratch))
    if found.has_projector:
        say(f"note: {found.typed}: takes more than text; its projector is left out", error=True)
    unpacked = unpack_gguf(file, folder, with_weights=not shape_only)
    if not shape_only:
        size = sum(each.stat().st_size for each in folder.glob("*.safetensors")) / 1e6
        what = f"the weights of {found.typed or file.name}"
        say(f"note: {what} are saved beside the graph in f32, {size:,.1f} MB", error=True)
        for line in unpacked.kept:
            say(f"note: {line}", error=True)
    with called(file, folder):
        return replace(
            _open(found.name, found.origin, folder, CAUSAL),
            blocks=unpacked.blocks,
            is_as_file=not unpacked.is_found_again,
        )


def _open(name: str, origin: str, folder: Path, task: str) -> Source:
    file = folder / "config.json"
    if not own_file(file).exists():
        raise Error(f"{folder}: no config.json; give the folder of a Hugging Face model")
    fields = read_json(file, "download it again")
    quantization = next(filter(None, map(fields.get, _QUANTIZATION)), None)
    method = quantization.get("quant_method", "unknown method") if isinstance(quantization, dict) else quantization
    of_mlx, of_rounded = mlx_form(fields), None
    if of_mlx is not None:
        mlx.check_forms(of_mlx, folder)
    elif isinstance(quantization, dict) and method in (rounded.FP8, rounded.BITSANDBYTES):
        rounded.check_method(quantization, folder)
        of_rounded = quantization
    elif quantization and method != mxfp4.METHOD:
        raise Error(
            f"{folder}: already quantised ({method}); export the full-precision model instead, mebpc quantises it"
        )
    codes = (*_QUANTIZATION, "quantization")
    fields = {name: value for name, value in fields.items() if name not in codes}  # export writes numbers
    config = read_config(file, fields)
    part = text_part_of(fields) if task == CAUSAL else None
    if part is not None:
        config = _text_of(config, part)
    if task == CAUSAL:
        _check_causal(fields if part is None else {"model_type": config.model_type}, config, file)
    else:
        check_encoder(fields.get("model_type", "unknown"), config, file, task)
    return Source(
        name,
        origin,
        folder,
        config,
        part,
        part is not None and not is_of_text(fields),
        of_mlx,
        of_rounded,
        is_as_file=bool(of_mlx or of_rounded),
    )


def mlx_form(fields: Mapping) -> dict | None:
    """What a config.json says of codes by MLX, which repeats it as quantization_config, without a method."""
    found = fields.get("quantization")
    return found if isinstance(found, dict) and "bits" in found else None


def _text_of(config: PreTrainedConfig, part: TextPart) -> PreTrainedConfig:
    """Of the class that takes the text alone."""
    text = config.get_text_config()
    if part.plain is not None:
        kind = CONFIG_MAPPING[part.plain]
        # Qwen3Moe's attention reads head_dim, which its configuration does not declare.
        known = kind().to_dict().keys() - {"model_type", "architectures"} | {"head_dim"}
        fields = {name: value for name, value in text.to_dict().items() if name in known}
        text = kind(**{**fields, **part.rules})  # Qwen3-VL-30B-A3B says some of the rules itself
    text.tie_word_embeddings = bool(getattr(config, "tie_word_embeddings", False))
    text.name_or_path = config.name_or_path
    return text


def _check_causal(fields: dict, config: PreTrainedConfig, file: Path) -> None:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    kind = fields.get("model_type", "unknown")
    classes = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), ())
    names = {c.__name__ for c in (classes if isinstance(classes, (tuple, list)) else (classes,))}
    stored = fields.get("architectures") or []
    if not isinstance(stored, list) or not all(isinstance(name, str) for name in stored):
        raise Error(f"{file}: architectures is not a list of names; download it again")
    if any(_same_class(name, each) for name in names for each in stored):
        stored = sorted(names)
    is_masked = not names or any(name.endswith(TASKS[FILL_MASK].head) for name in stored)
    if is_encoder(kind, is_masked) and not config.is_encoder_decoder and not names & set(stored):
        raise Error(f"{file}: model type '{kind}' is an encoder; give --task {' or '.join(ENCODING)} to train it")
    if not names or config.is_encoder_decoder:
        raise Error(f"{file}: model type '{kind}': mebp cannot train this model yet: it needs a causal language model")
    if stored and not names & set(stored):
        wanted = sorted(names)[0]
        raise Error(
            f"{file}: the weights are those of {stored[0]}, which is not a causal language model; export a {wanted}"
        )
    if not getattr(config, "is_causal", True):
        advice = "only decoder models, whose tokens see none that follow, can be trained"
        raise Error(f'{file}: "is_causal" is false; {advice}')
    if hasattr(config, "vision_config") or hasattr(config, "audio_config"):
        raise Error(f"{file}: model type '{kind}' takes more than text; export its text-only variant")


def _same_class(name: str, stored: str) -> bool:
    """Whether a config.json calls this class `stored`: earlier versions, and those who wrote a model first, spell names
    in other ways (LLaMAForCausalLM, MPTForCausalLM), or have one of their own."""
    return _plain(name) == _plain(_OLDER_CLASSES.get(stored, stored))


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _save(model: PreTrainedModel, folder: Path, shape_only: bool) -> None:
    if any(".base_layer." in name for name, _ in model.named_parameters()):
        raise Error(f"{type(model).__name__} has adapters loaded; merge or unload them before export")
    kind = type(model).__name__
    if not shape_only:
        check_space(folder, model.get_memory_footprint(), f"this {kind}")
    try:
        model.config.save_pretrained(folder)
        if not shape_only:
            # One file, so that its name is the same however large the model is.
            model.save_pretrained(folder, max_shard_size="1TB")
    except Exception as error:
        raise Error(f"{kind}: cannot be saved{explained(error)}; save it yourself, and give the folder") from error
    if not shape_only:
        size = sum(file.stat().st_size for file in folder.glob("*.safetensors")) / 1e6
        say(f"note: the weights of this {kind} are saved beside the graph, {size:.1f} MB", error=True)
