# SPDX-License-Identifier: Apache-2.0
"""Losses and coefficients of preference pairs against autograd through TRL's own code, in float64."""

import dataclasses

import numpy as np
import pytest
import torch

from mebp import Error
from mebp.objectives import pair_losses, pairs
from mebp.objectives.pairs import DPO, DPOOptions
from support import trl_losses

PROMPT, VOCABULARY = 3, 7
LENGTHS = [(4, 6), (5, 2), (1, 3), (3, 3)]  # of chosen and rejected completions


def _case(seed=0, lengths=LENGTHS, dtype=torch.float64):
    """TRL's inputs, [chosen..., rejected...], for a policy that has left its reference."""
    generator = torch.Generator().manual_seed(seed)
    every = [chosen for chosen, _ in lengths] + [rejected for _, rejected in lengths]
    shape = (len(every), PROMPT + max(every))
    ids = torch.randint(VOCABULARY, shape, generator=generator)
    mask = torch.zeros(shape, dtype=torch.long)
    for row, length in enumerate(every):
        mask[row, PROMPT : PROMPT + length] = 1
    logits, reference = (torch.randn(*shape, VOCABULARY, generator=generator, dtype=dtype) for _ in range(2))
    return logits, reference, ids, mask


def _completion(logits, ids, mask, row):
    """A row's log-probabilities of its completion's tokens, and their positions in the logits."""
    positions = mask[row].nonzero().squeeze(1) - 1
    logps = logits[row, positions].log_softmax(-1)
    chosen = logps.gather(1, ids[row, positions + 1, None]).squeeze(1)
    return chosen.detach().numpy(), logps.detach().exp().numpy(), positions.numpy()


def _ours(options, logits, reference, ids, mask):
    """Loss, and its gradient by the logits as the coefficients make it."""
    dpo = DPO(options)
    count = len(ids) // 2
    scored, weights, parts = [], [], []
    for row in range(2 * count):
        logps, probabilities, positions = _completion(logits, ids, mask, row)
        other = int(mask[(row + count) % (2 * count)].sum())
        log_squares = np.log((probabilities**2).sum(-1))
        reference_sum = dpo.total(_completion(reference, ids, mask, row)[0], other)
        scored.append(dpo.score(logps, other, reference_sum, log_squares))
        weights.append(dpo.token_weights(len(logps), other))
        parts.append((probabilities, positions))
    results = dpo.batch(list(zip(scored[:count], scored[count:], strict=True)))
    if not dpo.needs_batch:  # one at a time gives the same
        tokens = sum(each.length for each in scored[:count])
        alone = [dpo.pair(*each, count, tokens) for each in zip(scored[:count], scored[count:], strict=True)]
        assert alone == results
    gradient = np.zeros(logits.shape)
    numbers = [each.chosen for each in results] + [each.rejected for each in results]
    for row, (number, weight, (probabilities, positions)) in enumerate(zip(numbers, weights, parts, strict=True)):
        one_hot = np.eye(VOCABULARY)[ids[row, positions + 1]]
        gradient[row, positions] = (number * weight)[:, None] * (one_hot - probabilities)
    metrics = [dpo.metrics(*each) for each in zip(scored[:count], scored[count:], strict=True)]
    means = {name: np.mean([each[name] for each in metrics]) for name in metrics[0]}
    return sum(each.loss for each in results), gradient, means


