# SPDX-License-Identifier: Apache-2.0
"""TRL's own loss code, unchanged, on log-probabilities that a test makes: the judge of mebp's objectives.

Its methods are called on a stand-in for their trainer that has what they read and nothing else.
"""

import contextlib
import sys
import types
from collections import defaultdict
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import SimpleNamespace

import torch

from support.judges import judge


def _stand_in(name: str) -> types.ModuleType:
    """For what TRL imports and its losses do not use: 270 MB."""

    def attribute(attribute_name):
        if attribute_name.startswith("__"):
            raise AttributeError(attribute_name)
        return type(attribute_name, (), {})

    module = types.ModuleType(name)
    module.__path__, module.__spec__, module.__getattr__ = [], ModuleSpec(name, None), attribute
    return module


def trainer(module: str, name: str) -> type:
    """A trainer of TRL, from where scripts/setup.sh puts it."""
    missing = [each for each in ("datasets", "pandas", "pyarrow") if find_spec(each) is None]
    names = [
        name
        for name in ("datasets", "datasets.fingerprint", "pandas", "pyarrow", "pyarrow.compute", "pyarrow.types")
        if name.split(".")[0] in missing
    ]
    sys.modules.update({name: _stand_in(name) for name in names})
    try:
        return getattr(judge(module), name)
    finally:  # whatever else asks for them later must see that they are not there
        for each in names:
            del sys.modules[each]


class _Accelerator:
    """Of one process."""

    device = torch.device("cpu")
    num_processes = 1
    sync_gradients = True

    def gather(self, values):
        return values

    gather_for_metrics = gather

    def reduce(self, values, reduction):
        return values

    def pad_across_processes(self, values, **_):
        return values

    def unwrap_model(self, model):
        return model


class _Model(torch.nn.Module):
    is_gradient_checkpointing = False

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def forward(self, *_, **__):
        return SimpleNamespace(logits=self.logits)


def metrics_of(trainer_object):
    return {name: values[-1] for name, values in trainer_object._metrics["train"].items()}


