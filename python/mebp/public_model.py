# SPDX-License-Identifier: Apache-2.0
"""The two ends of a model that everybody has: its embedding, and its last norm and head."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mebp.errors import Error
from mebp.files import own_file, read_json

_DEFAULT_EPSILON = 1e-5
_TINY = 1e-30  # instead of 0 below a line


class PublicEnds:
    """In float64. Rows are [rows, hidden]."""

    def __init__(self, bundle: Path, weights: Mapping[str, np.ndarray], description: Mapping) -> None:
        """weights: the device's, {Hugging Face name: array}."""
        self.hidden = description["model"]["hidden"]
        table = (description["model"]["vocabulary"], self.hidden)
        tables = {name: values for name, values in weights.items() if values.shape == table}
        if not tables:
            raise Error(f"{bundle}: has no embedding of {table[0]:,} words")
        embedding = next((values for name, values in tables.items() if "lm_head" not in name), None)
        head = next((values for name, values in tables.items() if "lm_head" in name), embedding)
        embedding = head if embedding is None else embedding
        config = _config(bundle)
        norm, bias = _last_norm(bundle, weights, self.hidden)
        if config.get("model_type", "").startswith("gemma"):
            norm = norm + 1
        self._embedding = _unit(embedding.astype(np.float64))
        self._is_centred = bias is not None
        self._epsilon = config.get("rms_norm_eps", config.get("layer_norm_epsilon", _DEFAULT_EPSILON))
        self._scaled_head = head.astype(np.float64) * norm
        self._shift = 0.0 if bias is None else head.astype(np.float64) @ bias
        if self._is_centred:
            self._scaled_head -= self._scaled_head.mean(axis=1, keepdims=True)

    def nearest(self, rows: np.ndarray) -> np.ndarray:
        """The word whose embedding has the nearest direction: some models scale it."""
        return (_unit(rows.astype(np.float64)) @ self._embedding.T).argmax(axis=1)

    def logits(self, rows: np.ndarray) -> np.ndarray:
        """[rows, vocabulary] of the last layer's result."""
        return self._normalised(rows) @ self._scaled_head.T + self._shift

    def labels(self, rows: np.ndarray, cotangents: np.ndarray) -> np.ndarray:
        """The label whose gradient has the nearest direction to each of `cotangents`, which are those of `rows`."""
        unit = self._normalised(rows)
        logits = self.logits(rows)
        likelihoods = np.exp(logits - logits.max(axis=1, keepdims=True))
        # The gradient of label y is that of the mean word less its own, through the norm: base - P a_y, where a_y is
        # y's row of the head and P takes out what changes only the length. The factor of a row does not matter.
        mean = likelihoods @ self._scaled_head / likelihoods.sum(axis=1, keepdims=True)
        base = self._without_length(mean, unit)
        seen = cotangents.astype(np.float64)
        along = unit @ self._scaled_head.T
        length = (unit**2).mean(axis=1, keepdims=True)
        squares = (self._scaled_head**2).sum(axis=1) - along**2 * (2 - length) / self.hidden
        between = self._without_length(base, unit) @ self._scaled_head.T
        distances = (base**2).sum(axis=1, keepdims=True) - 2 * between + squares
        agreement = (seen * base).sum(axis=1, keepdims=True) - self._without_length(seen, unit) @ self._scaled_head.T
        return (agreement / np.sqrt(np.maximum(distances, _TINY))).argmax(axis=1)

    def _normalised(self, rows: np.ndarray) -> np.ndarray:
        rows = rows.astype(np.float64)
        if self._is_centred:
            rows = rows - rows.mean(axis=1, keepdims=True)
        return rows / np.sqrt((rows**2).mean(axis=1, keepdims=True) + self._epsilon)

    def _without_length(self, values: np.ndarray, unit: np.ndarray) -> np.ndarray:
        return values - unit * (unit * values).sum(axis=1, keepdims=True) / self.hidden


def _last_norm(bundle: Path, weights: Mapping[str, np.ndarray], hidden: int) -> tuple[np.ndarray, np.ndarray | None]:
    """The scale of the norm before the head; and its bias, where it takes out the mean."""
    for name in ("model.norm", "transformer.ln_f"):
        if f"{name}.weight" in weights:
            scale, bias = weights[f"{name}.weight"].reshape(hidden), weights.get(f"{name}.bias")
            return scale.astype(np.float64), None if bias is None else bias.reshape(hidden).astype(np.float64)
    raise Error(f"{bundle}: mebp audit knows no last norm of this model")


def _config(bundle: Path) -> dict:
    path = bundle / "tokenizer" / "config.json"
    return read_json(own_file(path), "compile the bundle again") if path.is_file() else {}


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), _TINY)
