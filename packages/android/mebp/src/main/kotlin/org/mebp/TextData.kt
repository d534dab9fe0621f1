// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.io.Closeable

/** What counts in the loss, as --loss-on. */
enum class LossOn(internal val text: String) { ASSISTANT("assistant"), LAST("last"), ALL("all"), TURNS("turns") }

/**
 * A file of JSON lines as the batches of a run. Rows, labels and their order are those of `mebp train` with the same
 * options and --no-packing: lines are {"text"}, {"prompt", "completion"} or {"messages"} (docs/data.md). Any other form
 * or key is refused, with the line. Any thread may use it; calls wait for one another.
 *
 *     val data = TextData("chat.jsonl", "NAME.mebp", length = 256, rowsOfStep = 2)
 *     session.training((session.steps until 400).asSequence().map(data::batch).iterator()).collect { }
 *
 * The whole [file] is read at once, with the tokenizer and, for conversations, the chat template of the folder
 * [bundle]. A row has [length] tokens at most, a step [rowsOfStep] rows. Tokens that have more than 4 MiB go to [folder],
 * on a disk; null: $TMPDIR, or /var/tmp, which a phone does not have.
 */
class TextData(
    file: String,
    bundle: String,
    private val length: Int,
    private val rowsOfStep: Int,
    lossOn: LossOn = LossOn.ASSISTANT,
    private val seed: Long = 0,
    folder: String? = null
) : Closeable {
    private val handle: Handle

    init {
        if (length < 1 || rowsOfStep < 1) {
            val what = "a step of $rowsOfStep rows of up to $length tokens is none"
            throw MebpException(Code.INVALID_ARGUMENT, "$what; give numbers from 1 on")
        }
        val counts = Native.ended("loss", lossOn.text)
        val spill = folder?.let(Native::path)
        val pointer = NativeText.dataOpen(Native.path(file), Native.path(bundle), counts, length, seed, spill)
        handle = Handle("data", pointer, NativeText::dataClose)
    }

    val rows: Long get() = handle.use(NativeText::dataRows)

    /** Steps that see each row once. */
    val stepsOfEpoch: Long get() = (rows + rowsOfStep - 1) / rowsOfStep

    /** Names what the batches have in them and their order, for [BackgroundRun]. */
    val digest: String
        get() = handle.use { "$rows rows, checksum ${NativeText.dataChecksum(it)}, $rowsOfStep a step, seed $seed" }

    /** What was cut or left out, for people, a line each. */
    val notes: List<String>
        get() = handle.use { data ->
            generateSequence(0) { it + 1 }.map { NativeText.dataNote(data, it) }.takeWhile { it != null }
                .map { Native.text(it!!) }.toList()
        }

    /** The rows of a step, counted from 0. Each epoch is an order of its own; its last step may have fewer rows. */
    fun batch(step: Long): Batch {
        if (step < 0) throw MebpException(Code.INVALID_ARGUMENT, "there is no step $step; give one from 0 on")
        val all = handle.use { data -> synchronized(this) { NativeText.dataStep(data, step, rowsOfStep, length) } }
        val middle = 1 + all.size / 2
        return Batch(all.copyOfRange(1, middle), all.copyOfRange(middle, all.size), rows = all[0])
    }

    override fun close() = handle.close()
}