@contextlib.contextmanager
def default_type(dtype):
    """TRL makes a tensor of an option here and there, in the default type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


# Label smoothing to try a loss of pairs with, where it may have any.
SMOOTHING = {"exo_pair": 1e-3, "robust": 0.1, "aot": 0.1, "aot_unpaired": 0.1}


def dpo_loss(options, logits, reference_logits, ids, completion_mask):
    """Loss and metrics of a batch [chosen..., rejected...] by DPOTrainer._compute_loss.

    logits, reference_logits: [2 pairs, length, vocabulary], ids and completion_mask: [2 pairs, length].
    """
    dpo = trainer("trl.trainer.dpo_trainer", "DPOTrainer")
    model = _Model(logits)
    stub = SimpleNamespace(**vars(options))
    vars(stub).update(
        model=model,
        ref_model=_Model(reference_logits),
        accelerator=_Accelerator(),
        args=SimpleNamespace(gradient_checkpointing_kwargs=None, **vars(options)),
        aux_loss_enabled=False,
        precompute_ref_logps=False,
        loss_types=list(options.loss_type),
        loss_weights=list(options.weights),
        _metrics={"train": defaultdict(list)},
        _total_train_tokens=0,
        _tp_size=1,
    )
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "completion_mask": completion_mask}
    with default_type(logits.dtype):
        loss = dpo._compute_loss(stub, model, inputs, return_outputs=False)
    return loss, metrics_of(stub)


class _Letters:
    """A tokenizer of texts in which each id is a letter."""

    bos_token_id = None

    def __init__(self, end):
        self.eos_token_id = end

    def __call__(self, text, add_special_tokens):
        ids = list(map(ord, text))
        return {"input_ids": ids, "attention_mask": [1] * len(ids)}


def orpo_loss(options, pairs, logits):
    """Loss and metrics of a batch by ORPOTrainer.get_batch_loss_metrics, of what its tokenize_row and its collator make
    of the pairs.

    pairs: (prompt, chosen, rejected), lists of ids, each answer with the token that ends it.
    logits: [2 pairs, length, vocabulary] of the batch [chosen..., rejected...], as long as the longest.
    """
    orpo = trainer("trl.experimental.orpo.orpo_trainer", "ORPOTrainer")
    collator = trainer("trl.experimental.utils", "DPODataCollatorWithPadding")
    stub = SimpleNamespace(
        **vars(options),
        accelerator=_Accelerator(),
        aux_loss_enabled=False,
        is_encoder_decoder=False,
        max_length=1 << 20,
        padding_value=0,
        processing_class=_Letters(pairs[0][1][-1]),
        concatenated_inputs=orpo.concatenated_inputs,
        get_batch_logps=orpo.get_batch_logps,
    )
    for name in ("build_tokenized_answer", "concatenated_forward", "odds_ratio_loss"):
        setattr(stub, name, types.MethodType(getattr(orpo, name), stub))
    texts = [["".join(map(chr, ids)) for ids in pair] for pair in pairs]
    rows = [orpo.tokenize_row(stub, dict(zip(("prompt", "chosen", "rejected"), each, strict=True))) for each in texts]
    return orpo.get_batch_loss_metrics(stub, _Model(logits), collator(pad_token_id=0)(rows))


def grpo_loss(
    options, logps, entropies, inputs, max_completion_length, accumulate=1, token_level_gspo=False, controller=None
):
    """Loss and metrics of a batch by GRPOTrainer._compute_loss.

    logps, entropies: [sequences, length], of completions that start after a prompt of one token.
    inputs: TRL's, of which completion_mask and advantages are needed.
    """
    if token_level_gspo:
        grpo = trainer("trl.experimental.gspo_token.grpo_trainer", "GRPOTrainer")
    else:
        grpo = trainer("trl.trainer.grpo_trainer", "GRPOTrainer")
    correction = options.sampling_correction
    model = SimpleNamespace(training=True)
    stub = SimpleNamespace(**vars(options))
    vars(stub).update(
        model=model,
        accelerator=_Accelerator(),
        args=SimpleNamespace(**vars(options), steps_per_generation=accumulate),
        epsilon_low=options.epsilon,
        epsilon_high=options.epsilon if options.epsilon_high is None else options.epsilon_high,
        use_vllm=correction is not None,
        vllm_importance_sampling_correction=correction is not None,
        current_gradient_accumulation_steps=accumulate,
        max_completion_length=max_completion_length,
        aux_loss_enabled=False,
        use_adaptive_entropy=False,
        _entropy_bonus_enabled=options.entropy_coef != 0,
        _metrics={"train": defaultdict(list)},
        _get_per_token_logps_and_entropies=lambda *_, **__: (logps, entropies, None),
        get_gamma_weights=getattr(grpo, "get_gamma_weights", None),
        get_off_policy_mask=getattr(grpo, "get_off_policy_mask", None),
    )
    stub.get_high_entropy_mask = types.MethodType(grpo.get_high_entropy_mask, stub)
    shape = inputs["completion_mask"].shape
    ids = torch.ones(shape, dtype=torch.long)
    inputs = {
        "prompt_ids": ids[:, :1],
        "prompt_mask": ids[:, :1],
        "completion_ids": ids,
        "num_items_in_batch": inputs["completion_mask"].sum(),
        **inputs,
    }
    with default_type(logps.dtype):
        loss = grpo._compute_loss(stub, model, inputs)
    return loss, metrics_of(stub)


class _Tokenizer:
    pad_token_id, eos_token_id = 0, 1

    def batch_decode(self, ids, skip_special_tokens):
        return [""] * len(ids)


def grpo_batch(options, advantage_options, rewards, completions, old=None, sampled=None, written=None):
    """What GRPOTrainer._generate_and_score_completions makes of completions (lists of ids) and their rewards.

    rewards: [completions, functions]; old: [completions, length]; sampled: a list for each completion,
    and so is written, 0 where a tool wrote.
    """
    grpo = trainer("trl.trainer.grpo_trainer", "GRPOTrainer")
    functions = rewards.shape[1]
    weights = advantage_options.reward_weights or [1.0] * functions
    correction = options.sampling_correction
    count = len(completions)
    stub = SimpleNamespace(
        model=SimpleNamespace(training=True, is_gradient_checkpointing=False),
        accelerator=SimpleNamespace(**{name: getattr(_Accelerator(), name) for name in ("device", "gather", "reduce")}),
        args=SimpleNamespace(
            per_device_train_batch_size=count,
            steps_per_generation=1,
            gradient_accumulation_steps=1,
            gradient_checkpointing_kwargs=None,
        ),
        environment_factories=None,
        environments=None,
        tools=None,
        pad_to_multiple_of=None,
        _tokenizer=_Tokenizer(),
        processing_class=_Tokenizer(),
        mask_truncated_completions=options.mask_truncated_completions,
        num_iterations=1,
        beta=0.0,
        use_vllm=correction is not None,
        vllm_importance_sampling_correction=correction is not None,
        vllm_importance_sampling_mode=correction and correction.mode,
        vllm_importance_sampling_clip_min=correction and correction.clip_min,
        vllm_importance_sampling_clip_max=correction and correction.clip_max,
        num_generations=advantage_options.num_generations,
        multi_objective_aggregation=advantage_options.multi_objective_aggregation,
        scale_rewards=advantage_options.scale_rewards,
        reward_weights=torch.tensor(weights, dtype=torch.float64),
        reward_funcs=[None] * functions,
        reward_func_names=[str(index) for index in range(functions)],
        log_multimodal=False,
        _metrics={"train": defaultdict(list)},
        _logs=defaultdict(lambda: defaultdict(list)),
        _pending_extra_logs={},
        _pending_metrics={},
        _generate=lambda prompts: ([[2]] * count, completions, written, completions, sampled, {}, None, None),
        _calculate_rewards=lambda *_: torch.tensor(rewards, dtype=torch.float64),
        _get_per_token_logps_and_entropies=lambda *_, **__: (old, None, None),
    )
    stub.accelerator.process_index = 0
    for name in ("prompt", "completion", "advantages"):
        stub._logs[name] = []
    with default_type(torch.float64):
        output = grpo._generate_and_score_completions(stub, [{"prompt": "p"}] * count)
    return output, metrics_of(stub)
