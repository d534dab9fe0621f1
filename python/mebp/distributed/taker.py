# SPDX-License-Identifier: Apache-2.0
"""What a session hands its gradients to."""

from abc import ABC, abstractmethod

import numpy as np


class GradientTaker(ABC):
    """Called within a step, on its thread; neither method may raise."""

    @abstractmethod
    def take(self, index: int, gradient: np.ndarray) -> None:
        """Gets a trainable's own memory, which is the session's again once it is given back."""

    @abstractmethod
    def is_complete(self) -> bool:
        """Whether all that was given back is what is to be applied."""
