// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.io.Closeable

enum class Optimizer(internal val number: Int) {
    SGD(0), ADAMW(1), MEZO(2), LION(3), ADAMW8BIT(4), GALORE(5), QGALORE(6)
}

/** What mebp.h calls mebp_session_options, with its defaults. */
data class SessionOptions(
    val learningRate: Double = 2e-4,
    /** Of the optimizers that have them; null: the optimizer's own. */
    val beta1: Double? = null,
    val beta2: Double? = null,
    val epsilon: Double? = null,
    val weightDecay: Double = 0.0,
    /** Limit of the gradient's L2 norm; 0: none. With one, a step can be cancelled up to its end. */
    val clip: Double = 0.0,
    val optimizer: Optimizer = Optimizer.ADAMW,
    /** 0: as many as the process may run on. */
    val threads: Int = 0,
    /** Makes room so that a step may have several micro-batches. */
    val accumulate: Boolean = false,
    /** Losses alone, which need less memory. */
    val forwardOnly: Boolean = false,
    /** Of the mapped weights in memory, in bytes; 0: the plan's, or none. */
    val residentLimit: Long = 0,
    /** Checkpoints go into a nameless file here. */
    val spillFolder: String? = null,
    /** Of SGD. */
    val momentum: Double = 0.0,
    /** Others that the optimizer has of its own, by their names on command lines: numbers, or text such as "svd". */
    val optimizerOptions: Map<String, Any> = emptyMap()
) {
    internal fun numbers() = doubleArrayOf(learningRate, weightDecay, clip)
    /** Name, value, name, value. */
    internal fun ofOptimizer(): Array<ByteArray> {
        val fields = mapOf<String, Any?>("beta1" to beta1, "beta2" to beta2, "epsilon" to epsilon, "momentum" to momentum)
        val given = (fields + optimizerOptions).filterValues { it != null }
        return given.flatMap { (name, value) -> listOf("$name", "$value") }
            .map { Native.ended("option", it) }.toTypedArray()
    }
    internal fun choices(): LongArray {
        require("threads", threads.toLong())
        require("residentLimit", residentLimit)
        fun number(choice: Boolean) = if (choice) 1L else 0L
        return longArrayOf(
            optimizer.number.toLong(), threads.toLong(), number(accumulate), number(forwardOnly), residentLimit
        )
    }
    internal fun spill() = spillFolder?.let(Native::path)

    private fun require(name: String, value: Long) {
        if (value < 0) throw MebpException(Code.INVALID_ARGUMENT, "$name is $value; give 0 or more")
    }
}

/** [rows] rows of token ids, and labels as in transformers: -100 is ignored, shifted inside. */
class Batch(val ids: IntArray, val labels: IntArray = ids, val rows: Int = 1) {
    internal val columns: Int

    init {
        if (rows < 1 || ids.size % rows != 0 || labels.size != ids.size) {
            val what = "a batch of ${ids.size} ids and ${labels.size} labels is not one of $rows rows"
            throw MebpException(Code.INVALID_ARGUMENT, "$what; give each row as many, and as many labels as ids")
        }
        columns = ids.size / rows
    }
}

data class StepResult(
    /** Mean over the labels that count. */
    val loss: Double,
    /** Before clipping and the update. */
    val gradNorm: Double,
    /** Labels that count. */
    val tokens: Long,
    val seconds: Double,
    /** The highest memory of this process seen so far, as [BundleInfo.peakBytes] counts it. */
    val peakBytes: Long
)

/**
 * One training run over [bundle]. Its functions wait for their end and belong on a thread that may wait; [train] is
 * for coroutines. One thread uses it at a time, another one gets [Code.BUSY]; [cancel], [steps] and [close] are for all.
 */
class Session(bundle: ModelBundle, options: SessionOptions = SessionOptions()) : Closeable {
    private val handle: Handle

