# SPDX-License-Identifier: Apache-2.0
"""TRL above mebp: its trainer takes completions that a bundle wrote, and its loss drives a bundle's backward."""

from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model

import mebp
import mebp.torch
import mebp.trl
from mebp.objectives.groups import GRPOOptions
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from support import models, trl_losses
from support.pipeline import make_bundle, reference_for
from support.textmodel import make_tokenizer

LENGTH, ROOM, TEMPERATURE = 40, 10, 0.8
USER = [{"role": "user", "content": "Oil?"}]
PROMPTS = ["The lamp", "The lamp", "A wick", "A wick", "A wick"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trl")
    models.save(models.build("llama", num_hidden_layers=2), folder / "source")
    make_tokenizer(folder / "source")
    return folder


@pytest.fixture(scope="module")
def bundle(folder):
    return make_bundle(folder / "source", folder, seq_len=LENGTH, batch=2, generate_len=LENGTH, weights="f32")


@pytest.fixture
def trainer(folder):
    """What TRL's trainer has and this reads, with a random adapter."""
    torch.manual_seed(0)
    adapter = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", init_lora_weights=False)
    model = get_peft_model(models.build("llama", num_hidden_layers=2), adapter).train()
    tokenizer = make_tokenizer(folder / "source")
    tokenizer.pad_token = tokenizer.eos_token
    settings = {"temperature": TEMPERATURE, "top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}
    return SimpleNamespace(
        model=model,
        accelerator=trl_losses._Accelerator(),
        args=SimpleNamespace(**settings, generation_kwargs=None, max_completion_length=ROOM, seed=3),
        state=SimpleNamespace(global_step=0, num_input_tokens_seen=0),
        processing_class=tokenizer,
        _tokenizer=tokenizer,
        tools=None,
        chat_template=None,
        chat_template_kwargs={},
        use_vllm=False,
        _metrics={mode: defaultdict(list) for mode in ("train", "eval")},
    )


def generated(trainer, function, prompts):
    """By TRL's own code: ids of prompts and completions, texts, and log-probabilities."""
    trainer.rollout_func = function
    made = trl_losses.trainer("trl.trainer.grpo_trainer", "GRPOTrainer")._generate(trainer, prompts)
    return SimpleNamespace(prompts=made[0], ids=made[1], texts=made[3], logps=made[4])


def true_logps(trainer, prompt, completion):
    with torch.no_grad():
        logits = trainer.model(input_ids=torch.tensor([[*prompt, *completion]])).logits[0, :-1] / TEMPERATURE
    return logits.log_softmax(-1)[-len(completion) :].gather(-1, torch.tensor(completion)[:, None])[:, 0].numpy()


@pytest.mark.parametrize("prompts", [PROMPTS, [USER] * 4], ids=["texts", "messages"])
def test_rollout(bundle, trainer, prompts):
    """With the trainer's adapter as it is at that step."""
    write = mebp.trl.rollout(mebp.Session(bundle, forward_only=True))
    for _ in range(2):
        made = generated(trainer, write, prompts)
        for prompt, completion, logps in zip(made.prompts, made.ids, made.logps, strict=True):
            assert np.allclose(logps, true_logps(trainer, prompt, completion), atol=1e-4)
        with torch.no_grad():
            for parameter in trainer.model.parameters():
                parameter += 0.02 * parameter.requires_grad
        trainer.state.global_step += 1
    processing = trainer.processing_class
    if prompts is PROMPTS:
        assert made.prompts == processing(prompts)["input_ids"]
    else:
        template = {"add_generation_prompt": True, "return_dict": True}
        assert made.prompts == processing.apply_chat_template(prompts, **template)["input_ids"]
    assert all(0 < len(ids) <= ROOM for ids in made.ids)


def test_draws(bundle, trainer):
    """A text depends on seed, step, place and number; not on what was written before."""

    def texts(function):
        return [tuple(ids) for ids in generated(trainer, function, PROMPTS).ids]

    first = mebp.trl.rollout(mebp.Session(bundle, forward_only=True))
    begun, again = texts(first), texts(first)
    trainer.model.eval()
    evaluated = texts(first)
    trainer.model.train()
    trainer.state.global_step = 7
    later = texts(first)
    assert len({*begun, *again, *evaluated, *later}) > 4 * len(PROMPTS) - 3  # two short ones may be alike
    assert texts(mebp.trl.rollout(mebp.Session(bundle, forward_only=True, threads=1))) == later
    own = mebp.Session(bundle)
    randomise_adapter(own, seed=1)
    assert texts(mebp.trl.rollout(own, own_adapter=True)) != later


def test_refusals(bundle, trainer):
    write = mebp.trl.rollout(mebp.Session(bundle, forward_only=True))

    def says(**changes):
        given = SimpleNamespace(**(vars(trainer) | changes))
        with pytest.raises(mebp.Error) as caught:
            write(PROMPTS, given)
        return str(caught.value)

    assert says(model=trainer.model.get_base_model()) == (
        "the trainer's model is a LlamaForCausalLM without an adapter, and mebp writes with one; give GRPOTrainer a "
        "peft_config, or rollout own_adapter=True where the session is what is trained"
    )
    penalty = SimpleNamespace(**(vars(trainer.args) | {"repetition_penalty": 1.1}))
    assert says(args=penalty) == "GRPOConfig's repetition_penalty is 1.1, and mebp writes without it; leave it out"
    other = get_peft_model(models.build("llama", num_hidden_layers=2), LoraConfig(r=4, target_modules="all-linear"))
    assert "rank" in says(model=other)
    with pytest.raises(mebp.Error, match="prompt 2 of the batch: the prompt has 60 tokens, which leaves no room"):
        write(["Oil", "x" * 60], trainer)


@pytest.mark.parametrize(
    "options",
    [GRPOOptions(beta=0.1, epsilon=0.05), GRPOOptions("grpo", importance_sampling_level="sequence")],
    ids=["dapo", "of sequences"],
)
def test_loss(bundle, show, options):
    """TRL's _compute_loss, as it is, over mebp.torch.logprobs."""
    session = mebp.Session(bundle, accumulate=True)
    randomise_adapter(session, seed=1)
    random, lengths = np.random.default_rng(0), np.array([9, 4, 7, 12])
    prompt = 5
    ids = random.integers(0, session.vocabulary, (len(lengths), prompt + lengths.max()))
    counted = np.arange(lengths.max()) < lengths[:, None]
    mask = np.concatenate([np.zeros((len(lengths), prompt), bool), counted], axis=1)
    drift = random.normal(scale=0.1, size=(2, *counted.shape))
    given = {"advantages": random.normal(size=len(lengths))}

    def loss(logps):
        beside = dict(zip(("old_per_token_logps", "ref_per_token_logps"), drift, strict=True))
        inputs = {name: logps.detach() + torch.from_numpy(values).to(logps.dtype) for name, values in beside.items()}
        inputs |= {name: torch.from_numpy(values).to(logps.dtype) for name, values in given.items()}
        inputs["completion_mask"] = torch.from_numpy(counted).long()
        return trl_losses.grpo_loss(options, logps, torch.zeros_like(logps), inputs, ROOM)[0]

    def of_torch(reference):
        logits = reference.model(torch.from_numpy(ids)).logits[:, prompt - 1 : -1] / TEMPERATURE
        return loss(logits.log_softmax(-1).gather(-1, torch.from_numpy(ids[:, prompt:, None]))[..., 0])

    model = models.build("llama", num_hidden_layers=2)
    exact, torchs = (
        reference_for(bundle, session, model, dtype).gradients_of(of_torch) for dtype in (torch.float64, torch.float32)
    )
    found = loss(mebp.torch.logprobs(session, ids, mask, TEMPERATURE)[:, prompt - 1 :])
    found.backward()
    assert found.item() == pytest.approx(exact[0], rel=1e-5, abs=1e-6)
    gradients = session.gradients()
    errors = {key: relative_error(gradients[key], value) for key, value in exact[1].items()}
    of_torch = {key: relative_error(torchs[1][key], value) for key, value in exact[1].items()}
    show(f"TRL's loss: worst gradient {max(errors.values()):.1e}, torch f32 {max(of_torch.values()):.1e}")
    for key, error in errors.items():
        assert error <= max(2e-5, 2 * of_torch[key]), key
