# SPDX-License-Identifier: Apache-2.0
"""The options that objectives other than sft have of their own, by TRL's names: the one table of them."""

from collections.abc import Collection, Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import get_args, get_origin, get_type_hints

from mebp.compile_options import flag
from mebp.errors import Error
from mebp.objective_traits import objectives
from mebp.objectives.advantages import AdvantageOptions
from mebp.objectives.groups import GRPOOptions
from mebp.objectives.orpo import ORPOOptions
from mebp.objectives.pairs import DPOOptions
from mebp.objectives.ppo import PPOOptions
from mebp.rollouts import EpisodeOptions, RolloutOptions
from mebp.training.foreign_names import SAME
from mebp.words import listed

# What each objective's options are made into.
PARTS: Mapping[str, tuple[type, ...]] = {
    "dpo": (DPOOptions,),
    "grpo": (GRPOOptions, AdvantageOptions, RolloutOptions),
    "ppo": (PPOOptions, EpisodeOptions),
    "orpo": (ORPOOptions,),
}

# What the command line calls the value, and what it is.
_HELPS = {
    "loss_type": ("NAME", "loss, by TRL's name, or several with commas; the pages preferences and rewards list them"),
    "loss_weights": ("X,...", "weights of several losses (default: 1 each)"),
    "beta": ("X", "how much the reference counts, or of orpo the ratio of the odds"),
    "label_smoothing": ("X", "share of pairs that are taken for wrongly labelled"),
    "f_divergence_type": ("NAME", "divergence from the reference"),
    "f_alpha_divergence_coef": ("X", "alpha of the alpha divergence"),
    "ld_alpha": ("X", "weight of tokens beyond the shorter completion's length (default: 1)"),
    "discopop_tau": ("X", "temperature of DiscoPOP"),
    "use_bias_correction_kl": ("", "multiply the divergence by the ratio"),
    "epsilon": ("X", "how far below 1 a ratio counts, and above"),
    "epsilon_high": ("X", "how far above 1 (default: epsilon)"),
    "delta": ("X", "largest ratio where the advantage is negative (default: none)"),
    "importance_sampling_level": ("NAME", "ratios of each token, of a sequence (GSPO), or sequence_token"),
    "num_iterations": ("N", "updates of a rollout"),
    "sapo_temperature_pos": ("X", "SAPO's temperature of positive advantages"),
    "sapo_temperature_neg": ("X", "and of negative ones"),
    "vespo_k_pos": ("X", "VESPO's k of positive advantages"),
    "vespo_lambda_pos": ("X", "and its lambda"),
    "vespo_k_neg": ("X", "VESPO's k of negative advantages"),
    "vespo_lambda_neg": ("X", "and its lambda"),
    "top_entropy_quantile": ("X", "share of the tokens, those of the highest entropy, that count"),
    "entropy_coef": ("X", "weight of the entropy bonus"),
    "off_policy_mask_threshold": ("X", "leave out what the policy has drifted from by more (default: never)"),
    "mask_truncated_completions": ("", "leave out completions that were cut off"),
    "scale_rewards": ("NAME", "divide by the deviation in the group, in the batch, or by none"),
    "multi_objective_aggregation": ("NAME", "sum_then_normalize or normalize_then_sum, of several rewards"),
    "reward_weights": ("X,...", "weights of several rewards (default: 1 each)"),
    "kl_coef": ("X", "weight of the divergence from the reference in the rewards"),
    "kl_estimator": ("NAME", "how it is estimated, k1 or k3"),
    "whiten_rewards": ("", "bring rewards to variance 1"),
    "gamma": ("X", "discount of a later token's reward"),
    "lam": ("X", "lambda of the advantages' estimation"),
    "cliprange": ("X", "how far from 1 a ratio counts"),
    "cliprange_value": ("X", "how far a value may move from the rollout's"),
    "vf_coef": ("X", "weight of the value's loss"),
    "value_model": ("NAME", "what the value head is on: the policy's adapter (shared), or its own"),
    "num_ppo_epochs": ("N", "passes over a rollout"),
    "num_mini_batches": ("N", "updates of each pass"),
    "missing_eos_penalty": ("X", "taken from the reward of a completion that was cut off (default: nothing)"),
    "group": ("N", "completions of a prompt"),
    "temperature": ("X", "of sampling, and of the log-probabilities"),
    "max_completion": ("N", "tokens of a completion (default: half of the bundle's length, up to 256)"),
    "top_k": ("N", "draw from the N likeliest tokens (default: all)"),
    "top_p": ("X", "draw from the likeliest tokens that together have this probability (default: 1)"),
    "min_p": ("X", "leave out tokens less likely than this times the likeliest (default: none)"),
}
# What the head does not compute, and what another option says.
_WITHOUT = {"use_weighting", "sampling_correction", "num_generations"}
_LISTS = {"loss_type": str, "loss_weights": float, "reward_weights": float}


