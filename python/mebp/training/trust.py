# SPDX-License-Identifier: Apache-2.0
"""What an option can make a run do, and so whether a file of options, which a stranger may have written, may set it."""

from enum import Enum

from mebp.compile_options import compile_option_kinds, flag
from mebp.errors import Error
from mebp.rewards import runs_code

ALLOW_CODE = "allow_code"
_MOST_SHOWN = 1000  # characters


class Mark(Enum):
    """What an option can do."""

    PLAIN = "changes what is computed, from what is read, and writes new files"
    RUNNING = "runs code that is not mebp's"
    SENDING = "sends something to another machine or program, or says to whom, and who can read it"
    OVERWRITING = "replaces files"


_NAMES = {
    Mark.RUNNING: "reward",
    Mark.SENDING: "push_to_hub report_to connect cert key ca plain_text interface",
    # With --resume, what is there counts as the run's own, also where its state is missing.
    Mark.OVERWRITING: "overwrite resume",
    # Of these, `bundle` may be a hub id, and `data`, `eval` and `test` hub:OWNER/NAME: that is fetched, and nothing in
    # it runs.
    Mark.PLAIN: """
        bundle data loss_on turn_weights empty_thoughts task mask_probability objective reference reward_timeout
        rollouts steps epochs lr seed optimizer weight_decay clip clip_recompute accumulate global_batch shard reduce
        packing schedule warmup warmup_ratio eval eval_every val_split ask test judge adapter adapter_out columns
        model_out keep patience state save_every pause_on log plot spill_dir profile threads device retry_for in_flight
        train_tokens embedding_lr

        betas eps momentum perturbation galore_scale galore_update_interval galore_refresh galore_cos_threshold

        loss_type loss_weights beta label_smoothing f_divergence_type f_alpha_divergence_coef ld_alpha discopop_tau
        use_bias_correction_kl epsilon epsilon_high delta importance_sampling_level num_iterations sapo_temperature_pos
        sapo_temperature_neg vespo_k_pos vespo_lambda_pos vespo_k_neg vespo_lambda_neg top_entropy_quantile entropy_coef
        off_policy_mask_threshold mask_truncated_completions scale_rewards multi_objective_aggregation reward_weights
        kl_coef kl_estimator whiten_rewards gamma lam cliprange cliprange_value vf_coef value_model num_ppo_epochs
        num_mini_batches missing_eos_penalty group temperature max_completion top_k top_p min_p plan_only
    """,
}
MARKS = {name: mark for mark, names in _NAMES.items() for name in names.split()}
MARKS |= dict.fromkeys(compile_option_kinds(), Mark.PLAIN)  # each says how a bundle is made, and no more


def check_trusted(name: str, value: object, allow_code: bool) -> None:
    """Raises mebp.Error where `value` of the option `name` may not come from a file.

    allow_code: whether the command line lets the file run code.
    """
    if value is False or value == []:  # which does nothing, whatever the option
        return
    mark = MARKS[name]
    if mark is Mark.RUNNING:
        running = [each for each in value if runs_code(each)]
        if running and not allow_code:
            raise Error(
                f"{name} would run {' and '.join(map(_shown, running))}; add --allow-code to the command line if you "
                f"trust it, or leave {name} out"
            )
    elif mark is Mark.SENDING:
        raise Error(
            f"{name} is {_shown(value)}, and a file does not decide what is sent to whom; give {flag(name)} on the "
            f"command line, or leave {name} out"
        )
    elif mark is Mark.OVERWRITING:
        raise Error(
            f"{name} lets the run replace files, and a file does not decide that; give {flag(name)} on the command "
            f"line, or leave {name} out"
        )


def _shown(value: object) -> str:
    written = repr(value if isinstance(value, bool | str) else str(value))
    if len(written) <= _MOST_SHOWN:
        return written
    return f"{written[:_MOST_SHOWN]}... ({len(written) - _MOST_SHOWN:,} characters more)"
