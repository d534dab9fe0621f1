# SPDX-License-Identifier: Apache-2.0
"""Tokens that a model's tokenizer does not have yet, which a run is to train (PEFT's trainable_token_indices): they
come behind its last one, and each has a row of the embedding and of the head.

A row begins as the mean of the rows of all tokens before it, as transformers begins a vocabulary that it makes larger,
but draws nothing beside it. Where the tables have rows left, these are taken.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import PreTrainedModel

from mebp.element_types import ELEMENT_TYPES
from mebp.errors import Error
from mebp.exporter.blocks import with_blocks
from mebp.exporter.checkpoint import StoredTensor, read_header
from mebp.exporter.source import Source
from mebp.exporter.weights import locate
from mebp.files import read_json
from mebp.tensor_file import read_stored, write_bytes, write_tensors
from mebp.tensor_names import spellings
from mebp.tokenizer import Tokenizer

_FILE, _BLOCKS = "new_tokens.safetensors", "new_tokens.blocks.safetensors"
_AGAIN = "download it again"
_FIELDS = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")
_ROWS = 4096  # of a table that are in memory at once


@dataclass(frozen=True)
class NewTokens:
    texts: tuple[str, ...]
    first: int  # the id of the first; the others follow it
    rows: int  # of the model's own tables

    @classmethod
    def of(cls, texts: Sequence[str], source: Source) -> "NewTokens":
        """Raises mebp.Error where the tokenizer has one already, or the model's tables cannot hold them."""
        tokenizer = Tokenizer.of_model(source.folder, texts)
        ids = [tokenizer.id_of(text) for text in texts]
        rows = source.config.vocab_size
        if ids[0] > rows or ids != list(range(ids[0], ids[0] + len(ids))):
            raise Error(
                f"{source.folder}: gives new tokens the ids {', '.join(map(str, ids))}, and the model has {rows} rows; "
                "save the tokenizer that the model was trained with"
            )
        return cls(tuple(texts), ids[0], rows)

    @property
    def end(self) -> int:
        return self.first + len(self.texts)

    @property
    def size(self) -> int:
        """Of the vocabulary with them."""
        return max(self.rows, self.end)

    @property
    def notes(self) -> dict[str, str]:
        """What the compiler reads beside the graph."""
        return {"mebp.first_new_token": str(self.first), "mebp.new_tokens": str(len(self.texts))}

    def pieces(
        self,
        skeleton: PreTrainedModel,
        parameters: Mapping[str, tuple[int, ...]],
        names: Mapping[str, list[str]],
        checkpoint: Mapping[str, StoredTensor],
        source: Source,
        scratch: Path,
    ) -> dict[str, dict[str, StoredTensor]]:
        """Of each table that has them its parts: the rows before them, their own, which are new, and those behind."""
        shapes = {name: (self.rows, *parameters[name][1:]) for name in token_tables(skeleton) if name in parameters}
        prefix = skeleton.base_model_prefix
        tables = locate(shapes, names, prefix, checkpoint, source.folder)
        for other in parameters.keys() - tables.keys():
            grown = parameters[other][0] == self.size > self.rows
            if grown and any(checkpoint[s].shape[0] == self.rows for s in spellings(other, prefix) if s in checkpoint):
                raise Error(
                    f"{source.name}: '{other}' has a number for each token, too, and --train-tokens adds rows to the "
                    "embedding and the head alone; leave it out"
                )
        values, types = {}, {}
        for name, table in tables.items():
            values[f"{name}.new"] = np.tile(_mean_row(name, table, self.first), (len(self.texts), 1))
            types[f"{name}.new"] = next(kind for kind, each in ELEMENT_TYPES.items() if each.safetensors == table.dtype)
        write_tensors(scratch / _FILE, {name: each.shape for name, each in values.items()}, values.values(), types)
        fresh = self._with_blocks(read_header(scratch / _FILE), tables, scratch)
        return {
            name: {
                f"{name}.before": table.part(0, self.first),
                f"{name}.new": fresh[f"{name}.new"],
                **({f"{name}.behind": table.part(self.end, self.rows)} if self.end < self.rows else {}),
            }
            for name, table in tables.items()
        }

    def _with_blocks(
        self, fresh: dict[str, StoredTensor], tables: Mapping[str, StoredTensor], scratch: Path
    ) -> dict[str, StoredTensor]:
        """The new rows, with blocks where a table has some: all zeros, as a bundle stores rows that are trained."""
        blocks = {f"{name}.new": table.blocks for name, table in tables.items() if table.blocks}
        sizes = {name: each.length // self.rows * len(self.texts) for name, each in blocks.items()}
        write_bytes(scratch / _BLOCKS, sizes, (np.zeros(size, np.uint8) for size in sizes.values()))
        return with_blocks(fresh, {name: each.dtype for name, each in blocks.items()}, scratch / _BLOCKS)

    def write(self, folder: Path) -> None:
        """Adds them to the tokenizer in `folder`, and their rows to its config.json. They are no special tokens: a text
        that is decoded shows them."""
        # All that there are, for ids follow from their order, and settings may have some that tokenizer.json lacks.
        added = Tokenizer.of_model(folder, self.texts).backend.get_added_tokens_decoder()
        entries = {index: {name: getattr(token, name) for name in _FIELDS} for index, token in sorted(added.items())}
        path = folder / "tokenizer.json"
        _write(path, read_json(path, _AGAIN) | {"added_tokens": [{"id": id, **each} for id, each in entries.items()]})
        path = folder / "tokenizer_config.json"
        if path.is_file() and (settings := read_json(path, _AGAIN)).get("added_tokens_decoder"):
            settings["added_tokens_decoder"] |= {str(id): entries[id] for id in range(self.first, self.end)}
            _write(path, settings)
        path = folder / "config.json"
        _write(path, read_json(path, _AGAIN) | {"vocab_size": self.size})


def token_tables(skeleton: PreTrainedModel) -> list[str]:
    """The weights of the embedding and of the head, under all names."""
    modules = filter(None, (skeleton.get_input_embeddings(), skeleton.get_output_embeddings()))
    weights = {id(module.weight) for module in modules}
    return [name for name, each in skeleton.named_parameters(remove_duplicate=False) if id(each) in weights]


def _write(path: Path, content: Mapping) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _mean_row(name: str, table: StoredTensor, rows: int) -> np.ndarray:
    total = np.zeros(table.shape[1])
    for begin in range(0, rows, _ROWS):
        part = read_stored(name, table.part(begin, min(begin + _ROWS, rows)), _AGAIN)
        total += part.sum(axis=0, dtype=np.float64)
    return (total / rows).astype(np.float32)
