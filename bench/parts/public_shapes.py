# SPDX-License-Identifier: Apache-2.0
"""The fields of config.json of models that people have, in public_shapes.json beside this.

Each has the public repository, the path in it and the commit where it was read, "owner/name path (commit)": what is
there is as published, without fields that change neither what is computed nor its shape (types, dropout, ids of tokens,
how weights begin or are quantised). What is not said is transformers' default. A shape without a source is as old as
this table, and nobody has found where it was read.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import CONFIG_MAPPING, PreTrainedConfig


@dataclass(frozen=True)
class PublicShape:
    name: str
    source: str
    fields: Mapping[str, object]

    @property
    def model_type(self) -> str:
        return str(self.fields["model_type"])


PUBLIC_SHAPES: Sequence[PublicShape] = [
    PublicShape(**each) for each in json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
]
SHAPES = {each.name: dict(each.fields) for each in PUBLIC_SHAPES}


def published(model_type: str) -> list[PublicShape]:
    """Those of a type whose source is known."""
    return [each for each in PUBLIC_SHAPES if each.source and each.model_type == model_type]


def configuration(fields: Mapping[str, object]) -> PreTrainedConfig:
    """transformers' own of such fields."""
    config = CONFIG_MAPPING[str(fields["model_type"])].from_dict(json.loads(json.dumps(fields)))
    for part in {id(each): each for each in (config, config.get_text_config())}.values():
        part.use_cache = False
    return config
