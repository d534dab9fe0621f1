# SPDX-License-Identifier: Apache-2.0
"""A completion behind its prompt, as one sequence: what all objectives of completions run."""

from dataclasses import dataclass

import numpy as np


@dataclass
class Continuation:
    """Arrays of int32 [its tokens]."""

    prompt: np.ndarray
    completion: np.ndarray

    @property
    def length(self) -> int:
        """Of the completion."""
        return len(self.completion)

    @property
    def ids(self) -> np.ndarray:
        """int32 [1, tokens of both]."""
        return np.concatenate([self.prompt, self.completion])[None]

    @property
    def scored(self) -> np.ndarray:
        """bool, likewise: the completion."""
        return (np.arange(self.ids.size) >= len(self.prompt))[None]

    def of(self, values: np.ndarray) -> np.ndarray:
        """The completion's [length] of [1, tokens of both - 1]."""
        return values[0, -self.length :]

    def spread(self, values: np.ndarray) -> np.ndarray:
        """[1, tokens of both - 1] of the completion's first ones; zeros elsewhere."""
        whole = np.zeros((1, self.ids.size - 1))
        first = len(self.prompt) - 1
        whole[0, first : first + len(values)] = values
        return whole
