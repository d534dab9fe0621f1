// SPDX-License-Identifier: Apache-2.0
// written by docs/write_options.py (make docs) from runtime/train/option_table.h; do not edit
package org.mebp

enum class Optimizer(internal val text: String) {
    ADAMW("adamw"), SGD("sgd"), LION("lion"), ADAMW8BIT("adamw8bit"), GALORE("galore"), QGALORE("qgalore"), MEZO("mezo")
}

/** What mebp.h calls mebp_session_options, with its defaults. */
data class SessionOptions(
    /** Which optimizer: adamw, sgd, lion, adamw8bit, galore, qgalore or mezo, which takes losses instead of gradients
     * (default: as compiled). */
    val optimizer: Optimizer = Optimizer.ADAMW,
    /** Compute on cpu, mlx (a GPU) or mlx-cpu, see mebp devices (default: cpu). */
    val device: String? = null,
    /** Learning rate; with a schedule, the highest (default: 2e-4). */
    val learningRate: Double = 2e-4,
    /** Weight decay, decoupled but for sgd (default: 0). */
    val weightDecay: Double = 0.0,
    /** The most that the gradient's L2 norm over all trainables may be, as torch's clip_grad_norm_ has it (default:
     * any). */
    val clip: Double? = null,
    /** CPU threads to use (default: all). */
    val threads: Int? = null,
    /** The naive kernels that the fast ones are checked against, whatever MEBP_KERNELS says. */
    val referenceKernels: Boolean = false,
    /** Losses, logits and generation alone: no room for gradients, checkpoints or an optimizer's state. */
    val forwardOnly: Boolean = false,
    /** Room for gradients that are read; without it, accumulate and clip, each gradient is applied as soon as it is
     * there, and a step needs as little as was planned. */
    val returnGradients: Boolean = false,
    /** Room for steps over several micro-batches, or over sequences. */
    val accumulate: Boolean = false,
    /** Keep at most this much of the mapped weights in memory, such as 128MiB. */
    val residentLimit: Long? = null,
    /** Keep checkpoints in a file in this folder, on a disk (default: $TMPDIR, if the plan spills). */
    val spillFolder: String? = null,
    /** Record every kernel call, for ui.perfetto.dev. */
    val traceFile: String? = null,
    /** Keep what is trained and the optimizer's state there, too; every step writes all of it. */
    val stateInFile: Boolean = false,
    /** Generation alone, by a bundle that was compiled for it: not even room for a loss. */
    val generateOnly: Boolean = false,
    /** Compute gradients twice instead of keeping them for clip; the same bits without their room. */
    val clipRecompute: Boolean = false,
    /** With accumulate, room for a gradient whose factor comes later. */
    val pendingGradients: Boolean = false,
    /** With accumulate, a value head has an adapter and an optimizer state of its own. */
    val valueAdapter: Boolean = false,
    /** Of the optimizers that have them; null: the optimizer's own. */
    val beta1: Double? = null,
    val beta2: Double? = null,
    val epsilon: Double? = null,
    val momentum: Double? = null,
    /** Others that the optimizer has of its own, by their names on command lines: numbers, or text such as "svd". */
    val optimizerOptions: Map<String, Any> = emptyMap()
) {
    /** Name, text, name, text: of what is not null. */
    internal fun texts(): Array<ByteArray> {
        val known = listOf<Pair<String, Any?>>(
            "optimizer" to optimizer.text,
            "backend" to device,
            "learning_rate" to learningRate,
            "weight_decay" to weightDecay,
            "clip" to clip,
            "threads" to threads,
            "reference_kernels" to referenceKernels,
            "forward_only" to forwardOnly,
            "return_gradients" to returnGradients,
            "accumulate" to accumulate,
            "resident_limit" to residentLimit?.let { "${it}B" },
            "spill_folder" to spillFolder,
            "trace_file" to traceFile,
            "state_in_file" to stateInFile,
            "generate_only" to generateOnly,
            "clip_recompute" to clipRecompute,
            "pending_gradients" to pendingGradients,
            "value_adapter" to valueAdapter,
            "beta1" to beta1,
            "beta2" to beta2,
            "epsilon" to epsilon,
            "momentum" to momentum
        )
        val given = (known + optimizerOptions.toList()).filter { it.second != null }
        return given.flatMap { (name, value) -> listOf(name, "$value") }.map { Native.ended("option", it) }
            .toTypedArray()
    }
}
