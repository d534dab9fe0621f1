// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.io.File
import java.util.Random
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.collect
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import org.junit.After
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Test

/** What a training run in a coroutine is, from an archive as an application has one. */
class TrainingTest {
    private val archive = Archive(bundleFolder)
    private val bundle = archive.open().also { archive.close() } // the descriptor is not needed any longer
    private val folder = scratchFolder()
    private val options = SessionOptions(clip = 1.0) // so that a step can be left up to its end

    @After
    fun close() {
        bundle.close()
        folder.deleteRecursively()
    }

    private fun batch(step: Int): Batch {
        val random = Random(step.toLong())
        val rows = bundle.info.maxBatch
        return Batch(IntArray(rows * bundle.info.maxSequence) { random.nextInt(bundle.info.vocabulary) }, rows = rows)
    }

    private fun batches(steps: IntRange) = steps.map(::batch).iterator()

    private fun adapterOf(session: Session): ByteArray {
        val adapter = File(folder, "adapter")
        session.saveAdapter(adapter.path)
        return File(adapter, "adapter_model.safetensors").readBytes()
    }

    /** The losses and the adapter of an undisturbed run. */
    private fun train(steps: Int): Pair<List<Double>, ByteArray> = Session(bundle, options).use { session ->
        Pair((0 until steps).map { session.step(batch(it)).loss }, adapterOf(session))
    }

    /** Milliseconds after which a step still runs, also where others had this machine while those before it ran. */
    private fun withinAStep(before: List<StepResult>) = (before.map { it.seconds }.reduce { a, b -> minOf(a, b) } * 150).toLong()

    @Test
    fun `five steps, a sixth that is cancelled, and a bitwise equal continuation`() = runBlocking {
        val (expected, adapter) = train(8)
        val losses = ArrayList<Double>()
        val results = ArrayList<StepResult>()
        val state = File(folder, "state").path
        Session(bundle, options).use { session ->
            session.training(batches(0..4)).collect { results.add(it) }
            losses.addAll(results.map { it.loss })
            assertEquals(5L, session.steps)
            val before = adapterOf(session)

            val sixth = launch { session.training(batches(5..5)).collect { losses.add(it.loss) } }
            delay(withinAStep(results))
            withTimeout(60_000) { sixth.cancelAndJoin() }
            assertEquals("the sixth step was cancelled", 5L, session.steps)
            assertArrayEquals(before, adapterOf(session))

            session.pause(state, "the data's place".toByteArray())
            assertEquals("", session.kernels)
            assertEquals("", session.notes)
            val refusal = runCatching { session.loss(batches(5..5).next()) }.exceptionOrNull()
            assertEquals(Code.PAUSED, (refusal as MebpException).code)
            session.resume()
            session.training(batches(5..7)).collect { losses.add(it.loss) } // goes on in the same session
            assertEquals(expected, losses)
            assertArrayEquals(adapter, adapterOf(session))
        }
        assertEquals(5L, Session.stepsOfState(state))
        Session(bundle, options).use { session -> // and in another one
            assertEquals("the data's place", String(session.loadState(state)))
            assertEquals("", session.notes)
            val again = ArrayList<Double>()
            session.training(batches(session.steps.toInt()..7)).collect { again.add(it.loss) }
            assertEquals(expected.drop(5), again)
            assertArrayEquals(adapter, adapterOf(session))
        }
    }

    @Test
    fun `progress comes step by step, where train was called`() = runBlocking {
        Session(bundle, options).use { session ->
            val caller = Thread.currentThread()
            val seen = ArrayList<Long>()
            session.training(batches(0..2)).collect { result ->
                assertEquals(caller, Thread.currentThread())
                assertTrue(result.loss > 0 && result.gradNorm > 0 && result.seconds > 0 && result.peakBytes > 0)
                assertEquals((bundle.info.maxBatch * (bundle.info.maxSequence - 1)).toLong(), result.tokens)
                seen.add(session.steps)
            }
            assertEquals(listOf(1L, 2L, 3L), seen)
        }
    }

