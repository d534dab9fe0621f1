// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.io.File
import java.io.RandomAccessFile
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.asFlow
import kotlinx.coroutines.flow.collect
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.runBlocking
import org.junit.After
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test

/** SmolLM2's tokenizer, as Python's `tokenizers` has it. */
class TokenizerTest {
    private val json = File(textFolder, "tokenizer.json")
    private val tokenizer = Tokenizer.open(textFolder.path)
    private val folder = scratchFolder()

    @After
    fun close() {
        tokenizer.close()
        tokenizer.close()
        folder.deleteRecursively()
    }

    @Test
    fun `ids and texts of 5,000 strings are those of tokenizers`() = runBlocking {
        val strings = rows("strings.tsv")
        assertEquals(5000, strings.size)
        for ((spelled, ids, decoded) in strings) {
            val text = spelled(spelled)
            assertArrayEquals(text, numbers(ids), tokenizer.encode(text))
            assertEquals(text, spelled(decoded), tokenizer.decode(numbers(ids)))
            assertEquals(text, spelled(decoded), tokenizer.decode(numbers(ids).asFlow()).toList().joinToString(""))
        }
    }

    @Test
    fun `a megabyte is its strings with the marks between them`() {
        val strings = rows("strings.tsv")
        val repeated = strings + strings
        val text = repeated.joinToString("<|im_start|>") { spelled(it[0]) }
        assertTrue("${text.toByteArray().size}", text.toByteArray().size > 1_000_000)
        val between = tokenizer.id("<|im_start|>")
        val expected = repeated.flatMap { listOf(between) + numbers(it[1]).asList() }.drop(1)
        assertArrayEquals(expected.toIntArray(), tokenizer.encode(text))
        assertEquals(repeated.joinToString("") { spelled(it[2]) }, tokenizer.decode(expected.toIntArray()))
        val spaces = " ".repeat(2000) // more text than there is room for at first
        assertEquals(spaces, tokenizer.decode(tokenizer.encode(spaces)))
        assertEquals("", tokenizer.decode(tokenizer.encode("")))
    }

    @Test
    fun `a folder, bytes and a part of an open file give the same`() {
        val package_ = File(folder, "package").apply { writeBytes(ByteArray(77) + json.readBytes() + ByteArray(5)) }
        val opened = RandomAccessFile(package_, "r")
        val others = listOf(
            Tokenizer.open(json.readBytes()),
            Tokenizer.open(ModelBundle.Part(descriptorOf(package_), 77, json.length()))
        )
        opened.close() // not needed any longer
        for (other in others) {
            other.use {
                assertEquals(tokenizer.vocabulary, it.vocabulary)
                for ((spelled, ids) in rows("strings.tsv").take(50)) {
                    assertArrayEquals(numbers(ids), it.encode(spelled(spelled)))
                }
                assertEquals(tokenizer.id("<|im_end|>"), it.id("<|im_end|>"))
            }
        }
        Tokenizer.open(textBundle).use { assertEquals("lamp", it.decode(it.encode("lamp"))) }
    }

    @Test
    fun `special tokens are skipped only where that is asked for`() {
        val ids = intArrayOf(tokenizer.id("<|im_start|>")) + tokenizer.encode("lamp")
        assertArrayEquals(ids, tokenizer.encode("<|im_start|>lamp", addSpecialTokens = false))
        assertEquals("lamp", tokenizer.decode(ids))
        assertEquals("<|im_start|>lamp", tokenizer.decode(ids, skipSpecialTokens = false))
    }

    @Test
    fun `each piece of a stream is whole characters`() = runBlocking {
        val text = "\uD83D\uDC68\u200D\uD83D\uDC69 \u4E2D\u6587 x"
        val ids = tokenizer.encode(text)
        val pieces = tokenizer.decode(ids.asFlow()).toList()
        assertEquals(text, pieces.joinToString(""))
        assertTrue("$pieces", pieces.none { '\uFFFD' in it } && pieces.size in 2 until ids.size)
        // Bytes that never become a character come at the end; who wants no more gets no more.
        val half = tokenizer.encode("\u9F98").dropLast(1)
        assertEquals(listOf("\uFFFD"), tokenizer.decode(half.asFlow()).toList())
        assertEquals(pieces.take(1), tokenizer.decode(ids.asFlow()).take(1).toList())
    }

    @Test
    fun `text comes before the ids behind it, from a closed tokenizer too`() = runBlocking {
        val seen = ArrayList<String>()
        val given = tokenizer.encode("The lamp is lit")
        val ids: Flow<Int> = flow {
            for (id in given) {
                emit(id)
                seen.add("asked")
            }
        }
        tokenizer.decode(ids).collect {
            seen.add(it)
            tokenizer.close() // the stream holds it
        }
        assertEquals(listOf("The", "asked", " lamp", "asked", " is", "asked", " lit", "asked"), seen)
    }

    @Test
    fun `threads wait for one another`() {
        val strings = rows("strings.tsv").take(400)
        val failures = ArrayList<Throwable>()
        val threads = List(4) {
            Thread {
                for ((spelled, ids) in strings) assertArrayEquals(numbers(ids), tokenizer.encode(spelled(spelled)))
            }.apply {
                setUncaughtExceptionHandler { _, failure -> synchronized(failures) { failures.add(failure) } }
                start()
            }
        }
        threads.forEach(Thread::join)
        assertEquals(emptyList<Throwable>(), failures)
    }

    @Test
    fun `what is no text, and no tokenizer, is refused by name`() {
        refused(Code.INVALID_ARGUMENT, "NUL") { tokenizer.encode("a\u0000b") }
        val emoji = "\uD83D\uDE00"
        for ((text, place) in listOf("ab\uD83D" to 2, "\uDE00" to 0, "x\uD83Dy" to 1, "$emoji\uD83D$emoji" to 2)) {
            val half = "\\u%04x".format(text[place].code)
            val line = "the text has half a character, $half, at $place; cut texts between whole characters"
            refused(Code.INVALID_ARGUMENT, line) { tokenizer.encode(text) }
        }
        refused(Code.NOT_FOUND, "no token is '<|none|>'") { tokenizer.id("<|none|>") }
        refused(Code.NOT_FOUND, "${folder.path}: has no tokenizer.json; give a bundle or a model's folder") {
            Tokenizer.open(folder.path)
        }
        refused(Code.NOT_FOUND, "has no tokenizer.json; export the model from a folder that has its tokenizer") {
            Tokenizer.open(bundleFolder.path)
        }
        val type = Regex("(\"pre_tokenizer\":\\s*\\{\\s*\"type\":\\s*)\"\\w+\"")
        val changed = json.readText().replace(type, "$1\"Runes\"")
        refused(Code.UNSUPPORTED, "Runes") { Tokenizer.open(changed.toByteArray()) }
        refused(Code.INVALID_ARGUMENT, "tokenizer.json in descriptor 3: 7 bytes at -1 were asked for") {
            Tokenizer.open(ModelBundle.Part(3, -1, 7))
        }
        tokenizer.close()
        refused(Code.INVALID_ARGUMENT, "the tokenizer is closed; open another") { tokenizer.encode("a") }
        refused(Code.INVALID_ARGUMENT, "the tokenizer is closed; open another") {
            runBlocking { tokenizer.decode(intArrayOf(1).asFlow()).toList() }
        }
    }
}
