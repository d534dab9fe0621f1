// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.io.File
import java.util.concurrent.TimeUnit
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import org.junit.After
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test

/** A run in pieces: stopped by conditions, cancelled, and killed. */
class BackgroundRunTest {
    private val bundle = ModelBundle.open(bundleFolder.path)
    private val folder = scratchFolder()
    private val case = BackgroundCase(bundle, folder)
    private val allows = BackgroundCase.ALLOWS

    @After
    fun close() {
        bundle.close()
        folder.deleteRecursively()
    }

    /** The losses and the adapter of a run in one piece, without this class. */
    private fun whole(): Pair<List<Double>, ByteArray> = Session(bundle, case.options).use { session ->
        val losses = (0 until BackgroundCase.STEPS).map { session.step(case.batch(it)).loss }
        session.saveAdapter(File(folder, "whole").path)
        Pair(losses, File(folder, "whole/adapter_model.safetensors").readBytes())
    }

    /** Another process, of the same Java. */
    private fun start(): Process {
        val java = File(System.getProperty("java.home"), "bin/java").path
        val library = "-Djava.library.path=" + System.getProperty("java.library.path")
        val command = listOf(java, library, "-cp", System.getProperty("java.class.path"), "org.mebp.BackgroundTrainer")
        val process = ProcessBuilder(command + listOf(bundleFolder.path, folder.path))
        return process.redirectError(ProcessBuilder.Redirect.INHERIT).start()
    }

    @Test
    fun `killed at five places, a run ends with the bits of one in one piece`() {
        val (expected, adapter) = whole()
        val losses = HashMap<Long, Double>()
        var again = 0
        var kills = 0
        while (true) {
            val process = start()
            var seen = 0
            var isFinished = false
            process.inputStream.bufferedReader().forEachLine { line ->
                if (line == "finished") {
                    isFinished = true
                } else {
                    val (step, loss) = line.split(' ')
                    if (losses.put(step.toLong(), loss.toDouble()) != null) ++again
                    // After its third step, or its second: with a save behind it that step has, or has not.
                    if (++seen == 3 - kills % 2 && kills < 5) {
                        ProcessBuilder("kill", "-9", "${process.pid()}").start().waitFor()
                        ++kills
                    }
                }
            }
            assertTrue(process.waitFor(60, TimeUnit.SECONDS))
            if (isFinished) break
            assertEquals(137, process.exitValue())
            assertFalse(File(folder, "adapter").exists())
        }
        assertEquals(5, kills)
        assertTrue("no step was made again", again > 0)
        assertEquals(expected, (1..BackgroundCase.STEPS).map { losses[it] })
        assertArrayEquals(adapter, case.adapter)
    }

    @Test
    fun `stops where a condition fails, and goes on where none does`() = runBlocking {
        val (expected, adapter) = whole()
        val losses = ArrayList<Double>()
        var device = allows
        suspend fun piece(conditions: Conditions = Conditions()): String? =
            case.run(conditions).train({ device }) { step, result ->
                assertEquals(losses.size + 1L, step)
                losses.add(result.loss)
                if (step == 3L) device = allows.copy(isCharging = false)
            }
        assertEquals("the device does not charge", piece())
        assertEquals(3, losses.size)
        assertEquals(3L, Session.stepsOfState(File(folder, "state").path))
        assertEquals("the device does not charge", piece())
        device = allows.copy(isHot = true)
        assertEquals("the device is hot", piece())
        device = allows.copy(freeBytes = 1_000_000)
        assertEquals("the device has 1 MB free, of 256 MB that are asked for", piece())
        device = allows.copy(isIdle = false)
        assertEquals("the device is in use", piece(Conditions(idle = true)))
        assertEquals(3, losses.size)
        assertNull(piece())
        assertEquals(expected, losses)
        assertArrayEquals(adapter, case.adapter)
        assertNull(piece()) // finished is finished
        assertEquals(expected, losses)
    }

    @Test
    fun `a piece that is cancelled saves, and lets another one in`() = runBlocking {
        val (_, adapter) = whole()
        var last = 0L
        lateinit var busy: MebpException
        val run = launch {
            case.run(saveEvery = 1000).train({ allows }) { step, _ ->
                last = step
                if (step == 5L) {
                    busy = refusal { case.run().train({ allows }) }
                    coroutineContext[kotlinx.coroutines.Job]!!.cancel()
                }
            }
        }
        run.join()
        assertEquals(Code.BUSY, busy.code)
        assertEquals(last, Session.stepsOfState(File(folder, "state").path))
        assertTrue(last < BackgroundCase.STEPS)
        assertNull(case.run().train({ allows }))
        assertArrayEquals(adapter, case.adapter)
    }

    private suspend fun refusal(call: suspend () -> Unit): MebpException {
        try {
            call()
        } catch (failure: MebpException) {
            return failure
        }
        throw AssertionError("it was not refused")
    }

    @Test
    fun `other data and numbers that make no run are refused`() = runBlocking {
        var device = allows
        case.run().train({ device }) { _, _ -> device = allows.copy(isCharging = false) }
        val other = refusal { case.run(data = "others").train({ allows }) }
        val state = File(folder, "state").path
        val what = "$state: is of a run on the data 'random', and this one has 'others'"
        assertEquals("$what; remove the folder, or give that data", other.message)
        val none = refusal { case.run(saveEvery = 0) }
        assertEquals("a run of 12 steps that saves every 0 of them is none; give numbers from 1 on", none.message)
    }
}