    @Test
    fun `what ends a run ends no other`() = runBlocking {
        Session(bundle, options).use { session ->
            session.cancel() // came too late for an earlier run
            session.training(batches(0..0)).collect()
            session.step(batch(0)) // the end of train was no cancellation
            assertEquals(2L, session.steps)
            for (attempt in 0 until 5) { // at many moments, between two steps for one
                val before = session.steps
                val endless = generateSequence { batch(0) }.iterator()
                val run = launch(Dispatchers.Default) { session.training(endless).collect() }
                delay(attempt * 60L)
                withTimeout(60_000) { run.cancelAndJoin() }
                val after = session.steps
                session.step(batch(0)) // what is behind train is not ended either
                assertEquals(after + 1, session.steps)
                assertTrue(after >= before)
            }
        }
    }

    @Test
    fun `a run that is cancelled before it begins makes no step`() = runBlocking {
        Session(bundle, options).use { session ->
            var isCancelled = false
            val run = launch {
                coroutineContext[kotlinx.coroutines.Job]!!.cancel()
                try {
                    session.training(batches(0..2)).collect()
                } catch (cancelled: CancellationException) {
                    isCancelled = true
                    throw cancelled
                }
            }
            run.join()
            assertTrue(isCancelled)
            assertEquals(0L, session.steps)
        }
    }

    @Test
    fun `a pause ends the step that runs, and changes nothing of the result`() = runBlocking {
        val (expected, adapter) = train(4)
        Session(bundle, options).use { session ->
            val pause = Pause()
            val losses = ArrayList<Double>()
            val first = session.step(batch(0)).also { losses.add(it.loss) }
            val run = launch { session.training(batches(1..3), pause).collect { losses.add(it.loss) } }
            delay(withinAStep(listOf(first)))
            pause.hold(Pause.HEAT) // within the second step
            pause.hold(Pause.MEMORY)
            pause.hold(Pause.MEMORY)
            delay((first.seconds * 3000).toLong())
            assertEquals("a step was made in the pause", 1L, session.steps)
            assertTrue(session.loss(batch(0)) > 0) // the session is free
            pause.release(Pause.HEAT)
            delay((first.seconds * 2000).toLong())
            assertTrue(pause.isHeld)
            assertEquals("one of two reasons is left", 1L, session.steps)
            pause.release(Pause.MEMORY)
            withTimeout(60_000) { run.join() }
            assertFalse(pause.isHeld)
            assertEquals(expected, losses)
            assertArrayEquals(adapter, adapterOf(session))
        }
    }

    @Test
    fun `a pause can be cancelled`() = runBlocking {
        Session(bundle, options).use { session ->
            val pause = Pause().apply { hold(Pause.USER) }
            val run = launch { session.training(batches(0..2), pause).collect() }
            delay(50)
            withTimeout(60_000) { run.cancelAndJoin() }
            assertEquals(0L, session.steps)
        }
    }

    @Test
    fun `a step of micro-batches is the step of all their rows`() {
        Session(bundle, options.copy(accumulate = true)).use { session ->
            val whole = session.step(batch(0))
            val halves = Session(bundle, options.copy(accumulate = true)).use { other ->
                val columns = bundle.info.maxSequence
                val rows = (0 until bundle.info.maxBatch).map { row ->
                    Batch(batch(0).ids.copyOfRange(row * columns, (row + 1) * columns))
                }
                other.step(*rows.toTypedArray())
            }
            assertEquals(whole.tokens, halves.tokens)
            assertEquals(whole.loss, halves.loss, 1e-5 * whole.loss) // sums in another order, in f32
        }
    }

    @Test
    fun `an adapter is saved for llama_cpp, too, whole or not at all`() {
        Session(bundle, options).use { session ->
            session.step(batch(0))
            val file = File(folder, "adapter.gguf")
            session.saveAdapterGguf(file.path)
            val bytes = file.readBytes()
            assertEquals("GGUF", String(bytes, 0, 4))
            // Numbers of f32, as many as the PEFT folder has, behind names that differ.
            assertTrue("${bytes.size}", Math.abs(bytes.size - adapterOf(session).size) < 20_000)
            val nowhere = File(folder, "none/adapter.gguf").path
            val refusal = runCatching { session.saveAdapterGguf(nowhere) }.exceptionOrNull() as MebpException
            assertTrue(refusal.message!!, nowhere in refusal.message!! && '\n' !in refusal.message!!)
            assertEquals(listOf("adapter", "adapter.gguf"), folder.list()!!.sorted())
        }
    }
}
