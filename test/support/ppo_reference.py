# SPDX-License-Identifier: Apache-2.0
"""PPO by the formulas of TRL 1.12's PPOTrainer.train, the last TRL that has it, on a padded batch in torch.

Rows are completions, up to as many tokens as may be written; `lengths` says how many there are. After the last token
of a shorter one there is one position more, at which the value counts and the score is given.
"""

import torch

PADDED_LOGP = 1.0


def masked_mean(values, mask):
    return (values * mask).sum() / mask.sum()


def masked_whiten(values, mask, shift_mean=True):
    mean = masked_mean(values, mask)
    count = mask.sum()
    variance = masked_mean((values - mean) ** 2, mask) * count / (count - 1)
    whitened = (values - mean) * torch.rsqrt(variance + 1e-8)
    return whitened if shift_mean else whitened + mean


def masks(lengths, longest):
    """Where tokens are padding, and where values are."""
    index = torch.arange(longest).repeat(len(lengths), 1)
    return index >= lengths[:, None], index > lengths[:, None]


def targets(options, logps, reference, values, scores, lengths, ended):
    """Advantages and returns [rows, longest]."""
    padding, value_padding = masks(lengths, logps.shape[1])
    logps, reference = (each.masked_fill(padding, PADDED_LOGP) for each in (logps, reference))
    values = values.masked_fill(value_padding, 0)
    if options.missing_eos_penalty is not None:
        scores = torch.where(ended, scores, scores - options.missing_eos_penalty)
    log_ratio = reference - logps
    kl = -log_ratio if options.kl_estimator == "k1" else log_ratio.exp() - 1 - log_ratio
    rewards = -options.kl_coef * kl
    end = torch.where(lengths < logps.shape[1], lengths, lengths - 1)
    rewards[torch.arange(len(rewards)), end] += scores
    if options.whiten_rewards:
        rewards = masked_whiten(rewards, ~value_padding, shift_mean=False).masked_fill(value_padding, 0)
    estimate, estimates = 0.0, []
    for index in reversed(range(logps.shape[1])):
        following = values[:, index + 1] if index < logps.shape[1] - 1 else 0.0
        error = rewards[:, index] + options.gamma * following - values[:, index]
        estimate = error + options.gamma * options.lam * estimate
        estimates.append(estimate)
    advantages = torch.stack(estimates[::-1], dim=1)
    returns = advantages + values
    return masked_whiten(advantages, ~padding).masked_fill(padding, 0), returns


def loss(options, logps, old, values, old_values, advantages, returns, lengths):
    padding, value_padding = masks(lengths, logps.shape[1])
    logps, old = (each.masked_fill(padding, PADDED_LOGP) for each in (logps, old))
    values, old_values = (each.masked_fill(value_padding, 0) for each in (values, old_values))
    cut = torch.clamp(values, old_values - options.cliprange_value, old_values + options.cliprange_value)
    value_loss = 0.5 * masked_mean(torch.max((values - returns) ** 2, (cut - returns) ** 2), ~value_padding)
    ratio = torch.exp(logps - old)
    clipped = torch.clamp(ratio, 1 - options.cliprange, 1 + options.cliprange)
    policy_loss = masked_mean(torch.max(-advantages * ratio, -advantages * clipped), ~padding)
    return policy_loss + options.vf_coef * value_loss
