# SPDX-License-Identifier: Apache-2.0
"""A classifier as a graph of each token: the head, which transformers gives a sample's first token, is given all."""

import inspect
import re
from collections.abc import Sequence

import torch
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling

from mebp.errors import Error

# Those whose head reads the first token of the last hidden states and nothing else.
MODEL_TYPES = ("bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta")
# What PEFT saves whole of a model for SEQ_CLS, and adapts in no other way.
_TRAINED_WHOLE = re.compile(r"(^|\.)(classifier|score)\.")


def check_encoder(kind: str, config: PreTrainedConfig, place: object) -> None:
    """Raises Error where `config`, read at `place`, is of no encoder that can be trained to classify."""
    known = f"--task classify trains encoders of text ({', '.join(MODEL_TYPES)})"
    if config.is_encoder_decoder:
        raise Error(f"{place}: model type '{kind}' has an encoder and a decoder; {known}")
    if hasattr(config, "image_size") or hasattr(config, "num_channels") or hasattr(config, "vision_config"):
        raise Error(f"{place}: model type '{kind}' takes images; {known}")
    if kind not in MODEL_TYPES:
        raise Error(f"{place}: model type '{kind}' is none of those that mebp trains to classify: {known}")
    if getattr(config, "is_decoder", False):
        raise Error(f'{place}: "is_decoder" is true, so its tokens do not see the later ones; {known}')
    problem = getattr(config, "problem_type", None)
    if problem not in (None, "single_label_classification"):
        raise Error(f"{place}: its problem_type is {problem}; a sample has one class of several here")


def named_classes(config: PreTrainedConfig) -> list[str]:
    """In the order of the logits."""
    return [str(config.id2label[index]) for index in range(config.num_labels)]


def class_names(config: PreTrainedConfig) -> list[str]:
    """As named_classes; raises Error where there are fewer than two, or two of one name."""
    names = named_classes(config)
    if len(names) < 2:
        raise Error(f"{config.model_type}: {len(names)} class; give at least two, with --classes")
    if len(set(names)) < len(names):
        raise Error(f"{config.model_type}: two of its classes have one name; name them with --classes")
    return names


def name_classes(config: PreTrainedConfig, names: Sequence[str]) -> None:
    """Gives `config` these classes, in this order."""
    config.id2label = dict(enumerate(names))
    config.label2id = {name: index for index, name in enumerate(names)}


def is_of_head(name: str) -> bool:
    """Whether a tensor of that name is of what tells classes apart."""
    return _TRAINED_WHOLE.search(name) is not None


def trained_whole(model: PreTrainedModel) -> list[str]:
    """The parameters that are trained themselves, beside adapters."""
    return [name for name, _ in model.named_parameters() if is_of_head(name)]


def classify_tokens(model: PreTrainedModel) -> None:
    """Makes `model` give logits [batch, sequence, classes]: of each token those of a sample that would begin there."""
    base = model.base_model
    encode, classify = base.forward, model.forward
    takes = inspect.signature(encode).parameters

    def encode_rows(input_ids: torch.Tensor, **_: object) -> BaseModelOutputWithPooling:
        constants = {"position_ids": _positions(base, input_ids), "token_type_ids": torch.zeros(input_ids.shape).long()}
        hidden = encode(input_ids=input_ids, **{name: each for name, each in constants.items() if name in takes})[0]
        rows = hidden.reshape(-1, 1, hidden.shape[-1])
        pooler = getattr(base, "pooler", None)
        return BaseModelOutputWithPooling(last_hidden_state=rows, pooler_output=pooler(rows) if pooler else None)

    def classify_rows(input_ids: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = classify(input_ids=input_ids).logits
        return {"logits": logits.reshape(*input_ids.shape, -1)}

    base.forward, model.forward = encode_rows, classify_rows


def first_position(model: PreTrainedModel) -> int:
    """The row of its table of positions that a sample's first token has."""
    embeddings = getattr(model.base_model, "embeddings", None)
    counts_padding = hasattr(embeddings, "create_position_ids_from_input_ids")
    return embeddings.padding_idx + 1 if counts_padding else 0


def _positions(base: PreTrainedModel, input_ids: torch.Tensor) -> torch.Tensor:
    first = first_position(base)
    return torch.arange(first, first + input_ids.shape[1])[None]
