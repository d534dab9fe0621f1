# SPDX-License-Identifier: Apache-2.0
"""Losses and coefficients of sampled completions against autograd through TRL's own code, in float64."""

import numpy as np
import pytest
import torch

from mebp import Error
from mebp.objectives import group_losses, groups, ratios
from mebp.objectives.advantages import AdvantageOptions
from mebp.objectives.entropy import EntropyController, entropy_threshold
from mebp.objectives.groups import GRPO, GRPOOptions
from mebp.objectives.sampling import MODES, SamplingCorrection
from support import trl_losses

LENGTHS = [5, 1, 7, 4, 0, 6]  # one completion was cut off at the limit, and does not count
LIMIT = 9
ADVANTAGES = [1.1, -0.7, 0.0, 0.4, 0.9, -1.3]


def _case(seed=0, spread=0.4):
    """TRL's inputs for a policy that has left the rollout's by `spread`."""
    rng = np.random.default_rng(seed)
    shape = len(LENGTHS), max(LENGTHS)
    logps = -rng.exponential(1.5, shape)
    mask = np.arange(shape[1]) < np.array(LENGTHS)[:, None]
    mask[2, 3] = False  # a tool wrote it
    return {
        "logps": logps,
        "mask": mask,
        "old": logps + rng.normal(0, spread, shape),
        "reference": logps + rng.normal(0, spread, shape),
        "sampled": logps + rng.normal(0, spread, shape),
        "entropies": rng.exponential(2.0, shape),
        "advantages": np.array(ADVANTAGES),
    }


def _ours(options, case, batch=None, on_policy=False):
    grpo = GRPO(options)
    mask = case["mask"]
    weights = grpo.weights(mask.sum(1), LIMIT, batch)
    threshold = None
    kept = mask
    if grpo.needs_all_entropies:
        threshold = entropy_threshold(
            [row[there] for row, there in zip(case["entropies"], mask, strict=True)], options.top_entropy_quantile
        )
        kept = mask & (case["entropies"] >= threshold)
    entropy_weights = grpo.entropy_weights(kept.sum(1), batch)
    return [
        grpo.sequence(
            case["logps"][row],
            case["advantages"][row],
            weights[row],
            mask=mask[row],
            old=None if on_policy else case["old"][row],
            reference=case["reference"][row] if grpo.needs_reference else None,
            sampled=case["sampled"][row],
            entropies=case["entropies"][row],
            entropy_threshold=threshold,
            entropy_weight=entropy_weights[row],
        )
        for row in range(len(mask))
    ]


def _theirs(options, case, batch=None, on_policy=False):
    """TRL's loss and gradients of a step of as many accumulated batches as there are, and the first batch's metrics."""
    logps, entropies = (torch.tensor(case[name], requires_grad=True) for name in ("logps", "entropies"))
    count = len(case["mask"])
    batch = count if batch is None else batch
    loss, metrics, of_sampling = 0.0, None, {}
    inputs = {
        "completion_mask": torch.tensor(case["mask"], dtype=torch.long),
        "advantages": torch.tensor(case["advantages"]),
        "ref_per_token_logps": torch.tensor(case["reference"]),
        "sampling_per_token_logps": torch.tensor(case["sampled"]),
    }
    if not on_policy:
        inputs["old_per_token_logps"] = torch.tensor(case["old"])
    if options.sampling_correction:
        old = case["logps"] if on_policy else case["old"]
        completions = [[2] * len(row) for row in old]
        output, of_sampling = trl_losses.grpo_batch(
            options,
            AdvantageOptions(num_generations=len(old)),
            np.zeros((len(old), 1)),
            completions,
            torch.tensor(old),
            case["sampled"].tolist(),
            case["mask"].astype(int).tolist(),
        )
        inputs["importance_sampling_ratio"] = output["importance_sampling_ratio"]
    total = inputs["completion_mask"].sum()
    for start in range(0, count, batch):
        part = slice(start, start + batch)
        one, logged = trl_losses.grpo_loss(
            options,
            logps[part],
            entropies[part],
            {**{name: value[part] for name, value in inputs.items()}, "num_items_in_batch": total},
            LIMIT,
            accumulate=count // batch,
            token_level_gspo=options.importance_sampling_level == "sequence_token",
        )
        loss, metrics = loss + one, metrics or logged
    loss.backward()
    return (
        loss.item(),
        logps.grad.numpy(),
        None if entropies.grad is None else entropies.grad.numpy(),
        metrics | of_sampling,
    )