    init {
        val owner = bundle.handle
        val held = owner.hold() // until the session is gone
        val pointer = try {
            Native.sessionCreate(
                held, options.numbers(), options.choices(), options.ofOptimizer(), options.spill()
            )
        } catch (failure: Throwable) {
            owner.leave()
            throw failure
        }
        handle = Handle("session", pointer) {
            Native.sessionDestroy(it)
            owner.leave()
        }
    }

    /** Steps made so far. */
    val steps: Long get() = handle.use(Native::sessionSteps)

    /** The family of kernels that runs, "neon_bf16" for one. */
    val kernels: String get() = Native.text(handle.use(Native::sessionKernels))

    /** One line about the state that was loaded last, or "". */
    val notes: String get() = Native.text(handle.use(Native::sessionNotes))

    /**
     * Forward, backward and the update, over several micro-batches only with [SessionOptions.accumulate]. Where it
     * throws, nothing has changed, but where the code is [Code.POISONED].
     */
    fun step(vararg batches: Batch): StepResult = handle.use {
        val one = joined(batches)
        val numbers = Native.sessionStep(it, one.ids, one.labels, one.shapes)
        StepResult(numbers[0], numbers[1], numbers[2].toLong(), numbers[3], numbers[4].toLong())
    }

    fun loss(batch: Batch): Double = handle.use {
        Native.sessionLoss(it, batch.ids, batch.labels, intArrayOf(batch.rows, batch.columns))
    }

    fun setLearningRate(rate: Double) = handle.use { Native.sessionSetLearningRate(it, rate) }

    /** A PEFT folder, written whole or not at all. */
    fun saveAdapter(folder: String) = handle.use { Native.sessionSaveAdapter(it, Native.path(folder)) }

    fun loadAdapter(folder: String) = handle.use { Native.sessionLoadAdapter(it, Native.path(folder)) }

    /** All that a bitwise equal continuation needs; [user] travels along. */
    fun saveState(folder: String, user: ByteArray = ByteArray(0)) =
        handle.use { Native.sessionSaveState(it, Native.path(folder), user) }

    /** Saves the state, as [saveState] does, and gives the memory back; other calls throw [Code.PAUSED] until [resume]. */
    fun pause(folder: String, user: ByteArray = ByteArray(0)) =
        handle.use { Native.sessionPause(it, Native.path(folder), user) }

    /** Continues, bit for bit, where [pause] left the session. Where it throws, the session stays paused. */
    fun resume() = handle.use { Native.sessionResume(it) }

    /** Returns what travelled along. */
    fun loadState(folder: String): ByteArray = handle.use { Native.sessionLoadState(it, Native.path(folder)) }

    /**
     * Ends the step or loss that another thread runs: it throws [Code.CANCELLED], and nothing has changed. Where none
     * runs, the next one ends so. [train] is ended by its coroutine instead. Of a closed session it does nothing.
     */
    fun cancel() = ifOpen(Native::sessionCancel)

    internal fun clearCancel() = ifOpen(Native::sessionClearCancel)

    /** Ends a call that runs, and frees the session behind it. A second time it does nothing. */
    override fun close() {
        cancel()
        handle.close()
    }

    private inline fun ifOpen(call: (Long) -> Unit) {
        val held = handle.holdIfOpen() ?: return
        try {
            call(held)
        } finally {
            handle.leave()
        }
    }

    private class Joined(val ids: IntArray, val labels: IntArray, val shapes: IntArray)

    private fun joined(batches: Array<out Batch>): Joined {
        val shapes = batches.flatMap { listOf(it.rows, it.columns) }.toIntArray()
        val only = batches.singleOrNull() ?: return Joined(all(batches) { it.ids }, all(batches) { it.labels }, shapes)
        return Joined(only.ids, only.labels, shapes)
    }

    private fun all(batches: Array<out Batch>, of: (Batch) -> IntArray) = batches.flatMap { of(it).asList() }.toIntArray()

    companion object {
        /** The steps of the state that would be loaded from [folder]. */
        fun stepsOfState(folder: String): Long = Native.stateSteps(Native.path(folder))
    }
}
