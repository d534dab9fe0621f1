# SPDX-License-Identifier: Apache-2.0
"""What a session hands its gradients to, and what it asks for instead of them where less is sent."""

from abc import ABC, abstractmethod

import numpy as np


class GradientTaker(ABC):
    """Called within a step, on its thread; no method may raise."""

    part = 0, 1  # which of how many parts of what is updated the session has

    @abstractmethod
    def take(self, index: int, gradient: np.ndarray) -> None:
        """Gets a trainable's own memory, which is the session's again once it is given back."""

    @abstractmethod
    def norm(self, squares: np.ndarray, total: float) -> float | None:
        """When all have been given back: the square of the gradient's norm, or None where they are not what is to be
        applied. `squares`, of tiles of what this session owns, add up to `total`."""

    @abstractmethod
    def sum_loss(self, loss: float) -> float | None:
        """With MeZO, instead of gradients: the sum over processes; None where there is none, which ends the step."""

    @abstractmethod
    def sum_products(self, sums: np.ndarray) -> bool:
        """With GaLore, before gradients: float32 [n] of the session's memory becomes the sum over processes, in place.
        False ends the step."""


class BlockWeights(ABC):
    """Hands a session the weights of each block. Called within a call of it, on its thread; no method may raise."""

    ahead = 1  # blocks that are asked for before they run

    @abstractmethod
    def ask(self, block: int, following: int) -> int:
        """Before it and then the block `following` run: where in memory they will lie, or 0 where the bundle's own file
        is to be read."""

    @abstractmethod
    def ready(self, block: int) -> bool:
        """Returns when they do; False ends the call."""

    @abstractmethod
    def free(self, block: int) -> None:
        """They are not read any more."""
