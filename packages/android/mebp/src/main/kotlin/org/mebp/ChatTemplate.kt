// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.io.ByteArrayOutputStream
import java.io.Closeable

/** A turn of a conversation: [role] is "system", "user" or "assistant". */
data class Turn(
    val role: String,
    val text: String,
    /** Of the assistant's: whether it counts in the loss. */
    val isLearned: Boolean = true
)

/**
 * The model's chat template, from chat.json, which `mebp export` writes where the template comes in pieces. A
 * conversation is the system's turn or none, then the user and the assistant in turns, all of text; any other, with a
 * tool's turn for one, is refused: [Code.UNSUPPORTED]. Any thread may use it.
 */
class ChatTemplate private constructor(pointer: Long) : Closeable {
    private val handle = Handle("chat template", pointer, NativeText::chatClose)

    /** The ids of which the model writes one to end an answer, for [Generation.tokens]. */
    val ends: Set<Int> get() = handle.use(NativeText::chatEnds).toSet()

    /** The text of a conversation; of a prompt, up to where the next answer begins. */
    fun text(turns: List<Turn>, isPrompt: Boolean = false): String = handle.use { chat ->
        val (bytes, ends, learned) = Joined(turns)
        Native.text(NativeText.chatText(chat, bytes, ends, learned, isPrompt))
    }

    /**
     * A whole conversation as a row for [Session.step]. What the assistant says in turns that are learned counts, with
     * what ends them; with [everything], all but what it says in turns that are not.
     */
    fun encode(turns: List<Turn>, tokenizer: Tokenizer, everything: Boolean = false): Batch = handle.use { chat ->
        val (bytes, ends, learned) = Joined(turns)
        val both = tokenizer.alone { NativeText.chatEncode(chat, it, bytes, ends, learned, everything) }
        Batch(both.copyOf(both.size / 2), both.copyOfRange(both.size / 2, both.size))
    }

    /** The ids up to where the next answer begins, for [Generation.tokens]. The last turn is the user's. */
    fun prompt(turns: List<Turn>, tokenizer: Tokenizer): IntArray = handle.use { chat ->
        val (bytes, ends, learned) = Joined(turns)
        tokenizer.alone { NativeText.chatPrompt(chat, it, bytes, ends, learned) }
    }

    override fun close() = handle.close()

    /** Turns as C takes them: of each its role, a zero and its text, and where that ends. */
    private class Joined(turns: List<Turn>) {
        private val bytes = ByteArrayOutputStream()
        private val ends = turns.map { turn ->
            bytes.write(Native.ended("role", turn.role))
            bytes.write(NativeText.bytes("text of the ${turn.role}'s turn", turn.text))
            bytes.size()
        }
        private val learned = turns.map { it.isLearned }

        operator fun component1(): ByteArray = bytes.toByteArray()
        operator fun component2() = ends.toIntArray()
        operator fun component3() = learned.toBooleanArray()
    }

    companion object {
        /** Of a bundle, or of a folder that has chat.json; [Code.NOT_FOUND] where there is none. */
        fun open(folder: String) = ChatTemplate(NativeText.chatOpen(Native.path(folder)))

        /** Of chat.json alone. */
        fun open(json: ByteArray) = ChatTemplate(NativeText.chatOpenBytes(json))
    }
}
