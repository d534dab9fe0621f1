// SPDX-License-Identifier: Apache-2.0
package org.mebp

import java.io.File
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Assert.fail

/** What test/packages/make_text.py has made. */
internal val textFolder = File(checkNotNull(System.getProperty("mebp.text")) { "give -Dmebp.text=FOLDER" })
internal val textBundle = File(textFolder, "text.mebp").path

internal fun rows(name: String): List<List<String>> = File(textFolder, name).readLines().map { it.split('\t') }

internal fun numbers(column: String) = column.split(' ').filter { it.isNotEmpty() }.map { it.toInt() }.toIntArray()

/** What is written in hexadecimal UTF-8. */
internal fun spelled(column: String) =
    String(ByteArray(column.length / 2) { column.substring(2 * it, 2 * it + 2).toInt(16).toByte() }, Charsets.UTF_8)

/** By its code, and by a line with [part] in it. */
internal fun refused(code: Code, part: String, call: () -> Unit) {
    try {
        call()
    } catch (failure: MebpException) {
        val line = checkNotNull(failure.message)
        assertEquals(line, code, failure.code)
        assertTrue("$line instead of $part", part in line)
        assertFalse(line, '\n' in line)
        return
    }
    fail("no refusal: $part")
}
