// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.io.Closeable
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.withContext
import kotlinx.coroutines.yield

/**
 * One text, token after token, by a bundle that was compiled with --generate-len, and the adapter of [session]. It has
 * memory of its own, and one thread uses it and its session at a time. What changes the adapter does not change the
 * text that is there: [rewind] to 0 behind a step.
 */
class Generation(private val session: Session) : Closeable {
    private val handle: Handle
    private val vocabulary = session.bundle.info.vocabulary

    init {
        val owner = session.handle
        val held = owner.hold() // until the generation is gone
        val pointer = try {
            Native.generationCreate(held)
        } catch (failure: Throwable) {
            owner.leave()
            throw failure
        }
        handle = Handle("generation", pointer) {
            Native.generationDestroy(it)
            owner.leave()
        }
    }

    /** Tokens so far. */
    val positions: Int get() = handle.use(Native::generationPositions)

    /** Extends the text, and returns a number for each word of the vocabulary: the logits of the token behind it. */
    fun append(ids: IntArray): FloatArray = handle.use { Native.generationAppend(it, ids, vocabulary) }

    /** Forgets all but the first [positions] tokens. Returns how many remain: fewer, where a layer lost what it needs. */
    fun rewind(positions: Int): Int = handle.use { Native.generationRewind(it, positions) }

    /**
     * The tokens behind [prompt], one each time that the collector takes one: up to [limit] of them, and none from the
     * first of [ends] on. [choose] makes a token of logits; the likeliest where it is not given. Cancelling the
     * collector ends the pass that runs at its next kernel; [positions] says what is there.
     */
    fun tokens(
        prompt: IntArray,
        limit: Int,
        ends: Set<Int> = emptySet(),
        dispatcher: CoroutineDispatcher = Dispatchers.IO,
        choose: (FloatArray) -> Int = ::likeliest
    ): Flow<Int> = flow {
        session.endedWithItsJob {
            var next = prompt
            for (count in 0 until limit) {
                session.clearCancel()
                yield() // throws where the job is cancelled
                val logits = try {
                    withContext(NonCancellable + dispatcher) { append(next) }
                } catch (failure: MebpException) {
                    if (failure.code == Code.CANCELLED) yield()
                    throw failure
                }
                val token = choose(logits)
                if (token in ends) break
                emit(token)
                next = intArrayOf(token)
            }
        }
    }

    /** A second time it does nothing. */
    override fun close() = handle.close()
}

/** The first of the largest. */
fun likeliest(logits: FloatArray): Int {
    var best = 0
    for (index in logits.indices) if (logits[index] > logits[best]) best = index
    return best
}
