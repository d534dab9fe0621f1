// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.io.Closeable
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.collect
import kotlinx.coroutines.flow.flow

/**
 * The model's tokenizer: the ids of the Python package `tokenizers`. A file with anything that it does not know is
 * refused by name. Any thread may use it; calls wait for one another.
 */
class Tokenizer private constructor(pointer: Long) : Closeable {
    private val handle = Handle("tokenizer", pointer, NativeText::tokenizerClose)

    /** One more than the largest id. */
    val vocabulary: Int get() = handle.use(NativeText::tokenizerVocabulary)

    /** The id of a token as tokenizer.json writes it; [Code.NOT_FOUND] where it has none. */
    fun id(token: String): Int = alone { NativeText.tokenizerId(it, Native.ended("token", token)) }

    /**
     * The ids of a text without a zero in it. [addSpecialTokens] adds what the model wants around a text, such as
     * <bos>; names of special tokens in the text become those tokens in any case.
     */
    fun encode(text: String, addSpecialTokens: Boolean = true): IntArray {
        val bytes = NativeText.bytes("text", text)
        return alone { NativeText.tokenizerEncode(it, bytes, addSpecialTokens) }
    }

    /** The text of ids. Bytes that are not UTF-8 become U+FFFD. */
    fun decode(ids: IntArray, skipSpecialTokens: Boolean = true): String =
        Native.text(alone { NativeText.tokenizerDecode(it, ids, skipSpecialTokens) })

    /**
     * Text as ids come, from [Generation.tokens] for one, in pieces that end with a whole character; together they are
     * what all ids decode to.
     */
    fun decode(ids: Flow<Int>, skipSpecialTokens: Boolean = true): Flow<String> = flow {
        TokenizerStream(this@Tokenizer, skipSpecialTokens).use { stream ->
            ids.collect { id ->
                val piece = stream.push(id)
                if (piece.isNotEmpty()) emit(piece)
            }
            val rest = stream.finish()
            if (rest.isNotEmpty()) emit(rest)
        }
    }

    override fun close() = handle.close()

    /** Lets nobody else use it meanwhile. */
    internal fun <T> alone(call: (Long) -> T): T = handle.use { synchronized(this) { call(it) } }

    internal fun hold() = handle.hold()

    internal fun leave() = handle.leave()

    companion object {
        /**
         * Of a bundle, or of a folder that has tokenizer.json. Throws [Code.NOT_FOUND] where there is none,
         * [Code.UNSUPPORTED] where it cannot be read exactly.
         */
        fun open(folder: String) = Tokenizer(NativeText.tokenizerOpen(Native.path(folder)))

        /** Of tokenizer.json alone, a part of an open file. The descriptor may be closed afterwards. */
        fun open(json: ModelBundle.Part): Tokenizer {
            json.check("tokenizer.json")
            return Tokenizer(NativeText.tokenizerOpenFile(json.descriptor, json.offset, json.length))
        }

        /** Of tokenizer.json alone. */
        fun open(json: ByteArray) = Tokenizer(NativeText.tokenizerOpenBytes(json))
    }
}

/** What is still held back, such as the beginning of a character, comes with [finish]. It holds its tokenizer. */
private class TokenizerStream(private val tokenizer: Tokenizer, skipSpecialTokens: Boolean) : Closeable {
    private val handle: Handle

    init {
        val held = tokenizer.hold()
        val pointer = try {
            NativeText.streamCreate(held, skipSpecialTokens)
        } catch (failure: Throwable) {
            tokenizer.leave()
            throw failure
        }
        handle = Handle("stream", pointer) {
            NativeText.streamFree(it)
            tokenizer.leave()
        }
    }

    fun push(id: Int) = handle.use { stream -> alone { NativeText.streamPush(stream, id) } }

    fun finish() = handle.use { stream -> alone { NativeText.streamFinish(stream) } }

    override fun close() = handle.close()

    private fun alone(call: () -> ByteArray) = Native.text(synchronized(tokenizer) { call() })
}
