// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.nio.ByteBuffer
import java.nio.CharBuffer
import java.nio.charset.CodingErrorAction

/** The functions of libmebp_text_jni.so, which an app that passes ids does not load. Texts are UTF-8. */
internal object NativeText {
    init {
        System.loadLibrary("mebp_text_jni")
    }

    external fun tokenizerOpen(folder: ByteArray): Long
    external fun tokenizerOpenFile(descriptor: Int, offset: Long, length: Long): Long
    external fun tokenizerOpenBytes(json: ByteArray): Long
    external fun tokenizerClose(tokenizer: Long)
    external fun tokenizerVocabulary(tokenizer: Long): Int
    external fun tokenizerId(tokenizer: Long, token: ByteArray): Int
    external fun tokenizerEncode(tokenizer: Long, text: ByteArray, addSpecialTokens: Boolean): IntArray
    external fun tokenizerDecode(tokenizer: Long, ids: IntArray, skipSpecialTokens: Boolean): ByteArray

    external fun streamCreate(tokenizer: Long, skipSpecialTokens: Boolean): Long
    external fun streamPush(stream: Long, id: Int): ByteArray
    external fun streamFinish(stream: Long): ByteArray
    external fun streamFree(stream: Long)

    external fun chatOpen(folder: ByteArray): Long
    external fun chatOpenBytes(json: ByteArray): Long
    external fun chatClose(chat: Long)
    external fun chatText(
        chat: Long,
        turns: ByteArray,
        ends: IntArray,
        learned: BooleanArray,
        isPrompt: Boolean
    ): ByteArray
    external fun chatEncode(
        chat: Long,
        tokenizer: Long,
        turns: ByteArray,
        ends: IntArray,
        learned: BooleanArray,
        everything: Boolean
    ): IntArray
    external fun chatPrompt(
        chat: Long,
        tokenizer: Long,
        turns: ByteArray,
        ends: IntArray,
        learned: BooleanArray
    ): IntArray
    external fun chatEnds(chat: Long): IntArray

    external fun dataOpen(
        file: ByteArray,
        bundle: ByteArray,
        lossOn: ByteArray,
        length: Int,
        seed: Long,
        folder: ByteArray?
    ): Long
    external fun dataClose(data: Long)
    external fun dataRows(data: Long): Long
    external fun dataChecksum(data: Long): Long
    external fun dataNote(data: Long, index: Int): ByteArray?
    external fun dataStep(data: Long, step: Long, rows: Int, length: Int): IntArray

    /** [what] says what the text is. Java's texts may have half a character, which has no UTF-8. */
    fun bytes(what: String, text: String): ByteArray {
        val given = CharBuffer.wrap(text)
        val room = Charsets.UTF_8.newEncoder().maxBytesPerChar() * text.length
        val made = ByteBuffer.allocate(room.toInt())
        val encoder = Charsets.UTF_8.newEncoder().onMalformedInput(CodingErrorAction.REPORT)
        if (encoder.encode(given, made, true).isError) {
            val half = "\\u%04x".format(given.get().code)
            val where = "the $what has half a character, $half, at ${given.position() - 1}"
            throw MebpException(Code.INVALID_ARGUMENT, "$where; cut texts between whole characters")
        }
        return made.array().copyOf(made.position())
    }
}
