# SPDX-License-Identifier: Apache-2.0
"""What the options of transformers, TRL, PEFT, Unsloth, mlx-lm, LLaMA-Factory and Axolotl are here: the one table."""

import difflib
import re
from collections.abc import Callable, Collection

from mebp.words import listed

# The options that do it here, of which a command suggests those that it has, and the names that others have for it.
_SAME = (
    ("adapter-out output", "output_dir output_path out_dir out output o save_path save_dir save_folder save_directory"),
    ("adapter-out adapter", "adapter_path adapter_dir adapter_file lora_path lora_dir"),
    ("adapter",
     "adapter_name_or_path adapter_name adapters lora lora_model lora_model_dir lora_adapter peft_model "
     "peft_model_id peft_path resume_adapter_file"),
    ("push-to-hub", "hub_model_id push_to_hub_model_id upload_repo"),
    ("data",
     "dataset datasets dataset_name dataset_path dataset_dir dataset_id data_path data_file data_files data_dir "
     "train_file train_data train_dataset training_data training_file input_file dataset_train_split"),
    ("columns",
     "dataset_text_field text_column text_field text_feature prompt_column prompt_field prompt_feature "
     "response_column completion_feature chat_feature column_mapping column_names label_column"),
    ("eval",
     "eval_file eval_data eval_dataset val_file val_data valid_file valid_data validation_file validation_data "
     "validation_dataset val valid validation do_eval eval_on_start"),
    ("val-split",
     "val_set_size val_size eval_split validation_split validation_split_percentage eval_size test_size "
     "dataset_test_split test_split_size"),
    ("test", "test_file test_data test_dataset"),
    ("eval-every",
     "eval_steps eval_strategy evaluation_strategy eval_interval eval_freq steps_per_eval val_check_interval"),
    ("patience", "early_stopping_patience early_stopping early_stop"),
    ("lr", "learning_rate base_lr max_lr peak_lr lr_rate"),
    ("embedding-lr", "embedding_learning_rate lr_embedding embed_lr"),
    ("steps",
     "max_steps num_steps total_steps train_steps training_steps num_train_steps iters num_iters max_iters n_iters "
     "iterations num_iterations"),
    ("epochs", "num_train_epochs num_epochs n_epochs max_epochs train_epochs epoch"),
    ("batch",
     "per_device_train_batch_size per_device_batch_size per_device_eval_batch_size per_gpu_train_batch_size "
     "train_batch_size eval_batch_size micro_batch_size batch_size batchsize bs"),
    ("accumulate",
     "gradient_accumulation_steps grad_accumulation_steps gradient_accumulation grad_accumulation grad_accum "
     "accumulation_steps accum_steps accumulate_grad_batches iters_to_accumulate"),
    ("seq-len max-new-tokens", "max_length"),
    ("seq-len",
     "max_seq_length max_seq_len max_sequence_length sequence_length sequence_len seq_length seqlen cutoff_len "
     "block_size context_length context_len max_context model_max_length max_model_len max_prompt_length"),
    ("max-new-tokens max-completion",
     "max_tokens max_new_tokens max_completion_length max_gen_tokens max_gen_toks response_length n_predict "
     "num_predict"),
    ("schedule", "lr_scheduler_type lr_scheduler lr_schedule scheduler scheduler_type lr_decay_style"),
    ("warmup-ratio", "warmup_fraction lr_warmup_ratio"),
    ("warmup", "warmup_steps num_warmup_steps lr_warmup_steps warmup_iters"),
    ("optimizer", "optim optimizer_type optimizer_name optim_type optimiser opt"),
    ("betas", "adam_beta1 adam_beta2 beta1 beta2 adam_betas"),
    ("eps", "adam_epsilon adam_eps"),
    ("weight-decay", "wd decay l2"),
    ("clip", "max_grad_norm grad_norm clip_grad clip_grad_norm grad_clip gradient_clipping gradient_clip_val max_norm"),
    ("lora-rank", "lora_r r rank lora_dim lora_rank"),
    ("lora-alpha", "alpha lora_scale"),
    ("rslora", "use_rslora rs_lora use_rs_lora peft_use_rslora rank_stabilized"),
    ("lora-dropout", "dropout"),
    ("lora-layers", "num_layers num_lora_layers layers_to_transform"),
    ("lora-targets",
     "target_modules lora_target_modules lora_target lora_modules lora_keys target_parameters "
     "lora_target_parameters lora_target_linear"),
    ("train", "full_finetuning full_finetune full_fine_tuning fine_tune_type finetuning_type tuning_type"),
    ("train-targets", "trainable_parameters unfrozen_parameters optim_target_modules"),
    ("galore-rank", "optim_galore_rank"),
    ("seed", "random_state random_seed rng_seed manual_seed data_seed train_seed"),
    ("save-every",
     "save_steps save_strategy save_interval save_freq steps_per_save checkpoint_every checkpointing_steps"),
    ("state", "checkpoint_dir checkpoint_path checkpoint ckpt_dir ckpt"),
    ("resume", "resume_from_checkpoint resume_from resume_training continue"),
    ("keep", "load_best_model_at_end save_total_limit save_best save_best_model save_only_best metric_for_best_model"),
    ("overwrite", "overwrite_output_dir overwrite_output force"),
    ("log",
     "logging_dir log_file log_path log_dir logfile logging_steps logging_strategy steps_per_report log_every "
     "log_interval log_steps"),
    ("plot", "plot_loss loss_plot"),
    ("report-to", "log_with use_wandb wandb wandb_project tensorboard swanlab use_swanlab"),
    ("packing", "sample_packing neat_packing eval_packing pack padding_free packing_strategy group_by_length"),
    ("memory-budget", "max_memory max_memory_mb memory memory_limit mem_limit gpu_memory_limit memory_budget"),
    ("ask", "sample_prompts eval_prompts validation_prompt validation_prompts"),
    ("spill-dir spill", "offload offload_dir offload_folder offload_folder_path offload_state_dict cpu_offload"),
    ("threads", "num_threads n_threads nthreads cpu_threads"),
    ("device", "device_map use_cpu no_cuda cuda gpu gpus backend accelerator"),
    ("objective", "trainer stage method algorithm algo rl_type train_mode training_type training_method"),
    ("task", "task_type problem_type lora_task_type"),
    ("classes", "num_labels label_names id2label"),
    ("loss-type", "loss preference_loss pref_loss dpo_loss loss_function"),
    ("label-smoothing", "label_smoothing_factor"),
    ("beta", "dpo_beta pref_beta orpo_beta orpo_alpha"),
    ("kl-coef", "init_kl_coef kl_coefficient kl_penalty_coef kl_beta"),
    ("reference",
     "ref_model reference_model ref_model_name_or_path ref_adapter_name reference_adapter_path ref sync_ref_model "
     "precompute_ref_log_probs"),
    ("reward",
     "reward_funcs reward_func reward_function reward_functions reward_fn reward_model reward_model_path "
     "reward_model_name_or_path"),
    ("samples group", "num_generations group_size num_return_sequences num_samples n_samples n"),
    ("temperature", "temp sampling_temperature"),
    ("repetition-penalty", "repeat_penalty presence_penalty frequency_penalty"),
    ("cliprange", "clip_range clip_eps cliprange_policy"),
    ("lam", "gae_lambda lambda gae_lam"),
    ("num-ppo-epochs", "ppo_epochs"),
    ("entropy-coef", "ent_coef entropy_coeff entropy_bonus"),
    ("reference adapter", "ref_adapter"),
    ("stop", "stop_strings stop_sequences stop_words stop_token extra_eos_token eos"),
    ("system", "system_prompt system_message system_prompt_text"),
    ("prompt", "prompts text input query question message instruction user prompt_file"),
    ("drafts", "draft_model num_draft_tokens assistant_model prompt_lookup_num_tokens"),
    ("chat", "apply_chat_template use_chat_template"),
    ("listen", "host port server_host server_port address bind"),
    ("cert", "ssl_certfile certfile tls_cert"),
    ("key", "ssl_keyfile keyfile tls_key"),
    ("client-ca ca", "ssl_ca_certs ca_certs cafile"),
    ("output", "gguf_path export_gguf mlx_path save_method outfile"),
    ("dtype weights", "quantization quantization_method quantize quant quant_type outtype q_bits bits"),
    ("config", "config_file yaml"),
    ("json", "as_json json_output"),
    ("base", "base_model base_model_name_or_path"),
)  # fmt: skip

