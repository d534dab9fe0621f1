# SPDX-License-Identifier: Apache-2.0
"""The classes of a classifier, and its head. transformers gives the head of samples their first token, or the mean of
all: here it is given each token, or each one's mean, so that a sample may stand anywhere in a row."""

import re
from collections.abc import Callable, Sequence

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from mebp.errors import Error

# Those whose head reads the first token of the last hidden states, or their mean, and nothing else.
MODEL_TYPES = ("bert", "camembert", "distilbert", "electra", "modernbert", "roberta", "xlm-roberta")
# What PEFT saves whole of a model for SEQ_CLS and TOKEN_CLS, and adapts in no other way.
_TRAINED_WHOLE = re.compile(r"(^|\.)(classifier|score)\.")


def check_problem(config: PreTrainedConfig, place: object) -> None:
    """Raises Error where `config` does not ask for one class of several."""
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
        raise Error(f"{config.model_type}: {len(names)} class; give at least two, with mebp export --classes")
    if len(set(names)) < len(names):
        raise Error(f"{config.model_type}: two of its classes have one name; name them with mebp export --classes")
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


def reader_of(model: PreTrainedModel) -> Callable[[torch.Tensor], torch.Tensor]:
    """What makes a sample of each token for the head: [batch, sequence, features] -> [batch * sequence, 1, features].
    Where the head would read a mean, `model` is made to read what is one already."""
    is_mean = getattr(model.config, "classifier_pooling", None) == "mean"
    if is_mean:
        model.config.classifier_pooling = "cls"
    return _means if is_mean else _rows


def _rows(hidden: torch.Tensor) -> torch.Tensor:
    return hidden.reshape(-1, 1, hidden.shape[-1])


def _means(hidden: torch.Tensor) -> torch.Tensor:
    """By attention whose scores are all 0: that knows where a sample begins and ends in its row."""
    heads = hidden[:, None]
    return _rows(torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, scale=0.0)[:, 0])