def _compare(options, seed=0, ours=_ours, dtype=torch.float64, tolerance=1e-12):
    logits, reference, ids, mask = _case(seed, dtype=dtype)
    logits.requires_grad_()
    loss, metrics = trl_losses.dpo_loss(options, logits, reference, ids, mask)
    loss.backward()
    with torch.no_grad():
        our_loss, gradient, our_metrics = ours(options, logits.detach().double(), reference.double(), ids, mask)
    np.testing.assert_allclose(our_loss, loss.item(), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(gradient, logits.grad.numpy(), rtol=0, atol=tolerance * float(logits.grad.abs().max()))
    for name, value in our_metrics.items():
        np.testing.assert_allclose(value, metrics[name], rtol=tolerance, atol=tolerance, err_msg=name)


def _options(loss_type, **others):
    if isinstance(loss_type, str) and loss_type in trl_losses.SMOOTHING:
        others.setdefault("label_smoothing", trl_losses.SMOOTHING[loss_type])
    return DPOOptions(loss_type, **{"beta": 0.3, **others})


@pytest.mark.parametrize("loss_type", pair_losses.LOSS_TYPES)
def test_every_loss_type_is_trls(loss_type):
    for seed, beta in enumerate((0.1, 0.3, 2.0)):
        _compare(_options(loss_type, beta=beta), seed)


@pytest.mark.parametrize("loss_type", [each for each in pair_losses.LOSS_TYPES if each != "sft"])
def test_tokens_beyond_the_shorter_completion_weigh_less_by_ld_alpha(loss_type):
    _compare(_options(loss_type, ld_alpha=0.25))


@pytest.mark.parametrize("divergence", ["forward_kl", "js_divergence"])
@pytest.mark.parametrize("loss_type", pairs._WITH_DIVERGENCES)
def test_divergences_are_trls(loss_type, divergence):
    _compare(_options(loss_type, f_divergence_type=divergence))


def test_a_divergence_leaves_sft_beside_it_alone():
    _compare(_options(["sigmoid", "sft"], f_divergence_type="forward_kl"))


@pytest.mark.parametrize("tau", [0.02, 0.5])
def test_the_temperature_of_discopop_is_trls(tau):
    _compare(_options("discopop", discopop_tau=tau))


@pytest.mark.parametrize("alpha", [-1.0, 0.5, 2.0])
def test_the_alpha_divergence_is_trls(alpha):
    """In float32, for TRL's code takes no other there; by float64's autograd its derivative is exact."""
    options = _options("sigmoid", f_divergence_type="alpha_divergence", f_alpha_divergence_coef=alpha)
    _compare(options, dtype=torch.float32, tolerance=2e-5)
    x = torch.linspace(-2, 2, 9, dtype=torch.float64, requires_grad=True)
    ((torch.exp((alpha - 1) * x) - 1) / (alpha - 1)).sum().backward()
    ours = pair_losses.DIVERGENCES["alpha_divergence"].derivative(x.detach().numpy(), alpha)
    np.testing.assert_allclose(ours, x.grad.numpy(), rtol=1e-14)


def test_an_alpha_of_one_is_the_reverse_divergence():
    options = _options("sigmoid", f_divergence_type="alpha_divergence", f_alpha_divergence_coef=1.0)
    _compare(options, dtype=torch.float32, tolerance=2e-5)


def test_losses_combine_by_their_weights():
    _compare(_options(["sigmoid", "bco_pair", "sft"], loss_weights=[0.8, 0.2, 1.0]))
    _compare(_options(["sigmoid", "ipo", "aot"]))
    _compare(_options(["ipo", "sigmoid_norm"], loss_weights=[1.0, -0.5]))


@pytest.mark.parametrize("loss_type", ["sigmoid", "ipo", "nca_pair", "discopop"])
def test_pairs_weigh_by_their_probabilities(loss_type):
    _compare(_options(loss_type, use_weighting=True))


@pytest.mark.parametrize("loss_type", pair_losses.LOSS_TYPES)
def test_opposite_says_that_one_gradient_will_do(loss_type):
    logits, reference, ids, mask = _case()
    dpo = DPO(_options(loss_type))
    scored = [
        dpo.score(_completion(logits, ids, mask, row)[0], 1, float(_completion(reference, ids, mask, row)[0].sum()))
        for row in range(len(ids))
    ]
    results = dpo.batch(list(zip(scored[: len(LENGTHS)], scored[len(LENGTHS) :], strict=True)))
    assert dpo.opposite == all(each.chosen == -each.rejected for each in results)


def test_losses_stay_finite_far_from_the_reference():
    for loss_type in pair_losses.LOSS_TYPES:
        dpo = DPO(_options(loss_type))
        for ratio in (-1e4, 1e4):
            chosen, rejected = pairs.Scored(ratio - 2e4, -2e4, 5), pairs.Scored(-2e4 - ratio, -2e4, 6)
            if loss_type == "discopop" and ratio < 0:
                continue  # its exponential part is meant to grow so
            [result] = dpo.batch([(chosen, rejected)])
            assert np.isfinite(dataclasses.astuple(result)).all(), loss_type


def _reference_is_the_policy(options, logits, reference, ids, mask):
    return _ours(options, logits, logits, ids, mask)


def _first_token_left_out(options, logits, reference, ids, mask):
    mask = mask.clone()
    mask[:, PROMPT] = 0
    mask[mask.sum(1) == 0, PROMPT + 1] = 1
    return _ours(options, logits, reference, ids, mask)


def _mean_for_sum(options, logits, reference, ids, mask):
    loss, gradient, metrics = _ours(options, logits, reference, ids, mask)
    return loss, gradient / mask.sum(1).numpy()[:, None, None], metrics


def _without_beta(options, logits, reference, ids, mask):
    loss, gradient, metrics = _ours(options, logits, reference, ids, mask)
    return loss / options.beta, gradient, metrics


@pytest.mark.parametrize(
    "planted", [_reference_is_the_policy, _first_token_left_out, _mean_for_sum, _without_beta], ids=lambda f: f.__name__
)
def test_a_planted_error_is_caught(planted):
    _compare(_options("sigmoid"))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        _compare(_options("sigmoid"), ours=planted)


REFUSED = [
    ({"loss_type": "simpo"}, "loss_type is 'simpo'; choose sigmoid, hinge, .* or sft"),
    ({"loss_type": []}, "loss_type is empty; choose sigmoid"),
    ({"beta": -0.1}, "beta is -0.1; give a finite number above 0"),
    ({"beta": 0.0}, "beta is 0.0; give a finite number above 0"),
    ({"beta": float("nan")}, "beta is nan; give a finite number above 0"),
    ({"loss_weights": [1.0, 2.0]}, "loss_weights has 2 numbers for 1 loss types; give one each"),
    ({"label_smoothing": 0.1}, "label_smoothing does nothing with loss_type sigmoid; leave it out, or choose exo_pair"),
    ({"loss_type": "aot", "label_smoothing": 1.5}, "label_smoothing is 1.5; give a finite number of at least 0 and of"),
    ({"loss_type": "exo_pair"}, "label_smoothing is 0; exo_pair needs one between 0 and 1, such as 1e-3"),
    (
        {"loss_type": "robust", "label_smoothing": 0.5},
        "label_smoothing is 0.5; robust needs one below 0.5, such as 0.1",
    ),
    ({"discopop_tau": 0.1}, "discopop_tau does nothing with loss_type sigmoid"),
    ({"loss_type": "discopop", "discopop_tau": 0.0}, "discopop_tau is 0.0; give a finite number above 0"),
    ({"f_divergence_type": "kl"}, "f_divergence_type is 'kl'; choose reverse_kl, "),
    ({"f_alpha_divergence_coef": 0.1}, "f_alpha_divergence_coef does nothing with f_divergence_type reverse_kl"),
    ({"loss_type": "aot", "f_divergence_type": "forward_kl"}, "f_divergence_type forward_kl has no meaning for .* aot"),
    ({"loss_type": "sft", "f_divergence_type": "forward_kl"}, "f_divergence_type forward_kl has no meaning for .* sft"),
    ({"ld_alpha": 1.1}, "ld_alpha is 1.1; give a finite number of at least 0 and of at most 1"),
    ({"loss_type": ["sigmoid", "sft"], "ld_alpha": 0.5}, "ld_alpha and loss_type sft weigh the same tokens"),
    ({"loss_type": ["sft", "aot"], "use_weighting": True}, "use_weighting weighs pairs, which sft does not have"),
]


@pytest.mark.parametrize(("given", "line"), REFUSED)
def test_options_that_cannot_be_meant_are_refused(given, line):
    with pytest.raises(Error, match=line):
        DPOOptions(**given)
