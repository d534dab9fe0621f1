# SPDX-License-Identifier: Apache-2.0
"""An encoder as a graph of tokens: positions count from the first of a sample, and all tokens are of one type."""

import inspect
from collections.abc import Callable

import torch
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.models.auto import modeling_auto

from mebp.errors import Error
from mebp.exporter.classifier import MODEL_TYPES, check_problem
from mebp.tasks import CLASSIFY, FILL_MASK, TASKS, TOKEN_CLASSIFY

# What a task is learned by, for messages.
_WHAT = {CLASSIFY: "to classify", TOKEN_CLASSIFY: "to classify tokens", FILL_MASK: "to fill masks"}
_MAPPINGS = {
    TOKEN_CLASSIFY: modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    FILL_MASK: modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
}


def model_types(task: str) -> tuple[str, ...]:
    """Those that are taken. Of the head that tells samples apart it matters which token it reads; heads of each token
    are all alike. A type that fills no masks is no encoder, even where transformers tells its tokens apart."""
    masked = _MAPPINGS[FILL_MASK]
    return MODEL_TYPES if task == CLASSIFY else tuple(name for name in _MAPPINGS[task] if name in masked)


def is_encoder(kind: str, is_masked: bool) -> bool:
    """Whether models of this type are; of some only those that fill masks (`is_masked`)."""
    return kind in MODEL_TYPES or (is_masked and kind in _MAPPINGS[FILL_MASK])


def check_encoder(kind: str, config: PreTrainedConfig, place: object, task: str) -> None:
    """Raises Error where `config`, read at `place`, is of no encoder that can be trained for `task`."""
    named = f" ({', '.join(MODEL_TYPES)}{'' if task == CLASSIFY else ', ...'})"
    known = f"--task {task} trains encoders of text{named}"
    if config.is_encoder_decoder:
        raise Error(f"{place}: model type '{kind}' has an encoder and a decoder; {known}")
    if hasattr(config, "image_size") or hasattr(config, "num_channels") or hasattr(config, "vision_config"):
        raise Error(f"{place}: model type '{kind}' takes images; {known}")
    if kind not in model_types(task):
        raise Error(f"{place}: model type '{kind}' is none of those that mebp trains {_WHAT[task]}: {known}")
    if getattr(config, "is_decoder", False):
        raise Error(f'{place}: "is_decoder" is true, so its tokens do not see the later ones; {known}')
    if TASKS[task].has_classes:
        check_problem(config, place)


def encode_tokens(model: PreTrainedModel, take: Callable[[torch.Tensor], torch.Tensor] = lambda hidden: hidden) -> None:
    """Makes `model` take input_ids alone; its head is given what `take` makes of the last hidden states."""
    base = model.base_model
    encode, predict = base.forward, model.forward
    takes = inspect.signature(encode).parameters

    def encode_all(input_ids: torch.Tensor, *_: object, **__: object) -> BaseModelOutputWithPooling:
        constants = {"position_ids": _positions(base, input_ids), "token_type_ids": torch.zeros(input_ids.shape).long()}
        hidden = take(
            encode(input_ids=input_ids, **{name: each for name, each in constants.items() if name in takes})[0]
        )
        pooler = getattr(base, "pooler", None)
        return BaseModelOutputWithPooling(last_hidden_state=hidden, pooler_output=pooler(hidden) if pooler else None)

    def predict_all(input_ids: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = predict(input_ids=input_ids).logits
        return {"logits": logits.reshape(*input_ids.shape, -1)}

    base.forward, model.forward = encode_all, predict_all


def first_position(model: PreTrainedModel) -> int:
    """The row of its table of positions that a sample's first token has: those that count behind the padding's leave
    that one's row, and what is before it, out."""
    embeddings = getattr(model.base_model, "embeddings", None)
    padding = getattr(getattr(embeddings, "position_embeddings", None), "padding_idx", None)
    return 0 if padding is None else padding + 1


def _positions(base: PreTrainedModel, input_ids: torch.Tensor) -> torch.Tensor:
    first = first_position(base)
    return torch.arange(first, first + input_ids.shape[1])[None]
