// SPDX-License-Identifier: Apache-2.0
package org.mebp.example

import android.content.res.AssetManager
import java.nio.ByteBuffer
import java.nio.ByteOrder
import org.mebp.Batch
import org.mebp.ModelBundle

/** The assets' tokens.bin: rows of little-endian numbers of 32 bits, as mebp-run takes them. */
internal class Tokens(assets: AssetManager, bundle: ModelBundle) {
    private val columns = bundle.info.maxSequence
    private val tokens: IntArray
    val rows: Int

    init {
        val bytes = assets.open("tokens.bin").use { it.readBytes() }
        tokens = IntArray(bytes.size / 4)
        ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asIntBuffer().get(tokens)
        rows = tokens.size / columns
    }

    /** Names what is in it. */
    val digest: String get() = "${tokens.size} tokens, ${tokens.contentHashCode()}"

    fun batch(row: Int) = Batch(tokens.copyOfRange(row * columns, (row + 1) * columns))
}