def _compare(options, seed=0, batch=None, on_policy=False, ours=_ours):
    case = _case(seed)
    loss, gradient, of_entropy, metrics = _theirs(options, case, batch, on_policy)
    results = ours(options, case, batch, on_policy)
    np.testing.assert_allclose(sum(each.loss for each in results), loss, rtol=1e-12, atol=1e-12)
    scale = np.abs(gradient).max()
    assert scale > 0
    coefficients = np.stack([each.coefficients for each in results])
    np.testing.assert_allclose(coefficients, gradient, rtol=0, atol=1e-12 * scale)
    if options.entropy_coef:
        bonuses = np.stack([each.entropy_coefficients for each in results])
        np.testing.assert_allclose(bonuses, of_entropy, rtol=0, atol=1e-12)
    else:
        assert all(each.entropy_coefficients is None for each in results)
    if batch is None and options.importance_sampling_level != "sequence":
        for name in results[0].metrics.keys() & metrics.keys():
            total, count = np.sum([each.metrics[name] for each in results], axis=0)
            np.testing.assert_allclose(total / count, metrics[name], rtol=1e-6, err_msg=name)


def _options(loss_type, **others):
    if loss_type == "luspo":
        others["importance_sampling_level"] = "sequence"
    if loss_type == "cispo":
        others.setdefault("epsilon_high", 1.1)
    return GRPOOptions(loss_type, **others)


every_loss = pytest.mark.parametrize("loss_type", groups.LOSS_TYPES)


@every_loss
def test_every_loss_type_is_trls(loss_type):
    for seed in range(3):
        _compare(_options(loss_type), seed)


@every_loss
def test_on_policy_nothing_else_is_needed(loss_type):
    _compare(_options(loss_type), on_policy=True)
    _compare(_options(loss_type, beta=0.1), on_policy=True)


@every_loss
@pytest.mark.parametrize("correction", [True, False])
def test_the_divergence_is_trls(loss_type, correction):
    _compare(_options(loss_type, beta=0.3, use_bias_correction_kl=correction))


@every_loss
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_normalisers_are_those_of_accumulated_batches(loss_type, batch):
    _compare(_options(loss_type, beta=0.1), batch=batch)


@pytest.mark.parametrize("loss_type", ["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo"])
@pytest.mark.parametrize("correction", [True, False])
def test_ratios_of_sequences_are_trls(loss_type, correction):
    options = {"importance_sampling_level": "sequence", "use_bias_correction_kl": correction}
    _compare(_options(loss_type, **options))
    _compare(_options(loss_type, beta=0.3, **options))


@pytest.mark.parametrize("loss_type", ["grpo", "bnpo", "dr_grpo"])
def test_ratios_of_sequences_by_token_are_trls(loss_type):
    options = {"importance_sampling_level": "sequence_token"}
    _compare(_options(loss_type, **options))
    _compare(_options(loss_type, beta=0.3, use_bias_correction_kl=False, **options))


@pytest.mark.parametrize("loss_type", group_losses.CLIPPED)
def test_clipping_is_trls(loss_type):
    _compare(_options(loss_type, epsilon=0.05, epsilon_high=0.5))
    _compare(_options(loss_type, epsilon=0.1, delta=1.3))
    _compare(_options(loss_type, epsilon=0.3, delta=1.1))  # a cap within the limits


def test_the_constants_of_sapo_and_vespo_are_trls():
    _compare(_options("sapo", sapo_temperature_pos=0.5, sapo_temperature_neg=2.0))
    _compare(_options("vespo", vespo_k_pos=1.0, vespo_lambda_pos=2.0, vespo_k_neg=1.5, vespo_lambda_neg=0.5))


@every_loss
@pytest.mark.parametrize("quantile", [0.0, 0.23, 0.8])
def test_tokens_of_high_entropy_are_kept_as_trl_keeps_them(loss_type, quantile):
    _compare(_options(loss_type, top_entropy_quantile=quantile, beta=0.1))
    _compare(_options(loss_type, top_entropy_quantile=quantile, entropy_coef=0.02, beta=0.1))


@pytest.mark.parametrize("batch", [None, 2])
def test_the_entropy_bonus_is_trls(batch):
    _compare(_options("dapo", entropy_coef=0.02), batch=batch)


@every_loss
def test_sequences_off_policy_are_dropped_as_trl_drops_them(loss_type):
    for seed in range(3):
        _compare(_options(loss_type, off_policy_mask_threshold=0.05), seed)


@pytest.mark.parametrize(
    ("loss_type", "mode"),
    [(each, mode) for each in groups.LOSS_TYPES for mode in MODES if each != "vespo" or mode.startswith("token")],
)
def test_the_samplers_own_probabilities_correct_as_trls(loss_type, mode):
    for limits in ({}, {"clip_max": 2.0, "clip_min": 0.1}):
        correction = SamplingCorrection(mode, **limits)
        _compare(_options(loss_type, sampling_correction=correction))
        _compare(_options(loss_type, sampling_correction=correction, beta=0.1), on_policy=True)


