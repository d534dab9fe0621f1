# SPDX-License-Identifier: Apache-2.0
"""A training session over a compiled bundle."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from mebp import arrays, generation, session_options
from mebp.adapters.keys import loadable
from mebp.cache import hold_entry_of
from mebp.distributed.taker import BlockWeights, GradientTaker
from mebp.errors import Error
from mebp.extension import load_runtime
from mebp.files import make_parent, own_files, user_path
from mebp.inspect import describe, describe_shortly
from mebp.numbers import check_argument, check_not_negative, checked, whole_number
from mebp.plan import Plan
from mebp.remote_adapters import is_factor
from mebp.sequences import Sequences, check_text
from mebp.step_result import StepResult
from mebp.tensor_names import is_of_model
from mebp.trained_model import TrainedModel, model_shapes
from mebp.words import say


class Session(Sequences):
    """One training run: a bundle's frozen weights (mapped, never copied), an adapter and an optimizer.

    Everywhere, `input_ids` and `labels` are integer arrays [batch, sequence], or what numpy makes one of, up to the
    compiled batch and sequence; a shorter sequence costs its own length. Labels are as in transformers: -100 is
    ignored, the shift happens inside (an encoder has none). Losses are in nats per label.

    Where a bundle `packs`, rows may have several samples, one after another, with `starts` [batch, sequence]: of each
    token the position in its row where its sample starts. A token attends to its own sample alone, and nothing
    predicts a sample's first token: loss and gradients are those of the samples in rows of their own.

    Whatever is wrong with an argument is an mebp.Error, whose line names it and says what to do.

    A session is used by one thread at a time; several sessions may run side by side. Ctrl-C during a call is seen when
    the call has ended, so it never leaves a step half done.
    """

    @checked
    def __init__(
        self,
        path: str | os.PathLike[str],
        device: str = "cpu",
        threads: int | None = None,
        optimizer: str | None = None,
        lr: float = 2e-4,
        *,
        weight_decay: float = 0.0,
        clip: float | None = None,
        reference_kernels: bool = False,
        forward_only: bool = False,
        return_gradients: bool | None = None,
        accumulate: bool = False,
        resident_limit: int | str | None = None,
        spill_folder: str | os.PathLike[str] | None = None,
        profile: str | os.PathLike[str] | None = None,
        state_in_file: bool = False,
        generate_only: bool = False,
        clip_recompute: bool = False,
        pending_gradients: bool = False,
        value_adapter: bool = False,
        stream: object | None = None,
        tree_batches: int = 0,
        taker: object | None = None,
        weights: object | None = None,
        **optimizer_options: object,
    ) -> None:
        """Opens the bundle folder `path`. Its options, by docs/write_options.py:
        optimizer: which optimizer: adamw, sgd, lion, adamw8bit, galore, qgalore or mezo, which takes losses instead of
            gradients (default: as compiled)
        device: compute on cpu, mlx (a GPU) or mlx-cpu, see mebp devices (default: cpu)
        lr: learning rate; with a schedule, the highest (default: 2e-4)
        weight_decay: weight decay, decoupled but for sgd (default: 0)
        clip: the most that the gradient's L2 norm over all trainables may be, as torch's clip_grad_norm_ has it
            (default: any)
        threads: CPU threads to use (default: all)
        reference_kernels: the naive kernels that the fast ones are checked against, whatever MEBP_KERNELS says
        forward_only: losses, logits and generation alone: no room for gradients, checkpoints or an optimizer's state
        return_gradients: room for gradients that are read; without it, accumulate and clip, each gradient is applied as
            soon as it is there, and a step needs as little as was planned
        accumulate: room for steps over several micro-batches, or over sequences
        resident_limit: keep at most this much of the mapped weights in memory, such as 128MiB
        spill_folder: keep checkpoints in a file in this folder, on a disk (default: $TMPDIR, if the plan spills)
        profile: record every kernel call, for ui.perfetto.dev
        state_in_file: keep what is trained and the optimizer's state there, too; every step writes all of it
        generate_only: generation alone, by a bundle that was compiled for it: not even room for a loss
        clip_recompute: compute gradients twice instead of keeping them for clip; the same bits without their room
        pending_gradients: with accumulate, room for a gradient whose factor comes later
        value_adapter: with accumulate, a value head has an adapter and an optimizer state of its own

        Beside them:
        stream: of a device's half of a split model, the way to its server: mebp.split.connect.
        tree_batches, taker, weights: of a step that several processes share: mebp.distributed.
        optimizer_options: what the optimizer has of its own, None for its default; no other one's.
            betas, eps: of every AdamW, (0.9, 0.999) and 1e-8 (galore: 1e-6, not qgalore); betas of lion, (0.9, 0.99).
            momentum: of sgd; 0 for none, which keeps nothing. None for the one that the bundle was compiled for.
            perturbation: what MeZO's directions, standard normal numbers, are multiplied with; 1e-3.
            galore_scale: what GaLore's updates are multiplied with; 0.25.
            galore_update_interval: steps after which GaLore looks for its subspaces anew; 200. For Q-GaLore the first
                ones: the interval of a matrix doubles where its last five subspaces are alike by galore_cos_threshold
                in the mean, a cosine; 0.4, above 1 never.
            galore_refresh: how it finds them, "sketch" or "svd", exactly, which takes long; "sketch".
        A bundle for galore or qgalore trains with no other optimizer, and loss_and_gradients gives its gradients in
        their subspaces. adamw8bit keeps AdamW's moments in eight bits, as bitsandbytes does. MeZO takes the slope of
        two losses along a random direction, with the bundle's seed, instead of a gradient: its memory is that of a
        forward, and it needs many more steps.
        Raises mebp.Error where the bundle is missing, damaged or too new, or an option is invalid.
        """
        given = {name: value for name, value in locals().items() if name in session_options.option_kinds()}
        runtime = load_runtime()
        check_argument("stream", stream, runtime.Stream | None)
        check_argument("taker", taker, GradientTaker | None)
        check_argument("weights", weights, BlockWeights | None)
        session_options.check_names(type(self), optimizer_options)
        session_options.check_options(threads, lr, weight_decay, clip)
        self.path = hold_entry_of(user_path(path))
        self._bundle = runtime.Bundle(os.fspath(self.path))
        self._info = self._bundle.info()
        self._description = describe(self._bundle)
        self.manifest, plan = (self._description[name] for name in ("manifest", "plan"))
        self.optimizer = optimizer or plan["optimizer"] or session_options.default_optimizer()
        self._shapes, self._process = dict(self._bundle.trainables()), os.getpid()
        self.device, self.has_pending_gradients, self.has_value_adapter = device, pending_gradients, value_adapter
        returns = not session_options.takes_losses(self.optimizer) if return_gradients is None else return_gradients
        given |= {"optimizer": self.optimizer, "return_gradients": returns}
        texts = session_options.option_texts(given)
        texts |= session_options.optimizer_texts(optimizer_options, plan, self.optimizer)
        texts |= {"tree_batches": str(tree_batches)} if tree_batches else {}
        self._native = runtime.Session(self._bundle, stream, texts, taker, weights)
        for warning in self._native.take_warnings():
            say(f"warning: {warning}", error=True)

    @property
    def _session(self) -> object:
        if os.getpid() != self._process:
            raise Error(
                f"this session belongs to process {self._process}, and a forked process has none of its threads; "
                "make a session there, or start processes by 'spawn'"
            )
        return self._native

    def __repr__(self) -> str:
        model, trained = self._description["model"], describe_shortly(self._description)
        return (
            f"Session({self.path.name}: batch {self.max_batch}, up to {self.max_sequence} tokens, "
            f"{model['activation']}, {trained}, {self.optimizer}, step {self.steps})"
        )

    @property
    def max_batch(self) -> int:
        """The largest batch that the bundle was compiled for."""
        return self._info["max_batch"]

    @property
    def max_sequence(self) -> int:
        """The longest sequence that the bundle was compiled for."""
        return self._info["max_sequence"]

    @property
    def max_positions(self) -> int:
        """The most tokens that a prompt and its answer may have together."""
        return self._info["max_positions"] or self.max_sequence

    @property
    def vocabulary(self) -> int:
        """Ids and labels are below this number."""
        return self._info["vocabulary"]

    @property
    def plan(self) -> Plan:
        """What the compiler reckoned for the largest batch and sequence: a dict, in bytes; print it to read it.

        peak_bytes: anonymous and written memory of a process that only trains; process_bytes: of it, the runtime's own.
        arenas: what the rest is made of, by name.
        weights_bytes: the mapped weights, read alone; python_bytes: about what Python has; both are beside it.
        session_bytes: this session's arena, with room for all gradients where it returns, sums or clips them.
        planned_peak_bytes: what peak_bytes is with this session's options and threads.
        chunk_sizes: "chunk", rows of one along the sequence (0: not chunked); "loss_rows", "loss_columns", of the loss.
        spacing: every how many layers a checkpoint is kept. budget_bytes: what was asked for; 0: nothing.
        spill_checkpoints, spill_optimizer: they are in a file instead; file_bytes: written to it in each step;
            seconds_without_spill, peak_bytes_without_spill: of the fastest plan within the budget that writes nothing.
        resident_limit: of the mapped weights, a run holds no more in memory at once; 0: the system decides.
        live_bytes: what a step needs at its fullest moment. at_peak: values in use where the scratch arena is fullest.
        other_peaks: what peak_bytes is with each optimizer and each use of the gradients.
        in_flight_bytes: of a device's half of a split model, what each micro-batch in flight beyond the first takes.
        generation, generation_peak_bytes: what a process needs that only generates text; 0 where the bundle cannot.
        device: what it was reckoned for. device_bytes, generation_device_bytes: what a GPU holds beside the weights, in
            a step and to generate text; on a device, planned_peak_bytes has them in it.
        optimizer, threads, predicted_seconds, calibrated: what it was reckoned for, and the time of a step.
        """
        return Plan(
            self._description,
            session_bytes=self._session.arena_bytes(),
            planned_peak_bytes=self._session.planned_peak_bytes(),
        )

    @property
    def kernels(self) -> str:
        """The family of CPU kernels that runs, such as "avx512": the best of this CPU, or what MEBP_KERNELS names.

        The environment is read once a process. Making a session fails for a name that this CPU lacks.
        """
        return self._session.kernels()

    @property
    def steps(self) -> int:
        """Updates applied so far, those before a loaded state included."""
        return self._session.steps()

    @property
    def refreshes(self) -> tuple[int, int]:
        """How often GaLore or Q-GaLore has looked for the subspace of a matrix, over all matrices, and how often it
        would have with the first interval kept. (0, 0) of other optimizers."""
        return self._session.refreshes()

    @checked
    def set_learning_rate(self, lr: float, embedding_lr: float | None = None) -> None:
        """The rate of the next steps, a finite number of at least 0.

        embedding_lr: of rows of new tokens, and of an embedding or head that is trained whole; None for the one that it
            has, at first that of all. Raises mebp.Error where no such thing is trained, and with MeZO.
        """
        check_not_negative("lr", lr)
        self._session.set_learning_rate(lr)
        if embedding_lr is not None:
            check_not_negative("embedding_lr", embedding_lr)
            self._session.set_embedding_learning_rate(embedding_lr)

    @property
    def packs(self) -> bool:
        """Whether several samples may share a row: the bundle was compiled with packing."""
        return self._info["packs"]

    def loss(self, input_ids: object, labels: object, starts: object = None) -> float:
        """The mean loss over the labels that count, in nats; nothing is changed."""
        ids, targets = arrays.token_arrays(input_ids, labels)
        return float(self._session.loss(ids, targets, arrays.starts_array("starts", starts, ids)))

    def loss_and_gradients(
        self, input_ids: object, labels: object, starts: object = None
    ) -> tuple[float, dict[str, np.ndarray]]:
        """The loss and its gradient by every trainable, without the dropout that steps have; nothing is changed.

        Gradients are {PEFT key: float32 array} of the shapes of trainables(): lora_A [rank, in], lora_B [out, rank]; or
        {the model's own name: float32 array} where its own weights are trained.
        Raises mebp.Error in a session without return_gradients, and where the loss is not finite.
        """
        ids, targets = arrays.token_arrays(input_ids, labels)
        loss = self._session.gradients(ids, targets, arrays.starts_array("starts", starts, ids))
        return float(loss), self.gradients()

    def step(self, input_ids: object, labels: object, starts: object = None) -> StepResult:
        """Forward, backward and one update.

        Lists of arrays are micro-batches of one update, each [batch, sequence] of its own shape, which needs a session
        with accumulate=True. They count as one batch: every label weighs the same, whichever micro-batch it is in.
        Raises mebp.Error where a micro-batch is refused or the loss or the gradient is not finite. Parameters and the
        optimizer's state are then as they were before. (A session without return_gradients, accumulate and clip
        applies each gradient at once, and guards against the loss alone.)
        """
        ids, targets = arrays.micro_batches(input_ids, labels)
        return StepResult(*self._session.step(ids, targets, arrays.starts_of_batches(starts, ids)))

    @property
    def native(self) -> object:
        """The C API's: what mebp.distributed takes of a session that is a part of a step's."""
        return self._session

    def apply_gradients(self, gradients: Mapping[str, object]) -> None:
        """One update with gradients that the caller gives, {PEFT key: array} of the shapes of trainables().

        None is clipped. Raises mebp.Error, with nothing applied, where a key is missing or unknown or a shape differs.
        """
        checked = arrays.named_arrays("gradient", gradients, self._shapes, complete=True)
        self._session.apply_gradients([checked[key] for key in self._shapes])

    @property
    def classes(self) -> list[str]:
        """What a classifier tells apart, in the order of its logits; empty where tokens are predicted."""
        return self._description["model"]["classes"]

    @property
    def task(self) -> str:
        """What the bundle is for: "causal", "classify", "token-classify" or "fill-mask"."""
        return self._description["model"]["task"]

    @checked
    def logits(self, input_ids: object, first: int = 0, count: int | None = None, starts: object = None) -> np.ndarray:
        """float32 [batch, count, vocabulary]: the logits at positions [first, first + count); by default all.

        Those at a position are of the token after it, an encoder's of its own; a classifier's [batch, count, classes].
        Raises mebp.Error for positions outside of the sequence.
        """
        ids = arrays.token_array("input_ids", input_ids)
        count = ids.shape[1] - first if count is None else count
        if first < 0 or count < 1 or first + count > ids.shape[1]:
            raise Error(f"positions [{first}, {first + count}) are outside the sequence of {ids.shape[1]} tokens")
        return self._session.logits(ids, first, count, arrays.starts_array("starts", starts, ids))

    def generate(
        self,
        input_ids: object,
        max_new_tokens: int = 32,
        eos_token_id: int | Collection[int] | None = None,
        *,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = 1.0,
        stop: str | Sequence[str] | None = None,
        seed: int = 0,
        samples: int = 1,
        callback: Callable[[np.ndarray], object] | None = None,
        source: generation.Kept | None = None,
        drafts: int = 0,
    ) -> np.ndarray:
        """Prompts and their continuations: int64 [batch, sequence + n], n <= max_new_tokens.

        A bundle that was compiled with --generate-len keeps the keys and values of earlier tokens, so that each new one
        costs a row; any other computes the whole sequence again for each.

        input_ids: integers [batch, sequence], all prompts of one length.
        eos_token_id: a row that came to it (or to one of several) is filled up with it; all rows there, it ends.
        temperature: 0 takes the likeliest token. Above 0, tokens are drawn from softmax(logits / temperature): of the
            top_k likeliest, of those only as many as together reach the probability top_p, and of those only the ones
            that are at least min_p times as likely as the likeliest.
        repetition_penalty: above 1, tokens that the row has already become less likely, as transformers has it.
        stop: a row whose new text, by the bundle's tokenizer, has come to this (or to one of several) ends there; it is
            filled up with its last token.
        seed: of the draws, by a generator of this call's own: the same arguments give the same tokens.
        samples: so many rows of each prompt, one after the other; a single prompt is computed once for all of them.
        callback: called with each step's tokens, int64 [batch], as soon as they are chosen.
        source: keys and values of an earlier call, of `keys_and_values()`: what both prompts begin with is not computed
            again.
        drafts: of a single sequence whose text repeats itself, up to so many tokens are computed together with the next
            one, and those that turn out to be right are kept: the same tokens in fewer passes. `source` counts these.

        Raises mebp.Error where the prompt and max_new_tokens exceed max_positions, or the rows the compiled batch.
        """
        check_text(self)
        sampler = generation.Sampler(
            temperature, top_k, top_p, seed, min_p=min_p, repetition_penalty=repetition_penalty
        )
        ids = arrays.token_array("input_ids", input_ids, "give prompts of other lengths in calls of their own")
        ids = np.repeat(ids, whole_number("samples", samples, at_least=1), axis=0)
        count = whole_number("max_new_tokens", max_new_tokens, at_least=1)
        drafts = whole_number("drafts", drafts, at_least=0)
        return generation.continue_prompts(self, ids, count, sampler, eos_token_id, stop, callback, source, drafts)

    @property
    def generates(self) -> bool:
        """Whether the bundle was compiled with --generate-len."""
        return self._info["max_positions"] > 0

    def keys_and_values(self) -> generation.Kept:
        """Memory for one conversation or other run of calls of generate, which have to name it; freed with the object.

        Raises mebp.Error where the bundle was compiled without --generate-len.
        """
        return generation.Kept(load_runtime().Generation(self._session), self.max_positions)

    def trainables(self) -> dict[str, np.ndarray]:
        """Copies of all trainable tensors, {PEFT key: float32 array}, keys as in adapter_model.safetensors.

        lora_A is [rank, in], lora_B [out, rank]. Where the model's own weights are trained, they have its names and
        shapes.
        """
        return {key: self._session.read_trainable(index) for index, key in enumerate(self._shapes)}

    def set_trainables(self, values: Mapping[str, object]) -> None:
        """Overwrites the given trainables, {PEFT key: array}; the others stay.

        Raises mebp.Error, with nothing set, for an unknown key or another shape.
        """
        checked = arrays.named_arrays("trainable", values, self._shapes, complete=False)
        for index, key in enumerate(self._shapes):
            if key in checked:
                self._session.write_trainable(index, checked[key])

    def base_weights(self) -> dict[str, np.ndarray]:
        """The frozen weights {Hugging Face name: float32 array}, dequantised as the kernels see them.

        Shapes are transformers' own; a tied tensor comes under each of its names, as one array. All are in memory at
        once, four bytes a parameter: mebp.merge, which writes them to a file, holds one at a time.
        """
        return self._read_weights(factors=False)

    def frozen_factors(self) -> dict[str, np.ndarray]:
        """A [rank_down, in] and B [out, rank_up], between which adapters train {PEFT key: float32 array}."""
        return self._read_weights(factors=True)

    def _read_weights(self, factors: bool) -> dict[str, np.ndarray]:
        weights = {}
        for index, description in enumerate(self._description["weights"]):
            if is_factor(description["name"]) == factors and is_of_model(description["name"]):
                values = self._bundle.read_weight(index)
                weights |= dict.fromkeys([description["name"], *description["aliases"]], values)
        return weights

    @checked
    def save_adapter(self, folder: str | os.PathLike[str]) -> None:
        """Writes a PEFT folder (adapter_config.json, adapter_model.safetensors), whole or not at all.

        A value head lies beside it, in value_head.safetensors, and in value_adapter.safetensors its own adapter.
        """
        make_parent(folder, "choose another folder")
        self._session.save_adapter(os.fspath(user_path(folder)))

    @property
    def model(self) -> TrainedModel:
        """All weights as they are now, of a session that trains the model's own."""
        names = {name: index for index, name in enumerate(self._shapes)}

        def read(index: int) -> np.ndarray:
            trained = names.get(self._description["weights"][index]["name"])
            return self._bundle.read_weight(index) if trained is None else self._session.read_trainable(trained)

        return TrainedModel(self.path, self._description, model_shapes(self._description, self._bundle.weights()), read)

    @checked
    def save_model(self, folder: str | os.PathLike[str]) -> None:
        """Writes the model with its trained weights as the new transformers folder `folder`, whole or not at all.

        That is safetensors, each weight in bf16 or float32 as the bundle has it, config.json, and the tokenizer's
        files. Raises mebp.Error where the bundle trains an adapter, a number is not finite, or the folder is not empty.
        """
        self.model.check("save_model", "save the adapter, and merge it")
        self.model.write(user_path(folder), replace=False)

    @checked
    def load_adapter(self, folder: str | os.PathLike[str]) -> None:
        """Takes the adapter of a PEFT folder, in float32, bfloat16 or float16; the optimizer's state stays as it is.

        A value head comes with it, or begins anew where the folder has none, or has it on an adapter of its own. That
        one is taken within by_value_adapter().
        Raises mebp.Error, with nothing taken, where the adapter is not LoRA as this bundle computes it: of another
        rank, alpha, target layers or shapes, or with parts (DoRA, biases, saved modules) that would be lost.
        """
        with loadable(own_files(user_path(folder)), self._shapes) as readable:
            self._session.load_adapter(os.fspath(readable))

    @checked
    def save_state(self, folder: str | os.PathLike[str], user: bytes = b"") -> None:
        """Writes all that a bitwise equal continuation needs, crash-safe; `user` travels along.

        That is the adapter, the optimizer's state and the number of steps: where the data stands is the caller's to
        keep, in `user`. The state that this session saved there before stays beside the new one.

        Raises mebp.Error, with the states there as they were, where the disk fails, and after a step that failed half
        applied.
        """
        make_parent(folder, "choose another folder")
        self._session.save_state(os.fspath(user_path(folder)), user)

    @checked
    def load_state(self, folder: str | os.PathLike[str]) -> bytes:
        """Continues from the newest saved state, or the one before it where that is damaged; returns what `user` was.

        The family of kernels is the state's from here on, where this machine has it. `notes` says what is worth saying.

        Raises mebp.Error, with nothing changed, where the state is of another bundle or optimizer, or damaged.
        """
        return self._session.load_state(os.fspath(user_path(folder)))

    @checked
    def pause(self, folder: str | os.PathLike[str], user: bytes = b"") -> None:
        """Saves the state as save_state does, then frees the memory; until `resume`, other calls are refused."""
        make_parent(folder, "choose another folder")
        self._session.pause(os.fspath(user_path(folder)), user)

    def resume(self) -> None:
        """Continues, bit for bit, after `pause`. Where memory or state is gone, raises mebp.Error and stays paused."""
        self._session.resume()

    @property
    def notes(self) -> str:
        """One line on the state that was loaded last: that it is the older of two, or that other kernels run; or ""."""
        return self._session.notes()

    @property
    def is_poisoned(self) -> bool:
        """A step has failed half applied: steps and saves are refused until load_state succeeds."""
        return self._session.is_poisoned()

    @checked
    def check_space(
        self, state: str | os.PathLike[str] | None = None, adapter: str | os.PathLike[str] | None = None
    ) -> None:
        """Raises mebp.Error where the disks have too little room for what saving there will take."""
        self._session.check_space(os.fspath(state or ""), os.fspath(adapter or ""))