# What there is instead, or that it is not there. Options in it are those of mebp train.
_INSTEAD = (
    ("the model comes first, without a name before it",
     "model model_name_or_path model_name model_id model_path base_model base_model_name_or_path "
     "pretrained_model_name_or_path hf_path bundle m"),
    ("activations are bf16, or f32 with --precision f32",
     "bf16 fp16 fp32 tf32 half mixed_precision dtype torch_dtype model_dtype bf16_full_eval fp16_full_eval"),
    ("weights are stored in int4, or as --weights says",
     "load_in_4bit load_in_8bit load_in_16bit quantization_bit quantization quantize quant q_bits q_group_size "
     "bits bnb_4bit_quant_type bnb_4bit_compute_dtype use_bnb_nested_quant use_4bit use_8bit qlora"),
    ("adapters are what is trained, unless --train full is given", "use_peft use_lora peft no_peft no_lora"),
    ("the compiler decides what is computed again, by --memory-budget",
     "gradient_checkpointing grad_checkpoint use_gradient_checkpointing gradient_checkpointing_kwargs "
     "activation_checkpointing activation_offloading auto_find_batch_size gpu_memory_utilization"),
    ("--lora-layers chooses layers by their numbers, and --lora-targets what is adapted in them by its names",
     "layers_pattern finetune_language_layers finetune_attention_modules finetune_mlp_modules"),
    ("dropout is what --lora-dropout says, and none where probabilities are compared", "disable_dropout"),
    ("adapters have no biases here", "bias lora_bias"),
    ("there is no DoRA here; --adapter-kind has the kinds of adapters", "use_dora dora"),
    ("A is drawn by --seed and B is zero", "init_lora_weights use_loftq loftq_config pissa_init"),
    ("adapters alone are trained, or with --train full what --train-targets names",
     "modules_to_save lora_modules_to_save train_embeddings"),
    ("--train-tokens adds tokens to the vocabulary and trains their rows",
     "trainable_token_indices new_tokens added_tokens additional_tokens resize_vocab new_special_tokens"),
    ("there is no noise on embeddings here", "neftune_noise_alpha noisy_embedding_alpha neftune"),
    ("completions and the assistant's turns are learned, unless --loss-on says otherwise",
     "mask_prompt completion_only_loss assistant_only_loss train_on_responses_only train_on_completions "
     "roles_to_train train_on_eos"),
    ("--loss-on all learns prompts, too", "no_mask_prompt train_on_inputs train_on_prompt"),
    ("--loss-on last learns the last answer alone, and --loss-on turns each as it is asked for",
     "mask_history train_last_turn_only train_on_last_turn_only last_turn_only "
     "last_response_only"),
    ("--loss-on and --empty-thoughts say what counts, and --turn-weights multiplies", "loss_scale"),
    ("--empty-thoughts skip is the default, and learn the other choice",
     "ignore_empty_think disable_ignore_empty_think add_non_thinking_prefix"),
    ("marks of the data are read in any case, and --turn-weights takes other numbers than 0 and 1",
     "message_field_training message_field_training_detail prompt_loss_weight"),
    ("the tokenizer's own template is taken",
     "chat_template chat_template_path template use_default_chat_template chat_template_kwargs chat_template_args"),
    ("the tokenizer's own tokens are taken",
     "eos_token pad_token bos_token add_eos_token add_bos_token pad_to_multiple_of tokenizer tokenizer_name "
     "tokenizer_name_or_path resize_token_embeddings"),
    ("the order of the data is drawn by --seed", "shuffle shuffle_dataset shuffle_seed train_sampling_strategy"),
    ("data are read in the run's own process, and kept for the next run",
     "dataloader_num_workers dataset_num_proc num_proc num_workers preprocessing_num_workers dataset_kwargs "
     "streaming dataset_streaming dataloader_pin_memory overwrite_cache remove_unused_columns dataloader_drop_last"),
    ("a run has one process on one machine",
     "deepspeed fsdp fsdp_config local_rank ddp_backend ddp_timeout ddp_find_unused_parameters num_processes "
     "num_gpus nproc_per_node tensor_parallel_size data_parallel_size accelerator_config parallelism_config"),
    ("there are no kernels to choose",
     "attn_implementation attn_impl flash_attn flash_attention flash_attention_2 use_flash_attention_2 "
     "sdp_attention xformers torch_compile torch_compile_backend use_liger_kernel use_liger enable_liger_kernel "
     "unsloth use_unsloth fast_inference torch_empty_cache_steps"),
    ("no code of a model's folder is run; mebp models lists what can be trained",
     "trust_remote_code allow_remote_code"),
    ("--push-to-hub uploads once, at the end; a new repository is private until its page says otherwise",
     "hub_private_repo hub_strategy hub_always_push push_adapter_to_hub"),
    ("the token of hf auth login is taken, or HF_TOKEN", "hub_token hf_token push_to_hub_token use_auth_token"),
    ("a name on the hub ends in @REVISION for it", "revision model_revision hub_revision"),
    ("the program of --report-to reads it from its environment, such as WANDB_PROJECT",
     "run_name wandb_run_name wandb_entity project project_name wandb_watch wandb_log_model wandb_run_id"),
    ("there is a bar on a terminal, and lines elsewhere; --log has each step",
     "disable_tqdm logging_first_step log_level verbose quiet progress progress_bar include_num_input_tokens_seen"),
    ("an adapter is a PEFT folder in safetensors",
     "save_only_model save_safetensors safe_serialization save_format save_on_each_node"),
    ("the model that is trained writes completions itself",
     "use_vllm vllm_mode vllm_server_host vllm_server_port vllm_server_base_url vllm_gpu_memory_utilization "
     "vllm_tensor_parallel_size"),
    ("mebp train trains, and mebp eval measures", "do_train do_predict"),
    ("it samples with --temperature above 0", "do_sample sample greedy"),
    ("there is no search by beams here", "num_beams beam_size length_penalty"),
    ("a bundle keeps K and V as its activations are", "kv_bits kv_group_size quantized_kv_start max_kv_size use_cache"),
)  # fmt: skip