def test_completions_that_were_cut_off_may_be_left_out_as_trl_leaves_them():
    completions = [[5, 1], [5, 6], [7, 1], [1, 7]]
    for truncated in (True, False):
        options = GRPOOptions(mask_truncated_completions=truncated)
        output, _ = trl_losses.grpo_batch(
            options, AdvantageOptions(num_generations=4), np.zeros((4, 1)), completions, None, None
        )
        masks = [GRPO(options).mask(ids, {0, 1}) for ids in completions]
        np.testing.assert_array_equal(masks, output["completion_mask"].numpy())
    assert GRPO().mask([5, 6, 7], {1}, written=[1, 0, 1]).tolist() == [True, False, True]


def test_metrics_are_those_of_trl():
    """Which the comparisons look at, where TRL has them."""
    options = GRPOOptions(beta=0.1, sampling_correction=SamplingCorrection())
    assert _ours(options, _case())[0].metrics.keys() == {
        "kl",
        "entropy",
        "clip_ratio/low_mean",
        "clip_ratio/high_mean",
        "clip_ratio/region_mean",
        "sampling/sampling_logp_difference/mean",
    }
    assert _theirs(options, _case())[-1].keys() >= _ours(options, _case())[0].metrics.keys()


def test_what_the_sampler_does_not_know_is_not_corrected():
    options = _options("dapo", sampling_correction=SamplingCorrection("token_truncate"))
    case = _case()
    case["sampled"][0, 1] = np.nan
    first = _ours(options, case)[0]
    case["sampled"][0, 1] = case["old"][0, 1]
    np.testing.assert_array_equal(first.coefficients, _ours(options, case)[0].coefficients)


def test_several_steps_of_one_generation_divide_by_its_mean_tokens():
    """TRL takes 3 of 6 sequences each step, and divides by half the tokens of all."""
    case, options = _case(), GRPOOptions()
    total = torch.tensor(case["mask"].sum())
    logps = torch.tensor(case["logps"], requires_grad=True)
    part = slice(0, 3)
    inputs = {
        "completion_mask": torch.tensor(case["mask"][part], dtype=torch.long),
        "advantages": torch.tensor(case["advantages"][part]),
        "old_per_token_logps": torch.tensor(case["old"][part]),
        "num_items_in_batch": total / 2,  # as of a window that is half the generation
    }
    loss, _ = trl_losses.grpo_loss(options, logps[part], torch.tensor(case["entropies"][part]), inputs, LIMIT)
    loss.backward()
    [weight, *_] = GRPO(options).weights(case["mask"][part].sum(1), LIMIT, tokens=float(total) / 2)
    result = GRPO(options).sequence(
        case["logps"][0], case["advantages"][0], weight, mask=case["mask"][0], old=case["old"][0]
    )
    np.testing.assert_allclose(result.coefficients, logps.grad[0].numpy(), rtol=1e-12)


def test_a_ratio_beyond_its_limit_is_clamped_and_counted():
    grpo = GRPO(GRPOOptions(beta=0.1))
    logps, zeros = np.array([-1.0, -2.0, -90.0]), np.zeros(3)
    far = grpo.sequence(logps, -1.0, 1.0, old=np.array([-1.0, -32.0, -90.0]), reference=logps)
    near = grpo.sequence(logps, -1.0, 1.0, old=np.array([-1.0, -22.0, -90.0]), reference=logps)
    assert (far.overflows, near.overflows) == (1, 0)
    np.testing.assert_array_equal(far.coefficients, near.coefficients)
    of_reference = grpo.sequence(logps, -1.0, 1.0, reference=zeros)
    assert of_reference.overflows == 1
    assert np.isfinite(of_reference.coefficients).all()
    masked = grpo.sequence(logps, -1.0, 1.0, mask=[1, 1, 0], reference=zeros)
    assert (masked.overflows, masked.coefficients[2]) == (0, 0.0)


def test_the_controller_of_the_bonus_follows_trls_rule():
    controller = EntropyController(0.01, entropy_coef_delta=0.02, entropy_target=0.5, entropy_coef_max=0.04)
    seen = []
    for entropy in (0.4, 0.4, 0.4, 0.6, 0.6, 0.6):
        seen.append((controller.applied, controller.coefficient))
        controller.update(entropy)
    np.testing.assert_allclose(
        seen, [(0, 0.01), (0.03, 0.03), (0.04, 0.04), (0.04, 0.04), (0, 0.02), (0, 0.0)], atol=1e-15
    )


def _reference_is_the_policy(options, case, *others):
    return _ours(options, {**case, "reference": case["logps"]}, *others)


def _old_is_the_policy(options, case, *others):
    return _ours(options, {**case, "old": case["logps"]}, *others)


def _first_token_left_out(options, case, *others):
    mask = case["mask"].copy()
    mask[:, 0] = False
    return _ours(options, {**case, "mask": mask}, *others)


