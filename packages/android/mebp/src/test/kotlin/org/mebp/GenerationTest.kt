// SPDX-License-Identifier: Apache-2.0
package org.mebp

import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import org.junit.After
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test

/** Text, a token each time that one is taken. */
class GenerationTest {
    private val bundle = ModelBundle.open(bundleFolder.path)
    private val session = Session(bundle)
    private val generation = Generation(session)
    private val prompt = IntArray(9) { 7 * it + 3 }

    @After
    fun close() {
        session.close() // the generation holds it
        generation.close()
        generation.close()
        bundle.close()
    }

    /** The likeliest tokens, by [Generation.append] alone. */
    private fun appended(count: Int): List<Int> = Generation(session).use { other ->
        var next = prompt
        List(count) { likeliest(other.append(next)).also { next = intArrayOf(it) } }
    }

    @Test
    fun `the likeliest tokens, up to a limit or an end`() = runBlocking {
        val expected = appended(20)
        assertEquals(expected, generation.tokens(prompt, 20).toList())
        assertEquals(prompt.size + 19, generation.positions)
        assertEquals(0, generation.rewind(0))
        val end = expected[12]
        assertEquals(expected.takeWhile { it != end }, generation.tokens(prompt, 20, setOf(end)).toList())
        assertEquals(prompt.size, generation.rewind(prompt.size))
        assertEquals(expected.drop(1), generation.tokens(intArrayOf(expected[0]), 19).toList())
    }

    @Test
    fun `tokens are chosen as the caller says`() = runBlocking {
        val smallest = generation.tokens(prompt, 3) { logits -> logits.indices.minByOrNull { logits[it] }!! }.toList()
        generation.rewind(0)
        val logits = generation.append(prompt)
        assertEquals(bundle.info.vocabulary, logits.size)
        assertEquals(logits.indices.minByOrNull { logits[it] }, smallest[0])
        assertEquals(1, likeliest(floatArrayOf(0f, 2f, 2f)))
    }

    @Test
    fun `who takes fewer gets fewer, and a training step may follow`() = runBlocking {
        val expected = appended(4)
        assertEquals(expected.take(2), generation.tokens(prompt, 20).take(2).toList())
        val positions = generation.positions
        assertTrue("$positions", positions in prompt.size + 1..prompt.size + 2)
        session.step(Batch(prompt))
        generation.rewind(0)
        assertEquals(1, generation.tokens(prompt, 1).toList().size)
    }

    @Test
    fun `cancelling ends a text, and the session is free behind it`() = runBlocking {
        repeat(5) { attempt ->
            val taken = ArrayList<Int>()
            val run = launch(Dispatchers.Default) {
                while (true) {
                    generation.rewind(0)
                    generation.tokens(prompt, 40).collect { taken.add(it) }
                }
            }
            while (taken.size < 10 * attempt) kotlinx.coroutines.delay(1)
            run.cancelAndJoin()
            session.step(Batch(prompt)) // what came too late ends nobody else's call
        }
        assertEquals(5L, session.steps)
    }

    @Test
    fun `what is too long, empty or closed is refused`() {
        refused(Code.INVALID_ARGUMENT, "token") { generation.append(IntArray(0)) }
        refused(Code.OUT_OF_RANGE, "vocabulary") { generation.append(intArrayOf(-1)) }
        refused(Code.INVALID_ARGUMENT, "a text cannot be cut to -1 tokens; give 0 or more") { generation.rewind(-1) }
        assertEquals(0, generation.positions)
        generation.close()
        refused(Code.INVALID_ARGUMENT, "the generation is closed; open another") { generation.append(prompt) }
    }
}