# Commands of these and of other tools.
_COMMANDS = (
    ("mebp train", "finetune fine-tune fine_tune tune lora qlora sft fit learn trainer"),
    ("mebp train --objective dpo", "dpo"),
    ("mebp train --objective orpo", "orpo"),
    ("mebp train --objective grpo", "grpo rl rlhf"),
    ("mebp train --objective ppo", "ppo"),
    ("mebp merge", "fuse merge-lora merge_lora merge-adapter unload gguf"),
    ("mebp generate", "run infer inference predict complete completion sample"),
    ("mebp chat", "talk ask repl webchat interactive"),
    ("mebp eval", "evaluate test perplexity score lm-eval ppl"),
    ("mebp export", "download pull fetch onnx"),
    ("mebp adapter convert", "convert convert-adapter convert_adapter convert-lora"),
    ("mebp inspect", "info show describe plan summary report"),
    ("mebp models", "list ls architectures"),
    ("mebp devices", "env doctor gpus hardware device"),
    ("mebp calibrate", "bench benchmark profile"),
    ("mebp verify", "check gradcheck validate"),
    ("mebp data", "preprocess dataset import prepare"),
    ("mebpc", "compile quantize quantise build awq gptq dwq"),
    ("mebp --version", "version"),
    ("mebp --help", "help commands"),
)  # fmt: skip

