// SPDX-License-Identifier: Apache-2.0
package org.mebp

/** What mebp.h calls mebp_code. */
enum class Code(internal val number: Int) {
    INVALID_ARGUMENT(1),
    NOT_FOUND(2),
    CORRUPT(3),
    INCOMPATIBLE(4),
    OUT_OF_RANGE(5),
    OUT_OF_MEMORY(6),
    IO(7),
    UNSUPPORTED(8),
    NOT_FINITE(9),
    BUSY(10),
    POISONED(11),
    CANCELLED(12),
    PAUSED(13),
    DISCONNECTED(14),
    REFUSED(15),

    /** Of a library that is newer than this class. */
    OTHER(-1)
}

/** What went wrong, by its code and in one line that says what to do. */
class MebpException(val code: Code, line: String) : RuntimeException(line) {
    /** What C calls: its lines are UTF-8, but for paths that are not. */
    @Suppress("unused")
    internal constructor(number: Int, line: ByteArray) :
        this(Code.values().firstOrNull { it.number == number } ?: Code.OTHER, String(line, Charsets.UTF_8))
}
