# SPDX-License-Identifier: Apache-2.0
"""A config.json as transformers reads it, and which of its keys is to blame where it does not."""

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import transformers
from huggingface_hub.errors import StrictDataclassFieldValidationError
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig

from mebp.errors import Error, sentence
from mebp.exporter.foreign_code import name_left_out, without_code
from mebp.exporter.later import later_advice
from mebp.exporter.offline import offline
from mebp.words import listed

_FIELD = re.compile(r"field '([^']+)'")
_TYPES = re.compile(r"expected (?:a )?(\w+), got|<class '(\w+)'>|\b(list)\[")
_WORDS = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false", "list": "a list",
          "dict": "an object", "NoneType": "null"}  # fmt: skip
# What transformers calls a key by now.
_OLDER = {"rope_parameters": ("rope_scaling",), "dtype": ("torch_dtype",)}
_MOST_TRIED, _MOST_SHOWN = 100, 3
_LONGEST = 80


def read_config(file: Path, fields: dict) -> PreTrainedConfig:
    """As transformers reads these fields of `file`, from a folder that has nothing else."""
    try:
        fields, left_out = without_code(fields)
    except RecursionError as error:
        raise Error(f"{file}: is nested too deeply; download it again") from error
    kind = fields.get("model_type")
    if not isinstance(kind, str):
        given = f"is {_shown(kind)}" if "model_type" in fields else "is missing"
        raise Error(f'{file}: "model_type" {given}; set it to the model\'s type, such as "llama"')
    if kind not in CONFIG_MAPPING:
        advice = _advice(kind)
        raise Error(f"{file}: transformers {transformers.__version__} has no model type '{kind}'; {advice}")
    try:
        config = _read(fields)
    except StrictDataclassFieldValidationError as error:
        raise Error(f"{file}: {_strict(error, kind, fields)}; correct it") from error
    except Exception as error:
        raise Error(f"{file}: transformers cannot read it{why(error, fields, _read)}") from error
    config.name_or_path = str(file.parent)
    name_left_out(file, left_out)
    return config


def why(error: Exception, fields: Mapping[str, object], attempt: Callable[[dict], object]) -> str:
    """The end of a message: the keys without any of which `attempt` works, and what the library says on purpose."""
    keys, said = _blamed(fields, attempt), sentence(error)
    shown = [f'"{key}" ({_shown(fields[key])})' for key in keys[:_MOST_SHOWN]]
    because = f" because of {listed(shown)}" if shown else ""
    advice = "correct it" if keys else _advice(str(fields.get("model_type")))
    return f"{because}: {said}; {advice}" if said else f"{because}; {advice}"


def _advice(kind: str) -> str:
    return later_advice(kind, "transformers") or "update transformers, or export another model"


def _read(fields: dict) -> PreTrainedConfig:
    with tempfile.TemporaryDirectory(prefix="mebp-config-") as alone, offline():
        (Path(alone) / "config.json").write_text(json.dumps(fields), encoding="utf-8")
        return AutoConfig.from_pretrained(alone, trust_remote_code=False)


def _strict(error: Exception, kind: str, fields: dict) -> str:
    """What a field is, by the key that the file has it under, and what transformers would take."""
    found = _FIELD.search(str(error))
    field = found[1] if found else "a field"
    older = {new: old for old, new in CONFIG_MAPPING[kind].attribute_map.items()}
    names = (field, older.get(field, field), *_OLDER.get(field, ()))
    key = next((name for name in names if name in fields), None)
    given = f'"{key}" is {_shown(fields[key])}' if key else f'"{field}" has a wrong type'
    known = dict.fromkeys(_WORDS[name] for groups in _TYPES.findall(str(error)) for name in groups if name in _WORDS)
    return f"{given}, but transformers takes {listed(known)} there" if known else f"{given}, which transformers refuses"


def _blamed(fields: Mapping[str, object], attempt: Callable[[dict], object]) -> list[str]:
    if len(fields) > _MOST_TRIED:
        return []
    return [key for key in fields if key != "model_type" and _works(attempt, fields, key)]


def _works(attempt: Callable[[dict], object], fields: Mapping[str, object], key: str) -> bool:
    """Without the key, or with the least size in its place: others may not fit the usual one."""
    others = {name: value for name, value in fields.items() if name != key}
    for tried in (others, {**others, key: 1}) if isinstance(fields[key], int) else (others,):
        try:
            attempt(tried)
        except Exception:
            continue
        return True
    return False


def _shown(value: object) -> str:
    """As JSON has it, in short."""
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
