// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.io.Closeable

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
 * One training run over [bundle]. Its functions wait for their end and belong on a thread that may wait; [training]
 * is for coroutines. One thread uses it at a time, another one gets [Code.BUSY]; [cancel], [steps] and [close] are for all.
 */
class Session(internal val bundle: ModelBundle, options: SessionOptions = SessionOptions()) : Closeable {
    internal val handle: Handle

    init {
        val owner = bundle.handle
        val held = owner.hold() // until the session is gone
        val pointer = try {
            Native.sessionCreate(held, options.texts())
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

    /** llama.cpp's form, one file, written whole or not at all. [Code.UNSUPPORTED] where llama.cpp has no such adapter. */
    fun saveAdapterGguf(path: String) = handle.use { Native.sessionSaveAdapterGguf(it, Native.path(path)) }

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
     * runs, the next one ends so. [training] is ended by its coroutine instead. Of a closed session it does nothing.
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
