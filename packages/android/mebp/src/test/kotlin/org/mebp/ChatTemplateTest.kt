// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.io.File
import org.junit.After
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Test

/** Conversations as Python's data path and the template itself have them. */
class ChatTemplateTest {
    private val tokenizer = Tokenizer.open(textBundle)
    private val chat = ChatTemplate.open(textBundle)

    @After
    fun close() {
        chat.close()
        chat.close()
        tokenizer.close()
    }

    private fun turns(column: String) = column.split(' ').map { turn ->
        val (role, text, learned) = turn.split(':')
        Turn(role, spelled(text), learned == "1")
    }

    @Test
    fun `ids, labels and prompts are those of Python`() {
        for ((given, ids, labels, prompt) in rows("chat.tsv")) {
            val turns = turns(given)
            val batch = chat.encode(turns, tokenizer)
            assertEquals(1, batch.rows)
            assertArrayEquals(given, numbers(ids), batch.ids)
            assertArrayEquals(given, numbers(labels), batch.labels)
            assertArrayEquals(given, numbers(prompt), chat.prompt(turns.dropLast(1), tokenizer))
            assertArrayEquals(given, numbers(prompt), tokenizer.encode(chat.text(turns.dropLast(1), isPrompt = true)))
        }
    }

    @Test
    fun `what counts, and what ends an answer`() {
        val turns = listOf(Turn("user", "Is it lit?"), Turn("assistant", "It is.", isLearned = false))
        val asked = "<|im_start|>user\nIs it lit?<|im_end|>\n"
        assertEquals("$asked<|im_start|>assistant\nIt is.<|im_end|>\n", chat.text(turns))
        assertEquals(setOf(-100), chat.encode(turns, tokenizer).labels.toSet())
        val learned = chat.encode(turns.map { it.copy(isLearned = true) }, tokenizer)
        val counts = learned.labels.filter { it != -100 }.toIntArray()
        assertEquals("It is.<|im_end|>", tokenizer.decode(counts, skipSpecialTokens = false).trimEnd())
        val all = chat.encode(turns.map { it.copy(isLearned = true) }, tokenizer, everything = true)
        assertArrayEquals(all.ids, all.labels)
        assertEquals(true, tokenizer.id("<|im_end|>") in chat.ends)
    }

    @Test
    fun `chat json alone gives the same`() {
        val turns = listOf(Turn("user", "Is it lit?"))
        ChatTemplate.open(File(textBundle, "tokenizer/chat.json").readBytes()).use { other ->
            assertEquals(chat.text(turns, isPrompt = true), other.text(turns, isPrompt = true))
            assertEquals(chat.ends, other.ends)
        }
    }

    @Test
    fun `other roles, orders and contents are refused by name`() {
        fun refusedTurns(part: String, vararg turns: Turn) =
            refused(Code.UNSUPPORTED, part) { chat.encode(turns.toList(), tokenizer) }
        val asked = Turn("user", "Is it lit?")
        refusedTurns("keeper", asked, Turn("keeper", "It is."))
        refusedTurns("tool", asked, Turn("assistant", "I look."), Turn("tool", "lit"))
        refusedTurns("user", asked, asked)
        refused(Code.UNSUPPORTED, "user") { chat.prompt(listOf(asked, Turn("assistant", "It is.")), tokenizer) }
        refused(Code.INVALID_ARGUMENT, "the role 'us\\0er' has a zero in it") {
            chat.text(listOf(Turn("us\u0000er", "Is it lit?")))
        }
        refused(Code.INVALID_ARGUMENT, "the text of the user's turn has half a character, \\ud83d, at 1") {
            chat.text(listOf(Turn("user", "a\uD83D")))
        }
        refused(Code.NOT_FOUND, "has no chat.json") { ChatTemplate.open(bundleFolder.path) }
        refused(Code.CORRUPT, "chat.json") { ChatTemplate.open("{".toByteArray()) }
        chat.close()
        refused(Code.INVALID_ARGUMENT, "the chat template is closed; open another") { chat.ends }
    }
}
