# SPDX-License-Identifier: Apache-2.0
"""Tiny random encoders with a head, of three classes where it has some, and a tokenizer of words for them."""

import copy
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerFast

import mebp
from mebp.inspect import inspect
from mebp.tasks import TASKS, task_of
from mebp.verification.comparison import Comparison, Errors, Gradients
from mebp.verification.reference import KeepFloat64, Reference

_SIZES = {
    "hidden_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 200,
    "vocab_size": 333,
    "max_position_embeddings": 66,
    "pad_token_id": 1,
}
FAMILIES: dict[str, dict] = {
    "bert": _SIZES,
    "roberta": _SIZES,
    "electra": {**_SIZES, "embedding_size": 96},
    "distilbert": {"dim": 96, "n_layers": 3, "n_heads": 4, "hidden_dim": 200, "vocab_size": 333,
                   "max_position_embeddings": 66},
    # Every third layer sees all, the others 8 tokens at either side.
    "modernbert": {**_SIZES, "num_hidden_layers": 4, "local_attention": 16, "bos_token_id": 2, "eos_token_id": 3,
                   "cls_token_id": 2, "sep_token_id": 3},
}  # fmt: skip
_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def build(family: str, classes: int = 3, task: str = "classify", **fields: object) -> PreTrainedModel:
    """With weights that attention and the head see: transformers' own are so small that all samples look alike."""
    config = AutoConfig.for_model(family, **{**FAMILIES[family], **fields}, num_labels=classes)
    torch.manual_seed(3)
    model = getattr(transformers, TASKS[task].auto).from_config(config, dtype=torch.float32, trust_remote_code=False)
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.1)
        else:
            torch.nn.init.normal_(parameter, mean=float("orm.weight" in name), std=0.1)
    return model.eval()


def save_with_tokenizer(model: PreTrainedModel, texts: Iterable[str], folder: Path) -> Path:
    """A Hugging Face folder whose tokenizer has a word for each of these texts'."""
    words = sorted({word for text in texts for word in text.replace(",", " , ").split()})
    tokenizer = Tokenizer(WordLevel({word: index for index, word in enumerate([*_SPECIAL, *words])}, "[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    ends = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ends)
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="[MASK]", **names)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def batch_of(
    lengths: list[int], sequence: int, classes: int = 3, task: str = "classify"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids, labels and starts of samples of these lengths, padded to `sequence`. Of tokens every third has a label."""
    generator = np.random.default_rng(5)
    ids = generator.integers(4, 333, (len(lengths), sequence))
    labels = np.full_like(ids, -100)
    positions = np.arange(sequence)
    starts = np.where(positions < np.array(lengths)[:, None], 0, np.array(lengths)[:, None])
    if task == "classify":
        labels[:, 0] = generator.integers(0, classes, len(lengths))
    else:
        own = generator.integers(0, classes if TASKS[task].has_classes else 333, ids.shape)
        labels = np.where((positions % 3 == 0) & (starts == 0), own, labels)
    return ids, labels, starts


def compare(bundle: Path, session: mebp.Session, model: PreTrainedModel, batch: tuple) -> Comparison:
    """A padded batch's gradients against those of transformers with an attention mask, in float64 and in float32."""
    ids, labels, starts = batch
    mask, alpha = torch.from_numpy((starts == 0).astype(np.int64)), inspect(bundle)["model"]["lora"]["alpha"]

    def loss(reference: Reference) -> torch.Tensor:
        with KeepFloat64():
            logits = reference.model(input_ids=torch.from_numpy(ids), attention_mask=mask).logits
        own = torch.from_numpy(labels[:, 0] if task_of(model) == "classify" else labels.reshape(-1))
        return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]).double(), own)

    def gradients(dtype: torch.dtype) -> Gradients:
        made = Reference(copy.deepcopy(model), session.base_weights(), session.trainables(), alpha, dtype)
        return Gradients(*made.gradients_of(loss))

    exact = gradients(torch.float64)
    found = Gradients(*session.loss_and_gradients(ids, labels, starts))
    return Comparison(Errors.of(found, exact), Errors.of(gradients(torch.float32), exact), "f32")