SAME = {name: options.split() for options, names in _SAME for name in names.split()}
INSTEAD = {name: sentence for sentence, names in _INSTEAD for name in names.split()}
COMMANDS = {name: command for command, names in _COMMANDS for name in names.split()}


def options_in(sentence: str) -> set[str]:
    """Those that a sentence names, without the dashes before them."""
    return set(re.findall(r"--([a-z][a-z-]*[a-z])", sentence))


def option_hint(written: str, options: Collection[str], shown: Callable[[str], str]) -> str | None:
    """What `written`, which is no option, means by the `options` that there are: other trainers' names go by meaning,
    what is left by its letters. None where nobody knows.

    options: without dashes before them and with - between words; `shown` makes of one what a user types.
    """
    name = plain_name(written)
    meant = [option for option in (name.replace("_", "-"), *SAME.get(name, ())) if option in options]
    if not meant and name in INSTEAD:
        return INSTEAD[name] if options_in(INSTEAD[name]) <= set(options) else None
    if not meant and name not in SAME:
        meant = difflib.get_close_matches(name.replace("_", "-"), options, n=1)
    return f"did you mean {listed(map(shown, meant))}?" if meant else None


def command_hint(written: str, commands: Collection[str]) -> str | None:
    """Likewise of a command."""
    meant = COMMANDS.get(written.lower())
    if meant is None:
        meant = next((f"mebp {name}" for name in difflib.get_close_matches(written, commands, n=1)), None)
    return meant and f"did you mean {meant}?"


def plain_name(written: str) -> str:
    return written.lstrip("-").lower().replace("-", "_")
