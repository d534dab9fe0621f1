# SPDX-License-Identifier: Apache-2.0
"""The loss of routers beside transformers' own: in the loss and all gradients, with padding, and over micro-batches."""

import numpy as np
import pytest
import torch

import mebp
from mebp.inspect import inspect
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from support import models
from support.pipeline import check, compare_gradients, make_bundle, reference_for

COEFFICIENT = 0.5  # so that it moves every gradient
SEQUENCE = 37
FAMILIES = [family for family in ("qwen3_moe", "qwen2_moe", "granitemoe", "gpt_oss") if family in models.ALL_FAMILIES]


def make(family, folder, **options):
    model = models.build(family, num_hidden_layers=2)
    return model, make_bundle(model, folder, seq_len=SEQUENCE, batch=2, router_aux_loss_coef=COEFFICIENT, **options)


@pytest.fixture(scope="module")
def qwen3(tmp_path_factory):
    return make("qwen3_moe", tmp_path_factory.mktemp("router"), generate_len=SEQUENCE)


def session_of(bundle, **options):
    session = mebp.Session(bundle, **options)
    randomise_adapter(session)
    return session


def without_loss(bundle, model, ids, labels):
    """torch's gradients without the routers' loss."""
    reference = reference_for(bundle, session_of(bundle), model, torch.float64)
    reference._router_loss = 0.0
    return reference.loss_and_gradients(ids, labels)


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients(tmp_path, show, family):
    model, bundle = make(family, tmp_path)
    ids = models.token_ids(model, 2, SEQUENCE).numpy()
    session = session_of(bundle)
    result = compare_gradients(bundle, session, model, ids, ids)
    show(f"{family}: {result}")
    check(result)
    plain, others = without_loss(bundle, model, ids, ids)
    loss, found = session.loss_and_gradients(ids, ids)
    assert loss > plain + 0.4  # of experts that are used alike it would be the coefficient times those of a token
    assert max(relative_error(found[key], others[key]) for key in others) > 0.01


@pytest.mark.parametrize("options", [{"chunk_size": 7}, {"weights": "f32"}], ids=str)
def test_gradients_of_other_plans(tmp_path, options):
    model, bundle = make("qwen3_moe", tmp_path, **options)
    ids = models.token_ids(model, 2, SEQUENCE).numpy()
    check(compare_gradients(bundle, session_of(bundle), model, ids, ids))


def test_padding_counts_for_nothing(qwen3):
    model, bundle = qwen3
    ids = models.token_ids(model, 2, SEQUENCE).numpy()
    labels = ids.copy()
    labels[0, 20:] = labels[1, :5] = -100  # a row of 20 tokens, and one that begins with a prompt
    loss, found = session_of(bundle).loss_and_gradients(ids, labels)
    reference = reference_for(bundle, session_of(bundle), model, torch.float64)
    mask = torch.ones(ids.shape, dtype=torch.int64)
    mask[0, 20:] = 0
    run = reference._run
    reference._run = lambda rows, **options: run(rows, attention_mask=mask, **options)
    expected, exact = reference.loss_and_gradients(ids, labels)
    assert loss == pytest.approx(expected, rel=1e-5)
    assert max(relative_error(found[key], exact[key]) for key in exact) < 2e-5


def test_micro_batches_have_the_mean_of_their_losses(qwen3):
    model, bundle = qwen3
    ids = models.token_ids(model, 2, SEQUENCE).numpy()
    session = session_of(bundle, accumulate=True, return_gradients=True)
    losses = [session.loss(ids[row : row + 1], ids[row : row + 1]) for row in range(2)]
    step = session.step([ids[:1], ids[1:]], [ids[:1], ids[1:]])
    assert step.loss == pytest.approx(np.mean(losses), rel=1e-6)


def test_text_is_what_it_is_without(qwen3, tmp_path):
    model, bundle = qwen3
    plain = make_bundle(model, tmp_path, seq_len=SEQUENCE, batch=2, generate_len=SEQUENCE)
    ids = models.token_ids(model, 1, 9).numpy()
    texts = [np.asarray(mebp.Session(one).generate(ids, 8)).tolist() for one in (bundle, plain)]
    assert texts[0] == texts[1]
    assert [inspect(one)["model"]["router_aux_loss_coef"] for one in (bundle, plain)] == [COEFFICIENT, 0]


def test_verify_knows_of_it(qwen3, tmp_path):
    model, bundle = qwen3
    model.config.save_pretrained(tmp_path)
    assert mebp.verify(bundle, tmp_path).agrees


def test_a_sequence_is_refused(qwen3):
    model, bundle = qwen3
    session = mebp.Session(bundle, accumulate=True)
    ids = models.token_ids(model, 1, 9).numpy()
    with pytest.raises(mebp.Error, match="^the bundle's routers have a loss of their own, which a step over sequences"):
        session.sequence(ids, np.ones_like(ids))


def test_a_model_without_routers_is_refused(tmp_path):
    with pytest.raises(mebp.Error, match="--router-aux-loss-coef: the model has no router; leave it out"):
        make_bundle(models.build("llama"), tmp_path, seq_len=8, router_aux_loss_coef=COEFFICIENT)
