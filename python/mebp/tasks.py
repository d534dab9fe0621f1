# SPDX-License-Identifier: Apache-2.0
"""What a model is for: the values of --task (format/tasks.h)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    name: str
    does: str  # what such a model does, with `classes` for their number
    head: str  # how transformers' classes of such models end; those that find one begin with AutoModel
    pipeline: str  # what the hub calls it
    has_classes: bool = False

    @property
    def auto(self) -> str:
        """The name of transformers' class that makes such a model of any type."""
        return f"AutoModel{self.head}"


CAUSAL, CLASSIFY, TOKEN_CLASSIFY, FILL_MASK = "causal", "classify", "token-classify", "fill-mask"
_ALL = (
    Task(CAUSAL, "predicts the next token", "ForCausalLM", "text-generation"),
    Task(CLASSIFY, "tells {classes} classes apart", "ForSequenceClassification", "text-classification", True),
    Task(
        TOKEN_CLASSIFY,
        "tells {classes} classes of tokens apart",
        "ForTokenClassification",
        "token-classification",
        True,
    ),
    Task(FILL_MASK, "predicts masked tokens", "ForMaskedLM", "fill-mask"),
)
TASKS = {task.name: task for task in _ALL}
ENCODING = tuple(name for name in TASKS if name != CAUSAL)  # of encoders, whose tokens see all others


def task_of(model: object) -> str:
    """Of a model of transformers, by its class."""
    kind = type(model).__name__
    return next((task.name for task in _ALL if kind.endswith(task.head)), CAUSAL)


def does_what(session: object) -> str:
    """What the bundle of a session does, for messages."""
    return TASKS[session.task].does.format(classes=len(session.classes))
