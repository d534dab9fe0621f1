# SPDX-License-Identifier: Apache-2.0
"""Completions for TRL's GRPOTrainer, written by a bundle (TRL 1.13).

trainer = GRPOTrainer(model, ..., rollout_func=mebp.trl.rollout(session))
"""

import itertools
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from mebp.data.prompts import Prompt
from mebp.errors import Error
from mebp.numbers import checked
from mebp.rollouts import RolloutOptions, Writer
from mebp.session import Session
from mebp.tokenizer import Tokenizer

RolloutFunction = Callable[[list, object], dict[str, list]]
# Of a rollout's number, which keys its draws: the calls of a step below, an evaluation above.
_CALLS, _EVALUATION = 2**16, 2**48
# What TRL would pass to its own generation, and what is the same as not asking for it.
_NOT_WRITTEN_WITH: Mapping[str, object] = {
    "repetition_penalty": 1.0,
    "generation_kwargs": None,
    "cache_implementation": None,
}


@checked
def rollout(session: Session, own_adapter: bool = False) -> RolloutFunction:
    """A `rollout_func`: `session` writes the completions, with the trainer's adapter as it is at that moment.

    Temperature, top_p, top_k, min_p, seed and the limit of a completion are the trainer's. A text depends on the seed,
    the step, its prompt's place and its number among the prompt's completions alone. The session may be forward_only.
    own_adapter: write with the session's own adapter, for a loop that trains the session (mebp.torch.logprobs).

    What is returned raises mebp.Error where the trainer's model has no adapter of the bundle's rank, alpha and targets,
    a prompt leaves no room for a completion, or the trainer asks for what the session does not do.
    """
    return _Rollout(session, own_adapter)


class _Rollout:
    def __init__(self, session: Session, own_adapter: bool) -> None:
        self._session, self._own_adapter = session, own_adapter
        self._tokenizer = Tokenizer(session.path)
        self._step, self._calls = -1, 0

    def __call__(self, prompts: list, trainer: object) -> dict[str, list]:
        """One completion of each prompt; those of one prompt stand side by side."""
        _check_asked(trainer.args)
        if not self._own_adapter:
            self._load_adapter(trainer)
        ids, number = _prompt_ids(prompts, trainer), self._number(trainer)
        written = []
        for key, members in itertools.groupby(range(len(ids)), key=lambda index: tuple(ids[index])):
            first, *others = members
            prompt = Prompt(f"prompt {first + 1} of the batch", prompts[first], np.array(key, dtype=np.int32), {})
            writer = Writer(self._session, self._tokenizer, _options(trainer.args, 1 + len(others)))
            written += writer.write(prompt, trainer.args.seed, number, first).completions
        return {
            "prompt_ids": ids,
            "completion_ids": [each.ids.tolist() for each in written],
            "logprobs": [each.logps.tolist() for each in written],
        }

    def _number(self, trainer: object) -> int:
        """Which rollout this is; a resumed run counts as the first one did."""
        step = trainer.state.global_step
        self._calls = self._calls + 1 if step == self._step else 0
        self._step = step
        return step * _CALLS + self._calls + (0 if trainer.model.training else _EVALUATION)

    def _load_adapter(self, trainer: object) -> None:
        model = trainer.accelerator.unwrap_model(trainer.model)
        if not hasattr(model, "get_base_model"):  # which a PeftModel has
            raise Error(
                f"the trainer's model is a {type(model).__name__} without an adapter, and mebp writes with one; give "
                "GRPOTrainer a peft_config, or rollout own_adapter=True where the session is what is trained"
            )
        with tempfile.TemporaryDirectory(prefix="mebp-") as folder:
            # "auto" would look for the model at the hub
            model.save_pretrained(folder, selected_adapters=["default"], save_embedding_layers=False)
            self._session.load_adapter(Path(folder))


def _check_asked(args: object) -> None:
    for name, unset in _NOT_WRITTEN_WITH.items():
        if getattr(args, name, unset) not in (unset, {}):
            raise Error(f"GRPOConfig's {name} is {getattr(args, name)!r:.60}, and mebp writes without it; leave it out")


def _options(args: object, group: int) -> RolloutOptions:
    return RolloutOptions(
        group=group,
        temperature=args.temperature,
        max_completion=args.max_completion_length,
        top_k=args.top_k or None,  # 0: all
        top_p=args.top_p,
        min_p=args.min_p,
    )


def _prompt_ids(prompts: list, trainer: object) -> list[list[int]]:
    """As the trainer makes them for its own generation."""
    processing = trainer.processing_class
    if isinstance(prompts[0], str):
        return processing(text=prompts)["input_ids"]
    return processing.apply_chat_template(
        prompts,
        tools=trainer.tools or None,
        chat_template=trainer.chat_template,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        **trainer.chat_template_kwargs,
    )["input_ids"]