def _normaliser_of_lengths(options, case, *others):
    return _ours(GRPOOptions("grpo", beta=options.beta), case, *others)


def _without_correction(options, case, *others):
    return _ours(GRPOOptions(beta=options.beta, use_bias_correction_kl=False), case, *others)


def _k1(log_ratio):
    return -log_ratio, np.ones_like(log_ratio), np.zeros(len(log_ratio), dtype=bool)


PLANTED = [
    _reference_is_the_policy,
    _old_is_the_policy,
    _first_token_left_out,
    _normaliser_of_lengths,
    _without_correction,
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda function: function.__name__)
def test_a_planted_error_is_caught(planted):
    options = GRPOOptions(beta=0.3)
    _compare(options)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        _compare(options, ours=planted)


def test_another_estimate_of_the_divergence_is_caught(monkeypatch):
    monkeypatch.setattr(groups, "k3", _k1)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        _compare(GRPOOptions(beta=0.3))


def test_k3_is_an_estimate_of_k1s_mean():
    """What the two names mean: both have the divergence as their mean over the policy's own tokens."""
    policy, reference = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    log_ratio = np.log(reference / policy)
    np.testing.assert_allclose(policy @ ratios.k3(log_ratio)[0], policy @ -log_ratio, rtol=1e-14)


REFUSED = [
    ({"loss_type": "gspo"}, "loss_type is 'gspo'; choose grpo, bnpo, dr_grpo, dapo, luspo, cispo, sapo or vespo"),
    ({"beta": -1.0}, "beta is -1.0; give a finite number of at least 0"),
    ({"epsilon": -0.2}, "epsilon is -0.2; give a finite number of at least 0"),
    ({"epsilon_high": -0.2}, "epsilon_high is -0.2; give a finite number of at least 0"),
    (
        {"importance_sampling_level": "word"},
        "importance_sampling_level is 'word'; choose token, sequence or sequence_tok",
    ),
    ({"top_entropy_quantile": 1.5}, "top_entropy_quantile is 1.5; give a finite number of at least 0 and of at most 1"),
    ({"num_iterations": 0}, "num_iterations is 0; give a whole number of at least 1"),
    ({"loss_type": "sapo", "delta": 2.0}, "delta does nothing with loss_type sapo; leave it out, or choose grpo, bnpo"),
    ({"loss_type": "sapo", "epsilon": 0.1}, "epsilon does nothing with loss_type sapo; leave it out, or choose grpo"),
    (
        {"sapo_temperature_pos": 2.0},
        "sapo_temperature_pos does nothing with loss_type dapo; leave it out, or choose sapo",
    ),
    ({"vespo_k_neg": 2.0}, "vespo_k_neg does nothing with loss_type dapo; leave it out, or choose vespo"),
    ({"loss_type": "sapo", "sapo_temperature_neg": 0.0}, "sapo_temperature_neg is 0.0; give a finite number above 0"),
    ({"loss_type": "luspo"}, "loss_type luspo is of sequences; give importance_sampling_level sequence"),
    (
        {"loss_type": "vespo", "importance_sampling_level": "sequence"},
        "loss_type vespo makes a sequence's ratio itself",
    ),
    ({"loss_type": "sapo", "importance_sampling_level": "sequence_token"}, "sequence_token goes with grpo, bnpo"),
    (
        {"loss_type": "vespo", "sampling_correction": SamplingCorrection()},
        "loss_type vespo needs a sampling correction",
    ),
]


@pytest.mark.parametrize(("given", "line"), REFUSED)
def test_options_that_cannot_be_meant_are_refused(given, line):
    with pytest.raises(Error, match=line):
        GRPOOptions(**given)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"mode": "both"}, "sampling correction is 'both'; choose token_truncate, token_mask"),
        ({"clip_max": -1.0}, "clip_max is -1.0; give a finite number of at least 0"),
        ({"clip_min": 4.0}, "clip_min is 4; give less than clip_max, 3"),
        ({"mode": "token_truncate", "clip_max": None}, "token_truncate needs a limit; give clip_max or clip_min"),
    ],
)
def test_corrections_that_cannot_be_meant_are_refused(given, line):
    with pytest.raises(Error, match=line):
        SamplingCorrection(**given)


def test_batches_divide_a_step():
    with pytest.raises(
        Error, match="6 sequences are no whole number of batches of 4; choose a batch that divides them"
    ):
        GRPO(GRPOOptions("bnpo")).weights(LENGTHS, LIMIT, 4)


def test_what_sequence_ratios_weigh_is_said():
    assert "weighs each sequence by its length" in GRPO(GRPOOptions(importance_sampling_level="sequence")).note
    assert GRPO(GRPOOptions("grpo", importance_sampling_level="sequence")).note is None