def objective_kinds() -> dict[str, type]:
    """The type of each option, by its name."""
    return {name: kind for parts in PARTS.values() for part in parts for name, kind in _kinds_of(part).items()}


def owners_of(name: str) -> list[str]:
    """The objectives that have an option of this name."""
    return [objective for objective, parts in PARTS.items() if any(name in _kinds_of(part) for part in parts)]


def needed_options(objective: str, given: Mapping[str, object]) -> dict[str, object]:
    """Those of mebpc that a bundle for an objective with these options of its own needs."""
    if objectives()[objective].has_values:
        return {"value_head": True} | ({"value_adapter": True} if given.get("value_model") == "own" else {})
    return {"entropy_bonus": True} if given.get("entropy_coef") else {}


def objective_helps(of: Collection[str] = tuple(PARTS)) -> list[tuple[str, str, str]]:
    """Name, what its value is called (nothing for one that is on or off), and help of each option of these."""
    defaults: dict[str, dict[str, object]] = {}
    for objective, parts in ((name, PARTS[name]) for name in of):
        for each in (each for part in parts for each in fields(part) if each.name not in _WITHOUT):
            defaults.setdefault(each.name, {})[objective] = each.default
    helps = []
    for name, values in defaults.items():
        value, text = _HELPS[name]
        stated = ", ".join(f"{value} with {objective}" for objective, value in values.items() if value is not None)
        helps.append((name, value, f"{text} (default: {stated})" if stated and value else text))
    return helps


def objective_options(objective: str, given: Mapping[str, object]) -> dict[str, object]:
    """`given`, checked to be what this objective has, with lists made of text with commas.

    Raises mebp.Error for one of another objective and for a value that is none.
    """
    known = {name for part in PARTS.get(objective, ()) for name in _kinds_of(part)}
    for name in given:
        if name not in known:
            other = f"; did you mean {listed(map(flag, SAME[name]))}?" if name in SAME else ""
            owner = listed(owners_of(name), "and")
            raise Error(f"{flag(name)} is an option of --objective {owner}, and this is {objective}{other}")
    options = {name: _listed(name, value) for name, value in given.items()}
    parts_of(objective, options)
    return options


def parts_of(objective: str, options: Mapping[str, object]) -> dict[type, object]:
    """The objects that an objective's options are made into, by their types. Raises mebp.Error where a value is
    invalid."""
    return {
        part: part(**{name: value for name, value in options.items() if name in _kinds_of(part)})
        for part in PARTS.get(objective, ())
    }


def _listed(name: str, value: object) -> object:
    if name not in _LISTS or not isinstance(value, str) or (_LISTS[name] is str and "," not in value):
        return value
    try:
        return tuple(_LISTS[name](each.strip()) for each in value.split(","))
    except ValueError:
        raise Error(f"{name} is '{value}'; give numbers with commas between them") from None


def _kinds_of(options: type) -> dict[str, type]:
    hints = get_type_hints(options)
    return {each.name: _plain(hints[each.name]) for each in fields(options) if each.name not in _WITHOUT}


def _plain(hint: object) -> type:
    """float of `float | None`; what may be a list is text on the command line."""
    choices = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    kinds = [kind for kind in choices if kind is not NoneType]
    return kinds[0] if len(kinds) == 1 and isinstance(kinds[0], type) else str
