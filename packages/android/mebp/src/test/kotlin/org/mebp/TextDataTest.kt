// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.io.File
import kotlinx.coroutines.flow.collect
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.runBlocking
import org.junit.After
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test

/** From text to an adapter and to text again, without Python. */
class TextDataTest {
    private val bundle = ModelBundle.open(textBundle)
    private val folder = scratchFolder()
    private val file = File(textFolder, "chat.jsonl").path
    private val losses = rows("losses.tsv").map { it.single().toDouble() }
    private val options = SessionOptions(clip = 1.0)

    @After
    fun close() {
        bundle.close()
        folder.deleteRecursively()
    }

    private fun open(rowsOfStep: Int = 2) = TextData(file, textBundle, 64, rowsOfStep, seed = 5, folder = folder.path)

    @Test
    fun `losses are those of mebp train, bit for bit`() = runBlocking {
        open().use { data ->
            assertEquals(60L, data.rows)
            assertEquals(30L, data.stepsOfEpoch)
            Session(bundle, options).use { session ->
                val batches = (0L until losses.size).asSequence().map(data::batch).iterator()
                assertEquals(losses, session.training(batches).toList().map { it.loss })
            }
        }
    }

    @Test
    fun `a run in the background takes it, and refuses it in another order`() = runBlocking {
        val seen = ArrayList<Double>()
        var device = BackgroundCase.ALLOWS
        open().use { data ->
            val steps = losses.size.toLong()
            val run = BackgroundRun(bundle, options, folder.path, data.digest, steps, batch = data::batch)
            run.train({ device }) { step, result ->
                seen.add(result.loss)
                if (step == 5L) device = device.copy(isCharging = false)
            }
            device = BackgroundCase.ALLOWS
            open(3).use { other ->
                val another = BackgroundRun(bundle, options, folder.path, other.digest, steps, batch = other::batch)
                refused(Code.INVALID_ARGUMENT, "3 a step, seed 5'; remove the folder, or give that data") {
                    runBlocking { another.train({ device }) }
                }
            }
            assertNull(run.train({ device }) { _, result -> seen.add(result.loss) })
        }
        assertEquals(losses, seen)
        assertTrue(File(folder, "adapter/adapter_model.safetensors").exists())
    }

    @Test
    fun `an answer comes as text`() = runBlocking {
        val tokenizer = Tokenizer.open(textBundle)
        val chat = ChatTemplate.open(textBundle)
        val session = Session(bundle)
        val prompt = chat.prompt(listOf(Turn("user", "Is it lit?")), tokenizer)
        val ids = Generation(session).use { it.tokens(prompt, 12, chat.ends).toList() }
        val pieces = Generation(session).use { tokenizer.decode(it.tokens(prompt, 12, chat.ends)).toList() }
        assertEquals(tokenizer.decode(ids.toIntArray()), pieces.joinToString(""))
        session.close()
        chat.close()
        tokenizer.close()
    }

    @Test
    fun `a step has rows, the last of an epoch fewer, and each epoch all of them`() {
        open(8).use { data ->
            assertEquals(8L, data.stepsOfEpoch)
            fun epoch(number: Long) = (0L until 8).map { data.batch(8 * number + it) }
            assertEquals(listOf(8, 8, 8, 8, 8, 8, 8, 4), epoch(0).map { it.rows })
            fun tokens(epoch: List<Batch>) = epoch.flatMap { it.labels.asList() }.filter { it != -100 }.sorted()
            assertEquals(tokens(epoch(0)), tokens(epoch(1)))
            assertTrue(epoch(0).map { it.ids.asList() } != epoch(1).map { it.ids.asList() })
        }
    }

    @Test
    fun `bad lines and numbers are refused, with the line, and what was cut is told`() {
        fun refusedLines(code: Code, part: String, vararg lines: String) {
            val bad = File(folder, "bad.jsonl").apply { writeText(lines.joinToString("\n")) }
            refused(code, part) { TextData(bad.path, textBundle, 64, 2, folder = folder.path).close() }
        }
        fun turn(role: String) = "{\"role\": \"$role\", \"content\": \"a\"}"
        val good = "{\"messages\": [${turn("user")}, ${turn("assistant")}]}"
        val unknown = good.replace("\"user\"", "\"keeper\"")
        refusedLines(Code.INVALID_ARGUMENT, "bad.jsonl:2: messages[0] has the role \"keeper\"", good, unknown)
        refusedLines(Code.INVALID_ARGUMENT, "bad.jsonl:2: ", good, "{\"texts\": 1}")
        val none = "${folder.path}/none.jsonl"
        refused(Code.NOT_FOUND, none) { TextData(none, textBundle, 64, 2) }
        refused(Code.NOT_FOUND, "has no tokenizer.json") { TextData(file, bundleFolder.path, 64, 2) }
        val line = "a step of 0 rows of up to 64 tokens is none; give numbers from 1 on"
        refused(Code.INVALID_ARGUMENT, line) { open(0) }
        open().use { refused(Code.INVALID_ARGUMENT, "there is no step -1; give one from 0 on") { it.batch(-1) } }
        TextData(file, textBundle, 48, 2, folder = folder.path).use { assertTrue("${it.notes}", "cut" in it.notes[0]) }
        val closed = open().apply { close() }
        refused(Code.INVALID_ARGUMENT, "the data is closed; open another") { closed.batch(0) }
    }
}
